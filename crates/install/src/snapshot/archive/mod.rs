//! Unpacks archives in memory: zip (also `.skill`), tar and compressed tar.
//!
//! An archive with anything unusual is refused as a whole. Sizes in headers count for nothing: only bytes that were really
//! unpacked do.

mod tarball;
mod zipped;

use std::collections::HashMap;
use std::io::{self, Read};

use prowess_base::text::escaped_start;
use thiserror::Error;

use super::entries::{folded, is_git_directory};
use super::memory::{MemoryFile, MemorySnapshot};
use super::{PathError, check_path};

/// Directories that macOS adds to archives. They hold no files of a skill.
const MACOS: &str = "__MACOSX";

/// How large an archive may be.
///
/// The defaults are those of `skills`. The environment variables `SKILLS_DOWNLOAD_MAX_BYTES`, `SKILLS_EXTRACT_MAX_BYTES` and
/// `SKILLS_EXTRACT_MAX_FILES` set other values; the caller reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// The most bytes of a downloaded file.
    pub download_bytes: u64,
    /// The most bytes of all files in an archive.
    pub extract_bytes: u64,
    /// The most files in an archive.
    pub files: usize,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self { download_bytes: 10 * 1024 * 1024, extract_bytes: 25 * 1024 * 1024, files: 1_000 }
    }
}

/// The format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveKind {
    /// Zip, also with the suffix `.skill`.
    Zip,
    /// Tar without compression.
    Tar,
    /// Tar with gzip.
    TarGz,
}

impl ArchiveKind {
    /// The format that the first bytes tell. `None` if the bytes are no archive.
    ///
    /// ```
    /// use prowess_install::snapshot::archive::ArchiveKind;
    ///
    /// assert_eq!(ArchiveKind::of(b"PK\x03\x04..."), Some(ArchiveKind::Zip));
    /// assert_eq!(ArchiveKind::of(b"---\nname: tide\n"), None);
    /// ```
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            Some(Self::Zip)
        } else if bytes.starts_with(b"\x1f\x8b") {
            Some(Self::TarGz)
        } else if bytes.get(257..262) == Some(b"ustar") {
            Some(Self::Tar)
        } else {
            None
        }
    }
}

/// Why an archive was refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The bytes are no archive that prowess can read.
    #[error("not a zip, tar or tar.gz archive")]
    NotAnArchive,
    /// The archive is damaged, or uses something that prowess does not support.
    #[error("cannot read the archive: {0}")]
    Damaged(String),
    /// The archive has too many files.
    #[error("the archive has more than {0} files (SKILLS_EXTRACT_MAX_FILES)")]
    TooManyFiles(usize),
    /// The files have too many bytes.
    #[error("the files in the archive have more than {0} bytes (SKILLS_EXTRACT_MAX_BYTES)")]
    TooManyBytes(u64),
    /// An entry has a path that cannot be used.
    #[error("the archive has an entry {path:?}: {reason}")]
    Path {
        /// The path.
        path: String,
        /// The rule that it breaks.
        reason: PathError,
    },
    /// An entry has a name that some systems cannot store, or is not UTF-8.
    #[error("the archive has an entry {0:?}, a name that some systems cannot store")]
    Name(String),
    /// Two entries have the same path, or paths that some systems take for the same.
    #[error("the archive has both {first:?} and {second:?}; some systems take them for one file")]
    Twins {
        /// The first path.
        first: String,
        /// The second path.
        second: String,
    },
    /// An entry is neither a file nor a directory.
    #[error("the archive has {what} at {path:?}; pack only files and directories")]
    Kind {
        /// The path.
        path: String,
        /// What the entry is.
        what: &'static str,
    },
    /// An entry is encrypted.
    #[error("{0:?} in the archive is encrypted; pack it without a password")]
    Encrypted(String),
}

/// Unpacks an archive. A top directory that all files share stays.
///
/// # Errors
///
/// The archive is damaged, exceeds `limits`, or has an entry that is refused.
pub fn unpack(bytes: &[u8], limits: &ArchiveLimits) -> Result<MemorySnapshot, ArchiveError> {
    let unpacked = unpack_files(bytes, limits)?;
    Ok(MemorySnapshot::new(unpacked.files, unpacked.notices))
}

