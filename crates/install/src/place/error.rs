//! Why skills cannot be placed.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::tree::TreeError;

/// Why a place cannot be used, or a transaction failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Another program wrote a lock file meanwhile.
    #[error("{} was changed meanwhile; nothing was changed here: run the command again", .0.display())]
    LockChanged(PathBuf),
    /// The path of the place is unusable.
    #[error("{0} must be an absolute path below another directory")]
    Root(PathBuf),
    /// A directory is a link that leads out of the directory of the place, or to something that is no directory of skills.
    #[error("{path} is a link that leads out of {base}, or to no directory of skills; replace it by a directory", path = path.display(), base = base.display())]
    LeadsOut {
        /// The directory.
        path: PathBuf,
        /// The directory that has the place.
        base: PathBuf,
    },
    /// Another process holds the place.
    #[error("another prowess process is changing {0}; try again when it has ended")]
    Busy(PathBuf),
    /// A name is not the name of one directory.
    #[error("{0:?} cannot be the name of a skill's directory")]
    Name(String),
    /// A transaction has two changes for one directory.
    #[error("two changes for one skill: {0}")]
    Twice(PathBuf),
    /// An agent's directory has something under the name of a skill.
    #[error(
        "{0} exists and prowess did not make it, or it was changed; move it away or leave this agent out"
    )]
    Occupied(PathBuf),
    /// The caller did not list the path.
    #[error("{0} is neither a lock file nor an agent's directory of this place")]
    NotListed(PathBuf),
    /// A directory is on another file system, so that nothing can be renamed to it.
    #[error("{0} is on another file system than the skills; leave this agent out")]
    OtherFileSystem(PathBuf),
    /// A directory cannot be written.
    #[error("{0} is not writable; change its permissions")]
    NotWritable(PathBuf),
    /// The directory for changed skills is a link or a file.
    #[error("{0} is not a directory; move it away, because changed skills are kept there")]
    NotADirectory(PathBuf),
    /// A path is not UTF-8.
    #[error("{0} is not UTF-8; rename it")]
    NotUtf8(PathBuf),
    /// A lock file is a link or no file.
    #[error("{0} is not a regular file; replace it by one")]
    LockFile(PathBuf),
    /// The files of a skill in the store are gone or damaged.
    #[error("cannot open the files of the skill {name}: {source}; run the command again")]
    Stored {
        /// The name of the skill.
        name: String,
        /// The reason.
        source: TreeError,
    },
    /// The files of a skill cannot be copied.
    #[error("cannot copy the files of the skill {name}: {source}")]
    Copy {
        /// The name of the skill.
        name: String,
        /// The reason.
        source: io::Error,
    },
    /// The journal of an unfinished transaction cannot be used.
    #[error("cannot use the journal in {path}: {why}; `old` and `new` there can have the only copy of files that you edited: look at them, then delete that directory", path = path.display())]
    Journal {
        /// The directory of the transaction.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Something failed after the first change.
    #[error("{0}; the next prowess command tries to finish this")]
    Unfinished(Box<PlaceError>),
    /// The system refused.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What failed.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A test stopped the transaction.
    #[cfg(test)]
    #[error("stopped")]
    Stopped,
}

impl PlaceError {
    pub(super) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }

    /// Whether the process counts as killed, and so must not clean up.
    #[cfg(test)]
    pub(super) fn is_killed(&self) -> bool {
        matches!(self, Self::Stopped)
    }

    /// A process that is killed returns no error.
    #[cfg(not(test))]
    #[allow(clippy::unused_self, reason = "tests have such errors")]
    pub(super) fn is_killed(&self) -> bool {
        false
    }
}
