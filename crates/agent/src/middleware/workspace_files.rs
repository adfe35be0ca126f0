//! Files in a thread's workspace. Commands of `execute` run there in the sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use prowess_backend::Backend;
use prowess_workspace::backend::WorkspaceBackend;
use prowess_workspace::{Limits, Runner};

use crate::backends::Backends;
use crate::id::ThreadId;
use crate::middleware::{Middleware, MiddlewareError, MiddlewareFactory};
use crate::state::States;

const NAME: &str = "workspace_files";

/// Files in the workspace of each thread. Other middleware can work on them.
///
/// Commands of `execute` run in the sandbox. Give [`Skills`](super::Skills) runs in the workspaces of the same names, and
/// commands of skills see the same files, in `work/`.
///
/// ```
/// # use std::sync::Arc;
/// # use prowess_agent::middleware::{Files, WorkspaceFiles};
/// # use prowess_agent::{Agent, AgentError, Model};
/// # use prowess_workspace::Runner;
/// # fn build(model: Arc<dyn Model>, runner: Runner) -> Result<Agent, AgentError> {
/// let files = WorkspaceFiles::new(runner);
/// Agent::builder(model).middleware(files.clone()).middleware(Files::new(files)).build()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WorkspaceFiles {
    runner: Runner,
    limits: Option<Limits>,
}

impl WorkspaceFiles {
    /// Files in workspaces that have the names of their threads.
    pub fn new(runner: Runner) -> Self {
        Self { runner, limits: None }
    }

    /// Sets the limits of commands.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }
}

#[async_trait]
impl MiddlewareFactory for WorkspaceFiles {
    fn name(&self) -> &str {
        NAME
    }

    async fn open(&self, thread: &ThreadId, _: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            MiddlewareError::new("open the thread's workspace", error)
        };
        let executor = self.runner.executor.clone();
        let executor = executor.ok_or_else(|| failed("the runner has no executor".into()))?;
        let (workspaces, name) = (self.runner.workspaces.clone(), thread.as_str().to_owned());
        let opened = tokio::task::spawn_blocking(move || {
            WorkspaceBackend::new(workspaces.workspace(&name)?, executor)
        });
        let files =
            opened.await.map_err(|error| failed(error.into()))?.map_err(|error| failed(error.into()))?;
        Ok(Arc::new(ThreadWorkspace(Arc::new(match self.limits.clone() {
            Some(limits) => files.limits(limits),
            None => files,
        }))))
    }
}

/// The files of one thread.
#[derive(Debug)]
struct ThreadWorkspace(Arc<WorkspaceBackend>);

impl Middleware for ThreadWorkspace {
    fn name(&self) -> &str {
        NAME
    }
}

impl From<WorkspaceFiles> for Backends {
    fn from(_: WorkspaceFiles) -> Self {
        Self::new(|context| match context.find::<ThreadWorkspace>() {
            Some(workspace) => Arc::clone(&workspace.0) as Arc<dyn Backend>,
            None => super::state_files::no_files(),
        })
    }
}
