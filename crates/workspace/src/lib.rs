//! Stages skills, runs their commands isolated, collects what they made, and keeps artifacts.

mod blocking;
mod command;
mod digest;
mod dir;
mod error;
pub mod executor;
mod limits;
mod path;
mod stage;
mod workspace;

pub use command::{Captured, Command, Exit, Finished, Level, Network, Sandbox};
pub use error::WorkspaceError;
pub use executor::{ExecuteError, Executor, NoSink, OutputSink, Stream};
pub use limits::{DEFAULT_TIMEOUT, Limits, MAX_TIMEOUT};
pub use path::{InnerPath, PathProblem};
pub use stage::{MAX_SKILL_BYTES, MAX_SKILL_FILES, SkillFile, SkillFiles, SkillListing, StageSource, StagedSkill};
pub use workspace::{Cleaned, NOBODY, Workspace, Workspaces};
