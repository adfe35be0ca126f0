//! Runs the commands of skills: stages the skill in a workspace, runs the command in a sandbox, collects its output files
//! and saves artifacts.
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
//!     // A fake shell for tests. `LocalExecutor` and `ContainerExecutor` run processes.
//!     executor: Some(Arc::new(FakeExecutor)),
//! };
//! let skills = move |name: &str| (name == "greet").then(|| StageSource::Directory(skill.clone()));
//! let mut request = RunRequest::new("greet", "cat hello.txt > $OUTPUT_DIR/greeting.txt");
//! request.output_files = vec!["out/*.txt".into()];
//! let report = runner.run("workspace-1", request, RunContext::new(&skills)).await?;
//! assert_eq!(report.exit_code, 0);
//! assert_eq!(report.output_files[0].content.as_deref(), Some("Hello!\n"));
//! # Ok(())
//! # }
//! ```
//!
//! The five types to know:
//!
//! - [`Runner`] runs a [`RunRequest`] and returns a [`RunReport`].
//! - [`Workspaces`] holds the directories in which runs work, one for each workspace id.
//! - [`Executor`] isolates a run: [`LocalExecutor`] with bubblewrap or Landlock, `ContainerExecutor` (feature
//!   `container`) with Docker or Podman.
//! - [`LiveRuns`] are commands that keep running while you write to them and read their output.
//! - [`Artifacts`] keeps versions of files beyond their workspace: in memory, on disk, or in an object store (features
//!   `object` and `s3`).

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
pub mod inventory;
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
pub mod tree;
mod warning;
pub mod workspace;
pub mod writable;

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
pub use runner::{RunContext, RunError, RunReview, Runner, SkillSources};
pub use warning::RunWarning;
pub use workspace::{Workspace, Workspaces};

/// For tests: suites for your own implementations, and a fake executor.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::artifact::testing::{artifact_scopes_suite, artifact_store_suite};
    pub use crate::fake::FakeExecutor;
    pub use crate::inventory::testing::{UnreliableContents, content_store_suite};
}
