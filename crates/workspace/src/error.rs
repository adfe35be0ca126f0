//! Why a workspace, a skill or an input is not usable.

use std::io;
use std::path::{Path, PathBuf};

use crate::path::PathProblem;

/// Why a workspace, a skill or an input is not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// A system call failed.
    #[error("{action} {}: {error}", path.display())]
    Io {
        /// The failed action, such as `opening the workspace`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A newer prowess made the workspace.
    #[error("the workspace {} has version {version}, which this prowess does not know; update prowess, or remove the workspace", path.display())]
    NewerVersion {
        /// The workspace.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// A skill's name cannot be the name of a directory.
    #[error("`{0}` is not a valid skill name: use at most 64 letters, digits, `-`, `_` and `.`")]
    SkillName(String),
    /// A skill is too large to stage.
    #[error("the skill `{skill}` has more than {limit} {of}: too large to stage")]
    SkillTooLarge {
        /// The skill.
        skill: String,
        /// The limit.
        limit: u64,
        /// The limited items, such as `files`.
        of: &'static str,
    },
    /// A skill's files could not be read.
    #[error("could not stage the skill `{skill}`: {error}")]
    SkillFiles {
        /// The skill.
        skill: String,
        /// The error of its source.
        #[source]
        error: io::Error,
    },
    /// An input is refused. It was not staged, and nothing was deleted.
    #[error("the input `{from}` is refused: {reason}")]
    Input {
        /// The source of the input.
        from: String,
        /// Why it is refused, and what to do.
        reason: String,
    },
    /// A local file that a command should see is refused.
    #[error("the run cannot see `{path}`: {reason}")]
    Given {
        /// Its path, as commands see it.
        path: String,
        /// Why.
        reason: String,
    },
    /// The directory of a command is refused.
    #[error("the directory `{path}` is refused: {reason}")]
    Directory {
        /// The requested directory.
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
