//! Why a command of an installer failed.

use std::path::PathBuf;

use thiserror::Error;

use crate::discover::DiscoverError;
use crate::lock::LockError;
use crate::place::PlaceError;
use crate::snapshot::fetch::FetchError;
use crate::source::SourceError;
use crate::store::StoreError;
use crate::tree::TreeError;

/// Why a command of an installer failed. Nothing was changed, unless the error says so.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The source of a locked skill cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The source cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Skills cannot be looked for in the source.
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    /// The content cache cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The installed skills cannot be read or changed.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A lock file cannot be read or written.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The files of a skill cannot be read.
    #[error("{name}: {source}")]
    Tree {
        /// The name of the skill's directory.
        name: String,
        /// The reason.
        source: TreeError,
    },
    /// The skills of a source are too large together.
    #[error(
        "the skills of {name} have more than {most} bytes together; choose some of them with --skill NAME"
    )]
    SourceTooLarge {
        /// The source.
        name: String,
        /// The most bytes.
        most: u64,
    },
    /// Skills are in the way.
    #[error("{name}: {reason}")]
    Blocked {
        /// The name of the skill's directory.
        name: String,
        /// What is in the way, and what to do.
        reason: String,
    },
    /// There is no lock.
    #[error("{} does not exist, so nothing says what must be installed", .0.display())]
    NoLock(PathBuf),
    /// No skill of this name is locked.
    #[error("no skill called {0:?} is in the lock; `prowess list` shows what is installed")]
    NotLocked(String),
    /// The skills were installed, but the source cannot be remembered.
    #[error("the skills are installed, but their source could not be remembered: {0}")]
    KnownSources(std::io::Error),
    /// A copy would look like one of the project's own skills.
    #[error(
        "{agent} reads the directory {directory}, which can have skills of the project itself; give it links, not copies"
    )]
    CommonDirectory {
        /// The name of the agent.
        agent: &'static str,
        /// Its directory in a project.
        directory: &'static str,
    },
    /// The agent has no directory for the skills of a user.
    #[error("{0} has no directory for the skills of a user; install for a project instead")]
    NoGlobalDirectory(&'static str),
}
