//! Stages skills, runs their commands isolated, collects what they made, and keeps artifacts.
//!
//! ```
//! use std::sync::Arc;
//! use prowess_workspace::testing::FakeExecutor;
//! use prowess_workspace::{Artifacts, RunContext, RunRequest, Runner, StageSource, Workspaces};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let skill = scratch.path().join("greet");
//! # std::fs::create_dir(&skill)?;
//! std::fs::write(skill.join("hello.txt"), "Hello!\n")?;
//!
//! let runner = Runner {
//!     workspaces: Workspaces::open(scratch.path().join("workspaces"))?,
//!     artifacts: Some(Arc::new(Artifacts::in_memory())),
//!     // Plays a shell, for tests. `LocalExecutor` and `ContainerExecutor` run processes.
//!     executor: Some(Arc::new(FakeExecutor)),
//! };
//! let skills = move |name: &str| (name == "greet").then(|| StageSource::Directory(skill.clone()));
//! let mut request = RunRequest::new("greet", "cat hello.txt > $OUTPUT_DIR/greeting.txt");
//! request.output_files = vec!["out/*.txt".into()];
//! let report = runner.run("session-1", request, RunContext::new(&skills)).await?;
//! assert_eq!(report.exit_code, 0);
//! assert_eq!(report.output_files[0].content.as_deref(), Some("Hello!\n"));
//! # Ok(())
//! # }
//! ```
//!
//! [`Workspaces`] have a directory for each session, in which a [`Runner`] stages a skill, runs a [`RunRequest`] by an
//! [`Executor`] and collects what it asked for. [`LocalExecutor`] holds commands with bubblewrap or Landlock,
//! `ContainerExecutor` (feature `container`) with Docker or Podman. [`LiveRuns`] are commands that are typed into.
//! [`Artifacts`] keep versions of files beyond a session: in memory, on the disk, or in an object store (features
//! `object` and `s3`).

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
mod missing;
mod path;
mod report;
mod request;
mod room;
mod runner;
mod span;
mod stage;
mod warning;
mod workspace;

#[cfg(feature = "s3")]
pub use artifact::S3Bucket;
pub use artifact::{
    ArtifactError, ArtifactFile, ArtifactIndex, ArtifactKey, ArtifactName, ArtifactNameProblem,
    ArtifactRecord, ArtifactStore, Artifacts, BlobStore, DiskBlobs, DiskIndex, LoadedArtifact,
    MAX_ARTIFACT_BYTES, MAX_ARTIFACT_NAME, MAX_SCOPE, MemoryBlobs, MemoryIndex, Scope, ScopeProblem,
};
#[cfg(feature = "object")]
pub use artifact::{ObjectBlobs, ObjectIndex};
#[cfg(feature = "backend")]
pub use backend::WorkspaceBackend;
pub use collect::{
    CollectLimits, CollectedFile, GlobError, GlobProblem, MAX_GLOB_ALTERNATIVES, MAX_GLOB_BYTES, MAX_GLOBS,
    MAX_VISITED, normalize_glob,
};
pub use command::{Captured, Command, Exit, Finished, Input, Level, LevelError, Network, Sandbox, Stop};
pub use dir::remove_tree;
pub use error::WorkspaceError;
#[cfg(feature = "container")]
pub use executor::container::{ContainerExecutor, ContainerOptions, Engine, EngineKind};
pub use executor::local::{LocalExecutor, LocalOptions};
pub use executor::{Abilities, ExecuteError, Executor, NoSink, OutputSink, Stream};
pub use host_rule::{HostRule, HostRuleError};
pub use input::{InputGate, InputPaths, MAX_INPUT_BYTES, MAX_INPUT_FILES, MAX_INPUTS, StagedInputs};
pub use limits::{DEFAULT_TIMEOUT, Limits, MAX_TIMEOUT};
pub use live::{LiveError, LiveOptions, LiveOutput, LivePrompt, LiveRuns, LiveStatus, MAX_WAIT, PromptKind};
pub use mime::{Mime, mime_of};
pub use missing::Missing;
pub use path::{InnerPath, PathProblem};
pub use report::RunReport;
pub use request::{InputMode, MAX_HOSTS, RunInput, RunOutputs, RunRequest, SkillInput};
pub use room::MAX_REPORT_BYTES;
pub use runner::{RunContext, RunError, Runner, SkillSources};
pub use stage::{
    MAX_SKILL_BYTES, MAX_SKILL_ENTRIES, MAX_SKILL_FILES, MAX_SKILL_PATHS, SkillListing, StageFile,
    StageFiles, StageSource, StagedSkill,
};
pub use warning::RunWarning;
pub use workspace::{Cleaned, NOBODY, Removed, Workspace, Workspaces};

/// What tests of this crate's users need: suites for their own implementations, and a fake executor.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::artifact::testing::{artifact_scopes_suite, artifact_store_suite};
    pub use crate::fake::FakeExecutor;
}
