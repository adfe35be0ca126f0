//! Stages skills, runs their commands isolated, collects what they made, and keeps artifacts.

mod artifact;
#[cfg(feature = "backend")]
mod backend;
mod blocking;
mod collect;
mod command;
mod digest;
mod dir;
mod error;
pub mod executor;
#[cfg(feature = "testing")]
mod fake;
mod host_rule;
mod input;
mod limits;
mod live;
mod mime;
mod path;
mod report;
mod request;
mod runner;
mod span;
mod stage;
mod workspace;

#[cfg(feature = "s3")]
pub use artifact::S3Bucket;
pub use artifact::{
    ArtifactError, ArtifactFile, ArtifactIndex, ArtifactName, ArtifactNameProblem, ArtifactRecord,
    ArtifactStore, Artifacts, BlobStore, DiskBlobs, DiskIndex, LoadedArtifact, MAX_ARTIFACT_BYTES,
    MAX_ARTIFACT_NAME, MemoryBlobs, MemoryIndex, ScopedArtifacts,
};
#[cfg(feature = "object")]
pub use artifact::{ObjectBlobs, ObjectIndex};
#[cfg(feature = "backend")]
pub use backend::WorkspaceBackend;
pub use collect::{
    CollectLimits, CollectedFile, GlobError, GlobProblem, MAX_GLOB_ALTERNATIVES, MAX_GLOB_BYTES, MAX_GLOBS,
    MAX_VISITED, normalize_glob,
};
pub use command::{Captured, Command, Exit, Finished, Input, Level, NO_MEMORY_GROUP, Network, Sandbox, Stop};
pub use error::WorkspaceError;
#[cfg(feature = "container")]
pub use executor::container::{ContainerExecutor, ContainerOptions, Engine};
pub use executor::local::{LocalExecutor, LocalOptions};
pub use executor::{Abilities, ExecuteError, Executor, NoSink, OutputSink, Stream};
pub use host_rule::{HostRule, HostRuleError};
pub use input::{HostGate, HostPaths, MAX_INPUT_BYTES, MAX_INPUT_FILES, MAX_INPUTS, StagedInputs};
pub use limits::{DEFAULT_TIMEOUT, Limits, MAX_TIMEOUT};
pub use live::{LiveError, LiveOptions, LivePrompt, LiveRuns, LiveStatus, Look, MAX_WAIT, PromptKind};
pub use mime::{Mime, mime_of};
pub use path::{InnerPath, PathProblem};
pub use report::RunReport;
pub use request::{InputMode, MAX_HOSTS, RunInput, RunOutputs, RunRequest, SkillInput};
pub use runner::{RunContext, RunError, Runner, SkillSources};
pub use stage::{
    MAX_SKILL_BYTES, MAX_SKILL_FILES, SkillFile, SkillFiles, SkillListing, StageSource, StagedSkill,
};
pub use workspace::{Cleaned, NOBODY, Workspace, Workspaces};

/// What tests of this crate's users need: suites for their own implementations, and a fake executor.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::artifact::testing::artifact_store_suite;
    pub use crate::fake::FakeExecutor;
}
