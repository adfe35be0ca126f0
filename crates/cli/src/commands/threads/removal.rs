//! Removes a thread with everything that belongs to it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use prowess_agent::middleware::sub_agent_threads;
use prowess_agent::thread::ThreadError;
use prowess_agent::{ThreadId, ThreadStore};
use prowess_store::SqliteStore;
use prowess_workspace::dir::remove_tree;
use prowess_workspace::workspace::Removed;
use prowess_workspace::{ArtifactError, ArtifactName, ArtifactStore as _, Artifacts, Scope, Workspaces};

use crate::terminal::printable;
use crate::threads::files;

/// How long a thread is leased while its files are removed.
const HELD: Duration = Duration::from_secs(60);

/// Where threads and their files are.
pub(crate) struct ThreadStorage {
    pub(crate) store: SqliteStore,
    /// The state directory.
    pub(crate) state: PathBuf,
    /// The directories of workspaces.
    pub(crate) workspaces: Vec<Workspaces>,
    /// The artifacts of all scopes, if there are any.
    pub(crate) artifacts: Option<Artifacts>,
}

/// What was removed with a thread.
#[derive(Debug, Default)]
pub(crate) struct RemovedFiles {
    pub(crate) workspaces: usize,
    pub(crate) sub_agents: usize,
    pub(crate) artifacts: usize,
    /// What was left, and why.
    pub(crate) left: Vec<String>,
}

impl ThreadStorage {
    /// Removes a thread: the threads of its sub-agents, workspaces, artifacts, files, and then the thread itself. If
    /// this fails, it can be repeated.
    pub(crate) async fn remove(&self, id: &ThreadId) -> Result<RemovedFiles> {
        let owner = format!("process {} (removing it)", std::process::id());
        let lease = self.store.lease(id, &owner, HELD).await.map_err(|error| in_use(id, error))?;
        let removed = self.remove_what_belongs(id).await;
        self.store.release(&lease).await.map_err(|error| anyhow!("{error}"))?;
        let gone = removed?;
        self.store.delete(id).await.map_err(|error| in_use(id, error))?;
        Ok(gone)
    }

    async fn remove_what_belongs(&self, id: &ThreadId) -> Result<RemovedFiles> {
        let mut gone = RemovedFiles::default();
        let tasks = match sub_agent_threads(&self.store, id).await {
            Ok(tasks) => tasks,
            // A thread that cannot be read can still be removed.
            Err(error @ ThreadError::Damaged { .. }) => {
                gone.left.push(format!("threads of its sub-agents, which could not be found: {error}; `prowess threads prune` removes them"));
                Vec::new()
            }
            Err(error) => return Err(anyhow!("{error}")),
        };
        // The deepest come first, so that the others still name what is left.
        for task in tasks.iter().rev() {
            self.remove_workspaces(task, &mut gone)?;
            self.store.delete(task).await.map_err(|error| in_use(id, error))?;
            gone.sub_agents += 1;
        }
        self.remove_workspaces(id, &mut gone)?;
        self.remove_artifacts(id, &mut gone).await?;
        let files = self.files(id);
        remove_tree(&files)
            .with_context(|| format!("{} cannot be removed", printable(&files.to_string_lossy())))?;
        Ok(gone)
    }

    fn remove_workspaces(&self, id: &ThreadId, gone: &mut RemovedFiles) -> Result<()> {
        for workspaces in &self.workspaces {
            match workspaces.remove(id.as_str()).map_err(|error| anyhow!("{error}"))? {
                Removed::Gone => gone.workspaces += 1,
                Removed::NoneThere => {}
                Removed::InUse => {
                    bail!("a command is running in the workspace of {id}: wait until it is done, or end it")
                }
            }
        }
        Ok(())
    }

    /// Removes the artifacts of the thread's scope, which its sub-agents share. Those saved for a project or user
    /// stay.
    async fn remove_artifacts(&self, id: &ThreadId, gone: &mut RemovedFiles) -> Result<()> {
        let Some(all) = &self.artifacts else { return Ok(()) };
        let own = all.in_scope(Scope::thread(id.as_str())?);
        let listed = match own.list().await {
            Ok(listed) => listed,
            // A damaged index must not prevent the removal of the thread.
            Err(error) => {
                gone.left.push(format!("artifacts of {}: {error}", own.scope()));
                return Ok(());
            }
        };
        for record in listed {
            match own.delete(&ArtifactName::parse(&record.name)?).await {
                Ok(()) => gone.artifacts += 1,
                Err(ArtifactError::NotFound { .. }) => {}
                Err(error) => return Err(anyhow!("{error}")),
            }
        }
        Ok(())
    }

    fn files(&self, id: &ThreadId) -> PathBuf {
        files(&self.state, id)
    }
}

/// The error for a thread that another process uses.
fn in_use(id: &ThreadId, error: ThreadError) -> anyhow::Error {
    match error {
        ThreadError::Leased { owner, .. } => {
            let owner = owner.split(" (").next().unwrap_or_default();
            anyhow!(
                "{id} is in use by {}: end that process first (a killed process releases it within seconds)",
                printable(owner)
            )
        }
        error => anyhow!("{error}"),
    }
}
