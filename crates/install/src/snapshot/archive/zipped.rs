//! Unpacks zip archives.

use std::io::Cursor;

use prowess_base::text::escaped_start;
use zip::ZipArchive;
use zip::result::ZipError;

use super::{Admitted, ArchiveError, Unpacking};

/// The bits of a Unix mode that tell what an entry is.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

pub(super) fn unpack(bytes: &[u8], unpacking: &mut Unpacking<'_>) -> Result<(), ArchiveError> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| damaged(&error))?;
    if archive.has_duplicate_names() {
        return Err(ArchiveError::Damaged("two entries have the same name".to_owned()));
    }
    if archive.len() > unpacking.limits.files.saturating_mul(2) {
        return Err(ArchiveError::TooManyFiles(unpacking.limits.files));
    }
    // Entries that share their compressed bytes are a bomb.
    if archive.has_overlapping_files().map_err(|error| damaged(&error))? {
        return Err(ArchiveError::Damaged("entries overlap".to_owned()));
    }
    for index in 0..archive.len() {
        // Looks at the entry before its bytes: those of an encrypted one cannot be opened.
        let entry = archive.by_index_raw(index).map_err(|error| damaged(&error))?;
        let raw = entry.name_raw().to_vec();
        let mode = entry.unix_mode().unwrap_or(0);
        let is_encrypted = entry.encrypted();
        drop(entry);
        let shown = || escaped_start(&String::from_utf8_lossy(&raw));
        let is_directory = raw.ends_with(b"/");
        match mode & KIND {
            0 => {}
            REGULAR if !is_directory => {}
            DIRECTORY if is_directory => {}
            LINK => return Err(ArchiveError::Kind { path: shown(), what: "a link" }),
            _ => return Err(ArchiveError::Kind { path: shown(), what: "a special entry" }),
        }
        if is_encrypted {
            return Err(ArchiveError::Encrypted(shown()));
        }
        let (path, admitted) = unpacking.admit(&raw, is_directory)?;
        if is_directory || admitted == Admitted::LeftOut {
            continue;
        }
        let entry = archive.by_index(index).map_err(|error| damaged(&error))?;
        let size = entry.size();
        if unpacking.file(path.clone(), entry, mode & 0o100 != 0)? != size {
            return Err(ArchiveError::Damaged(format!("{path} has another size than the archive says")));
        }
    }
    Ok(())
}

fn damaged(error: &ZipError) -> ArchiveError {
    ArchiveError::Damaged(escaped_start(&error.to_string()))
}
