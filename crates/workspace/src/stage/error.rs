//! Why a skill was not staged.

use std::io;

use super::{MAX_SKILL_BYTES, MAX_SKILL_ENTRIES, MAX_SKILL_FILES, MAX_SKILL_PATHS};
use crate::error::WorkspaceError;

/// Why a skill was not staged.
#[derive(Debug)]
pub(super) enum StageError {
    Files,
    Bytes,
    Entries,
    Paths,
    /// The skill changed while it was copied.
    Changed,
    Io(io::Error),
}

/// The message for a skill that keeps changing.
pub(super) const CHANGED: &str = "the skill changed while it was staged; try again";

impl From<io::Error> for StageError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl StageError {
    /// The error for the caller, with the name of the skill.
    pub(super) fn for_skill(self, skill: &str) -> WorkspaceError {
        let skill = skill.to_owned();
        match self {
            Self::Files => {
                WorkspaceError::SkillTooLarge { skill, limit: MAX_SKILL_FILES as u64, of: "files" }
            }
            Self::Bytes => WorkspaceError::SkillTooLarge { skill, limit: MAX_SKILL_BYTES, of: "bytes" },
            Self::Entries => WorkspaceError::SkillTooLarge {
                skill,
                limit: MAX_SKILL_ENTRIES as u64,
                of: "files, directories and links",
            },
            Self::Paths => {
                WorkspaceError::SkillTooLarge { skill, limit: MAX_SKILL_PATHS as u64, of: "bytes of paths" }
            }
            Self::Changed => {
                let error = io::Error::other(CHANGED);
                WorkspaceError::SkillFiles { skill, error }
            }
            Self::Io(error) => WorkspaceError::SkillFiles { skill, error },
        }
    }
}
