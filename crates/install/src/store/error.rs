//! Why a skill cannot be staged.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::snapshot::{MAX_SKILL_BYTES, MAX_SKILL_FILES, PathError, SnapshotError};
use crate::tree::{MAX_DEPTH, TreeError};

/// Why a skill cannot be staged, or the store cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another user could plant files.
    #[error("{0} must belong to you, and only you may write to it; remove it or change its mode")]
    NotPrivate(PathBuf),
    /// An entry is a link.
    #[error("{0:?} is a link; a skill may have only regular files")]
    Link(String),
    /// An entry is a submodule.
    #[error("{0:?} is a Git submodule; a skill may have only regular files")]
    Submodule(String),
    /// An entry is a device, or the snapshot found its name unusable.
    #[error("{0:?} is a device, or has a name that not every system can store")]
    Unusable(String),
    /// Some file systems take two paths for one.
    #[error("{path:?} and {twin:?} are one file on some systems; rename one of them at the source")]
    Twins {
        /// A path.
        path: String,
        /// The other one, or a directory of it.
        twin: String,
    },
    /// A path is too long or has forbidden characters.
    #[error("cannot store {path:?}: {source}")]
    Path {
        /// The path.
        path: String,
        /// The rule that it breaks.
        source: PathError,
    },
    /// A name ends with a dot or a space.
    #[error("a name in {0:?} ends with a dot or a space, which some systems drop")]
    TrailingDotOrSpace(String),
    /// A file is too deep.
    #[error("{0:?} is more than {MAX_DEPTH} levels deep")]
    TooDeep(String),
    /// The skill has too many files.
    #[error("the skill has more than {MAX_SKILL_FILES} files")]
    TooManyFiles,
    /// The skill has too many bytes.
    #[error("the skill has more than {MAX_SKILL_BYTES} bytes")]
    TooLarge,
    /// The skill has no file.
    #[error("the skill has no files")]
    Empty,
    /// Both sides of an update changed the same part of a skill.
    #[error("the update conflicts with local changes in {0:?}")]
    Conflict(String),
    /// The source cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A directory cannot be read.
    #[error(transparent)]
    Tree(TreeError),
    /// The store cannot be read or written.
    #[error("cannot {action} the skill cache {path}: {source}")]
    Io {
        /// What failed.
        action: &'static str,
        /// The directory of the store.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl StoreError {
    /// Whether the skill is refused. Otherwise the store itself cannot be used.
    pub fn is_about_the_skill(&self) -> bool {
        !matches!(self, Self::NotPrivate(_) | Self::Io { .. })
    }
}
