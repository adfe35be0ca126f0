//! Unpacks tar archives.

use std::io::{self, Read};

use tar::EntryType;
use thiserror::Error;

use super::{Admitted, ArchiveError, Unpacking};

/// The bytes that headers, padding and long names of one entry may add to the stream.
const ENTRY_OVERHEAD: u64 = 8 * 1024;

/// A tar stream is longer than its files may be.
#[derive(Debug, Error)]
#[error("the stream is too long")]
pub(super) struct StreamTooLong;

/// Fails after a number of bytes. So neither long names nor padding can make an archive expensive.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| io::Error::other(StreamTooLong))?;
        Ok(count)
    }
}

pub(super) fn unpack(reader: impl Read, unpacking: &mut Unpacking<'_>) -> Result<(), ArchiveError> {
    let limits = unpacking.limits;
    let overhead = ENTRY_OVERHEAD.saturating_mul(limits.files as u64 + 1);
    let reader = Bounded { inner: reader, left: limits.extract_bytes.saturating_add(overhead) };
    let mut archive = tar::Archive::new(reader);
    let entries = archive.entries().map_err(|error| unpacking.read_error(&error))?;
    for entry in entries {
        let mut entry = entry.map_err(|error| unpacking.read_error(&error))?;
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let path = entry.path_bytes().into_owned();
        let what = match kind {
            EntryType::Regular | EntryType::Continuous => None,
            EntryType::Directory => {
                unpacking.admit(&path, true)?;
                continue;
            }
            EntryType::Symlink => Some("a link"),
            EntryType::Link => Some("a hard link"),
            EntryType::Char | EntryType::Block => Some("a device"),
            EntryType::Fifo => Some("a FIFO"),
            _ => Some("a special entry"),
        };
        if let Some(what) = what {
            let path = prowess_base::text::escaped_start(&String::from_utf8_lossy(&path));
            return Err(ArchiveError::Kind { path, what });
        }
        let (path, admitted) = unpacking.admit(&path, false)?;
        if admitted == Admitted::LeftOut {
            continue;
        }
        let mode = entry.header().mode().map_err(|error| unpacking.read_error(&error))?;
        let size = entry.size();
        if unpacking.file(path.clone(), &mut entry, mode & 0o100 != 0)? != size {
            return Err(ArchiveError::Damaged(format!("{path} ends too early")));
        }
    }
    Ok(())
}
