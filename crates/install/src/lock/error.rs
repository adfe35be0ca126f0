//! Why a lock file cannot be read or written.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a lock file cannot be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LockError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The path has a link, a directory or a device.
    #[error("{} is not a regular file: replace it with one, or remove it", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than prowess reads.
    #[error("{} has more than {most} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most bytes.
        most: u64,
    },
    /// The file is not JSON, or not that of a lock.
    #[error("cannot understand {}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// The file has a version that prowess does not know. It is never overwritten.
    #[error("{} has version {found}, but prowess knows only version {known}: {advice}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: String,
        /// The version that prowess reads and writes.
        known: u64,
        /// What to do.
        advice: &'static str,
    },
    /// An entry of prowess's own lock is refused.
    #[error("{}: the entry {name:?} is refused: {reason}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The entry.
        name: String,
        /// Why.
        reason: String,
    },
}
