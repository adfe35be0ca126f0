//! A fetched source that nobody can change any more: its entries, and a way to read their bytes.
//!
//! A snapshot comes from a Git repository ([`git`]), a directory ([`local`]), an archive ([`archive`]) or a web site
//! ([`well_known`]). [`fetch::fetch`] picks the right one. Nothing of the source runs, and nothing is written except below a
//! temporary directory.
//!
//! An entry that cannot be part of a skill stays in the list, so that the skill around it is refused and not shortened:
//!
//! - A link is [`EntryKind::Link`], a Git submodule is [`EntryKind::Submodule`], and a device is [`EntryKind::Other`].
//! - An entry whose name other systems cannot store is [`EntryKind::Other`]. So are all entries whose paths differ only in
//!   case or in Unicode normalisation.
//! - In a path that would break the rules of [`check_path`], `�` replaces each bad character. The entry is
//!   [`EntryKind::Other`].
//!
//! [`Snapshot::notices`] says why.

pub mod address;
pub mod archive;
mod entries;
pub mod fetch;
pub mod git;
pub mod http;
pub mod local;
pub mod memory;
pub mod token;
pub mod well_known;

use prowess_base::text::is_unprintable;
use thiserror::Error;

/// The most entries of a snapshot, directories included.
pub const MAX_ENTRIES: usize = 200_000;
/// The most bytes of one file of a skill. A package may have as many bytes in all its files.
pub const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;
/// The most bytes of all files of one skill, as for a package.
pub const MAX_SKILL_BYTES: u64 = 512 * 1024 * 1024;
/// The most files of one skill, as for a package.
pub const MAX_SKILL_FILES: usize = 10_000;
/// The most bytes of a path.
pub const MAX_PATH_BYTES: usize = 1024;
/// The most names in a path.
pub const MAX_DEPTH: usize = 64;
/// The most bytes of one name in a path. Common file systems store no longer names.
pub const MAX_NAME_BYTES: usize = 255;

/// What a snapshot has at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// Its bytes.
        size: u64,
        /// Whether its owner may execute it.
        is_executable: bool,
    },
    /// A symbolic link. No snapshot follows one.
    Link,
    /// Another Git repository that this one refers to. No snapshot fetches it.
    Submodule,
    /// A device, a FIFO or a socket, or a file whose path cannot be used. A skill with such an entry must be refused.
    Other,
}

/// Something in a snapshot. Directories are no entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path from the root of the snapshot, with `/` between names. [`check_path`] accepts it.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
}

/// A fetched source that nobody can change any more.
pub trait Snapshot: Send {
    /// Everything except directories, sorted by the bytes of the path. No path appears twice.
    fn entries(&self) -> &[Entry];

    /// Reads the file at `path`, which is the path of an entry of the kind [`EntryKind::File`]. The bytes are as many as
    /// the entry says.
    ///
    /// # Errors
    ///
    /// There is no such file, it is too large, it changed, or it cannot be read.
    fn read(&mut self, path: &str) -> Result<Vec<u8>, SnapshotError>;

    /// The full Git commit id that was fetched. `None` if the source is no Git repository.
    fn commit(&self) -> Option<&str>;

    /// The SHA-1 of the Git tree at the directory `path`; an empty path is the root. `None` if the source is no Git
    /// repository or has no such directory.
    fn folder_sha1(&self, path: &str) -> Option<String>;

    /// What was left out or cannot be used, and why.
    fn notices(&self) -> &[String];
}

/// Why a file of a snapshot cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The snapshot has no file at the path.
    #[error("the source has no file {path:?}")]
    NotAFile {
        /// The path.
        path: String,
    },
    /// The file is larger than a skill may be.
    #[error("{path:?} has {size} bytes; a file of a skill may have at most {most}")]
    TooLarge {
        /// The path.
        path: String,
        /// The bytes of the file.
        size: u64,
        /// The most bytes of a file.
        most: u64,
    },
    /// A local file is not what it was when the source was listed.
    #[error("{path:?} changed while it was read; run the command again")]
    Changed {
        /// The path.
        path: String,
    },
    /// The file cannot be read.
    #[error("cannot read {path:?}: {source}")]
    Io {
        /// The path.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
}

/// Why a path is not the path of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// A name in it is empty: the path is empty or absolute, ends with `/`, or has `//`.
    #[error("the path is absolute or has an empty name")]
    EmptyName,
    /// A name in it is `.` or `..`.
    #[error("the path has a name `.` or `..`")]
    Dots,
    /// It has a control character, an invisible character or a backslash.
    #[error("the path has a control character, an invisible character or a backslash")]
    Character,
    /// It has more than [`MAX_PATH_BYTES`] bytes, more than [`MAX_DEPTH`] names, or a name with more than
    /// [`MAX_NAME_BYTES`] bytes.
    #[error("the path is too long or too deep")]
    TooLong,
}

/// Checks that `path` is relative, has `/` between names, and can neither lead out of a directory nor confuse a terminal.
///
/// ```
/// use prowess_install::snapshot::{PathError, check_path};
///
/// assert_eq!(check_path("skills/tide/SKILL.md"), Ok(()));
/// assert_eq!(check_path("/etc/passwd"), Err(PathError::EmptyName));
/// assert_eq!(check_path("skills/../../x"), Err(PathError::Dots));
/// assert_eq!(check_path("a\\b"), Err(PathError::Character));
/// ```
///
/// # Errors
///
/// The first rule that the path breaks.
pub fn check_path(path: &str) -> Result<(), PathError> {
    if path.len() > MAX_PATH_BYTES {
        return Err(PathError::TooLong);
    }
    if path.chars().any(is_bad_character) {
        return Err(PathError::Character);
    }
    let mut depth = 0;
    for name in path.split('/') {
        match name {
            "" => return Err(PathError::EmptyName),
            "." | ".." => return Err(PathError::Dots),
            name if name.len() > MAX_NAME_BYTES => return Err(PathError::TooLong),
            _ => depth += 1,
        }
    }
    if depth > MAX_DEPTH { Err(PathError::TooLong) } else { Ok(()) }
}

/// Whether no path of an entry has this character. An invisible one would make two names look the same.
fn is_bad_character(c: char) -> bool {
    c == '\\' || c.is_control() || is_unprintable(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_or_confuse_are_refused() {
        for path in ["a", "a/b", ".agents/skills/x", "a b", "...", "..a", "a..", "é/ü", "�"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for path in ["", "/", "/a", "a/", "a//b"] {
            assert_eq!(check_path(path), Err(PathError::EmptyName), "{path}");
        }
        for path in [".", "..", "a/..", "../a", "a/./b", "a/../b"] {
            assert_eq!(check_path(path), Err(PathError::Dots), "{path}");
        }
        for path in
            ["a\0", "a\nb", "a\u{1b}[2J", "a\\b", "a\u{7f}", "a\u{85}b", "run\u{200b}.sh", "a\u{202e}hs.md"]
        {
            assert_eq!(check_path(path), Err(PathError::Character), "{path:?}");
        }
        let deep = vec!["a"; MAX_DEPTH + 1].join("/");
        for path in ["a".repeat(256), "a/".repeat(600), deep] {
            assert_eq!(check_path(&path), Err(PathError::TooLong));
        }
    }
}
