//! What can go wrong with a workspace.

use std::io;
use std::path::{Path, PathBuf};

use crate::path::PathProblem;

/// Why a workspace, a skill in it or an input could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The system did not do its part.
    #[error("{action} {}: {error}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The workspace was made by a later version of this program.
    #[error("the workspace {} has version {version}, which this program does not know; update it, or remove the workspace", path.display())]
    NewerVersion {
        /// The workspace.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// A skill's name cannot be a directory's.
    #[error("`{0}` cannot be a skill's name: letters, digits, `-`, `_` and `.`, at most 64 of them")]
    SkillName(String),
    /// A skill is too large to stage.
    #[error("the skill `{skill}` has more than {limit} {of}: too large to stage")]
    SkillTooLarge {
        /// The skill.
        skill: String,
        /// How much is allowed.
        limit: u64,
        /// Of what, such as `files`.
        of: &'static str,
    },
    /// A skill's files could not be read.
    #[error("staging the skill `{skill}`: {error}")]
    SkillFiles {
        /// The skill.
        skill: String,
        /// What its source said.
        #[source]
        error: io::Error,
    },
    /// An input is refused. Nothing of it was staged, and nothing was deleted.
    #[error("the input `{from}` is refused: {reason}")]
    Input {
        /// Where it was to come from.
        from: String,
        /// Why it is refused, and what to do.
        reason: String,
    },
    /// A directory to run in is refused.
    #[error("the directory `{path}` is refused: {reason}")]
    Directory {
        /// The directory as it was asked for.
        path: String,
        /// Why.
        reason: String,
    },
    /// A path is refused.
    #[error("the path `{path}` is refused: {problem}")]
    Path {
        /// The path.
        path: String,
        /// Why.
        #[source]
        problem: PathProblem,
    },
}

impl WorkspaceError {
    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>, error: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.as_ref().to_owned(), error: error.into() }
    }
}