/// The files of an archive.
pub(super) fn unpack_files(bytes: &[u8], limits: &ArchiveLimits) -> Result<Unpacked, ArchiveError> {
    let mut unpacking = Unpacking::new(limits);
    match ArchiveKind::of(bytes).ok_or(ArchiveError::NotAnArchive)? {
        ArchiveKind::Zip => zipped::unpack(bytes, &mut unpacking)?,
        ArchiveKind::Tar => tarball::unpack(bytes, &mut unpacking)?,
        ArchiveKind::TarGz => tarball::unpack(flate2::read::MultiGzDecoder::new(bytes), &mut unpacking)?,
    }
    Ok(unpacking.unpacked)
}

/// What an archive had.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    pub(super) files: Vec<MemoryFile>,
    pub(super) notices: Vec<String>,
}

/// Whether an entry belongs to the skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admitted {
    Yes,
    LeftOut,
}

/// Checks and collects the entries of an archive.
struct Unpacking<'a> {
    limits: &'a ArchiveLimits,
    bytes: u64,
    entries: usize,
    /// The paths of files and of all directories above them, by what some systems take them for.
    seen: HashMap<String, (String, bool)>,
    unpacked: Unpacked,
}

impl<'a> Unpacking<'a> {
    fn new(limits: &'a ArchiveLimits) -> Self {
        Self { limits, bytes: 0, entries: 0, seen: HashMap::new(), unpacked: Unpacked::default() }
    }

    /// Checks the path of an entry.
    fn admit(&mut self, raw: &[u8], is_directory: bool) -> Result<(String, Admitted), ArchiveError> {
        self.entries += 1;
        // Directories cost nothing to pack, but time to look at.
        if self.entries > self.limits.files.saturating_mul(2) {
            return Err(ArchiveError::TooManyFiles(self.limits.files));
        }
        let Ok(path) = std::str::from_utf8(raw) else {
            return Err(ArchiveError::Name(escaped_start(&String::from_utf8_lossy(raw))));
        };
        // `tar -c .` writes `./` before every path.
        let path = path.strip_prefix("./").unwrap_or(path);
        let path = if is_directory { path.strip_suffix('/').unwrap_or(path) } else { path };
        if is_directory && matches!(path, "" | ".") {
            return Ok((String::new(), Admitted::LeftOut));
        }
        check_path(path).map_err(|reason| ArchiveError::Path { path: escaped_start(path), reason })?;
        if path.split('/').any(|name| name.ends_with(['.', ' ']) || name.starts_with(' ')) {
            return Err(ArchiveError::Name(path.to_owned()));
        }
        if path.split('/').any(is_git_directory) || path.split('/').next() == Some(MACOS) {
            if !is_directory {
                self.unpacked.notices.push(format!("{path}: left out: never part of a skill"));
            }
            return Ok((path.to_owned(), Admitted::LeftOut));
        }
        self.check_twins(path, is_directory)?;
        if !is_directory && self.unpacked.files.len() >= self.limits.files {
            return Err(ArchiveError::TooManyFiles(self.limits.files));
        }
        Ok((path.to_owned(), Admitted::Yes))
    }

    fn check_twins(&mut self, path: &str, is_directory: bool) -> Result<(), ArchiveError> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let prefix = &path[..end];
            let is_directory = is_directory || end < path.len();
            match self.seen.get(&folded(prefix)) {
                // A directory may be named any number of times, a file only once.
                Some((first, true)) if is_directory && first == prefix => {}
                Some((first, _)) => {
                    return Err(ArchiveError::Twins { first: first.clone(), second: prefix.to_owned() });
                }
                None => {
                    self.seen.insert(folded(prefix), (prefix.to_owned(), is_directory));
                }
            }
        }
        Ok(())
    }

    /// Reads the bytes of a file that was admitted. Counts what the reader gives, whatever a header says.
    fn file(&mut self, path: String, reader: impl Read, is_executable: bool) -> Result<u64, ArchiveError> {
        let left = self.limits.extract_bytes.saturating_sub(self.bytes);
        let mut bytes = Vec::new();
        reader
            .take(left.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| self.read_error(&error))?;
        let size = bytes.len() as u64;
        if size > left {
            return Err(ArchiveError::TooManyBytes(self.limits.extract_bytes));
        }
        self.bytes += size;
        self.unpacked.files.push(MemoryFile { path, bytes, is_executable });
        Ok(size)
    }

    fn read_error(&self, error: &io::Error) -> ArchiveError {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<tarball::StreamTooLong>());
        if inner.is_some() {
            return ArchiveError::TooManyBytes(self.limits.extract_bytes);
        }
        ArchiveError::Damaged(escaped_start(&error.to_string()))
    }
}
