//! Stages skills, runs their commands isolated, collects what they made, and keeps artifacts.
//!
//! ```
//! use std::sync::Arc;
//! use prowess_workspace::testing::FakeExecutor;
//! use prowess_workspace::stage::StageSource;
//! use prowess_workspace::{Artifacts, RunContext, RunRequest, Runner, Workspaces};
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

pub mod artifact;
#[cfg(feature = "backend")]
pub mod backend;
mod blocking;
pub mod collect;
pub mod command;
mod digest;
pub mod dir;
mod error;
pub mod executor;
#[cfg(feature = "testing")]
mod fake;
pub mod host_rule;
pub mod input;
pub mod limits;
pub mod live;
pub mod mime;
mod missing;
pub mod path;
pub mod report;
pub mod request;
mod runner;
mod span;
pub mod stage;
mod warning;
pub mod workspace;

pub use artifact::{
    ArtifactError, ArtifactIndex, ArtifactKey, ArtifactName, ArtifactStore, Artifacts, BlobStore, Scope,
};
pub use command::{Command, Exit, Finished, Level, Network};
pub use error::WorkspaceError;
#[cfg(feature = "container")]
pub use executor::container::{ContainerExecutor, ContainerOptions};
pub use executor::local::{LocalExecutor, LocalOptions};
pub use executor::{ExecuteError, Executor};
pub use host_rule::HostRule;
pub use limits::Limits;
pub use live::{LiveOptions, LiveOutput, LiveRuns};
pub use missing::Missing;
pub use path::InnerPath;
pub use report::RunReport;
pub use request::{InputMode, RunInput, RunOutputs, RunRequest, SkillInput};
pub use runner::{RunContext, RunError, Runner, SkillSources};
pub use warning::RunWarning;
pub use workspace::{Workspace, Workspaces};

/// What tests of this crate's users need: suites for their own implementations, and a fake executor.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::artifact::testing::{artifact_scopes_suite, artifact_store_suite};
    pub use crate::fake::FakeExecutor;
}
