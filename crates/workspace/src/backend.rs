//! The files of a workspace as a backend, with commands in the sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::entry::Target;
use prowess_backend::{
    Backend, BackendError, Contents, Edit, Edited, Entry, Execute, ExecuteReport, ExecuteRequest, GlobQuery,
    GlobReport, GrepQuery, GrepReport, Listing, LocalBackend, ReadRange, VirtualPath, WriteMode,
};

use crate::blocking::blocking;
use crate::command::{Command, Exit};
use crate::error::WorkspaceError;
use crate::executor::{ExecuteError, Executor, NoSink};
use crate::limits::{Limits, MAX_TIMEOUT};
use crate::workspace::Workspace;

/// The directory of a workspace that has these files.
const WORK: &str = "work";

/// The files in `work/` of a workspace, as a backend whose commands run in the sandbox.
///
/// Commands, file tools and runs of skills in this workspace see the same files. Commands can change files that are written
/// here, whatever user they run as.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use prowess_backend::{Backend, ExecuteRequest, VirtualPath, WriteMode};
/// use prowess_workspace::backend::WorkspaceBackend;
/// use prowess_workspace::testing::FakeExecutor;
/// use prowess_workspace::Workspaces;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// let workspace = Workspaces::open(place.path())?.workspace("workspace-1")?;
/// let files = WorkspaceBackend::new(workspace, Arc::new(FakeExecutor))?; // `LocalExecutor` outside of tests
/// files.write(&VirtualPath::parse("/notes.md")?, "- tides\n".into(), WriteMode::CreateNew).await?;
/// let request = ExecuteRequest::new("cat notes.md", Duration::from_secs(10));
/// let report = files.executor().unwrap().execute(request).await?;
/// assert_eq!(report.output, "- tides\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WorkspaceBackend {
    workspace: Workspace,
    files: LocalBackend,
    /// Its directory in the workspace.
    directory: &'static str,
    executor: Option<Arc<dyn Executor>>,
    limits: Limits,
}

impl WorkspaceBackend {
    /// The files of a workspace, with this executor for commands.
    ///
    /// # Errors
    ///
    /// The directory cannot be opened.
    pub fn new(workspace: Workspace, executor: Arc<dyn Executor>) -> Result<Self, WorkspaceError> {
        Ok(Self { executor: Some(executor), ..Self::of_directory(workspace, WORK)? })
    }

    /// The files in another directory of a workspace, such as `out`, without commands.
    ///
    /// # Errors
    ///
    /// The directory cannot be opened.
    pub fn of_directory(workspace: Workspace, directory: &'static str) -> Result<Self, WorkspaceError> {
        let path = workspace.path().join(directory);
        let failed = |error| WorkspaceError::io("opening the files of the workspace at", &path, error);
        let files = LocalBackend::open(&path).map_err(failed)?;
        let limits = Limits { timeout: MAX_TIMEOUT, ..Limits::default() };
        Ok(Self { workspace, files, directory, executor: None, limits })
    }

    /// Sets the limits for commands. Each command has its own timeout, up to this one.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Gives a new file and its directories to the user of commands, so that commands can change them.
    async fn hand_over(&self, path: &VirtualPath, entry: Entry) -> Result<Entry, BackendError> {
        let Some((user, group)) = self.workspace.owner() else { return Ok(entry) };
        let (workspace, inside) = (self.workspace.clone(), path.as_str().trim_start_matches('/').to_owned());
        let own = self.directory;
        let handed = blocking(move || {
            let mut directory = workspace.dir().dir(own)?;
            let mut names = inside.split('/').peekable();
            while let Some(name) = names.next() {
                // By name in an open directory, so that no link is followed.
                directory.give(name, user, group)?;
                if names.peek().is_some() {
                    directory = directory.dir(name)?;
                }
            }
            Ok::<_, std::io::Error>(())
        });
        handed.await.flatten().map_err(|error| failed(path, "handing over", error))?;
        // The new owner changed its stamp.
        self.files.stat(path).await
    }
}

#[async_trait]
impl Backend for WorkspaceBackend {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing, BackendError> {
        self.files.ls(path).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry, BackendError> {
        self.files.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents, BackendError> {
        self.files.read(path, range).await
    }

    async fn read_many(&self, paths: &[VirtualPath], max_bytes: u64) -> Vec<Result<Contents, BackendError>> {
        self.files.read_many(paths, max_bytes).await
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry, BackendError> {
        let entry = self.files.write(path, bytes, mode).await?;
        self.hand_over(path, entry).await
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry, BackendError> {
        let entry = self.files.append(path, bytes).await?;
        self.hand_over(path, entry).await
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited, BackendError> {
        let mut edited = self.files.edit(path, edit).await?;
        edited.entry = self.hand_over(path, edited.entry).await?;
        Ok(edited)
    }

    async fn swap(&self, path: &VirtualPath, before: Bytes, after: Bytes) -> Result<Entry, BackendError> {
        let entry = self.files.swap(path, before, after).await?;
        self.hand_over(path, entry).await
    }

    async fn delete(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.files.delete(path).await
    }

    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport, BackendError> {
        self.files.glob(base, query).await
    }

    async fn grep(&self, base: &VirtualPath, query: &GrepQuery) -> Result<GrepReport, BackendError> {
        self.files.grep(base, query).await
    }

    async fn check_change(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.files.check_change(path).await
    }

    async fn target(&self, path: &VirtualPath) -> Target {
        self.files.target(path).await
    }

    fn executor(&self) -> Option<&dyn Execute> {
        self.executor.is_some().then_some(self as &dyn Execute)
    }
}

#[async_trait]
impl Execute for WorkspaceBackend {
    async fn execute(&self, request: ExecuteRequest) -> Result<ExecuteReport, BackendError> {
        let directory = format!("{}{}", self.directory, request.cwd.as_str().trim_end_matches('/'));
        let mut command = Command::new(self.workspace.path(), directory, request.command);
        command.environment = request.env;
        command.limits = self.limits.clone();
        command.limits.timeout = request.timeout.min(self.limits.timeout);
        let none = || failed(&request.cwd, "running a command in", ExecuteError::NotConfigured);
        let finished = self.executor.as_ref().ok_or_else(none)?.run(command, &NoSink).await;
        let finished = finished.map_err(|error| failed(&request.cwd, "running a command in", error))?;
        let (stdout, stderr) = (finished.stdout.text(), finished.stderr.text());
        let separator = if stdout.is_empty() || stdout.ends_with('\n') { "" } else { "\n" };
        let end = match finished.exit {
            Exit::Signal(signal) => format!("\n[ended by signal {signal}]"),
            exit => exit.killed_because().map(|why| format!("\n[killed: {why}]")).unwrap_or_default(),
        };
        let exit_code = match finished.exit {
            Exit::Code(code) => Some(code),
            _ => None,
        };
        let mut report = ExecuteReport::new(exit_code, format!("{stdout}{separator}{stderr}{end}"));
        report.truncated = finished.stdout.left_out() + finished.stderr.left_out() > 0;
        Ok(report)
    }
}

fn failed(
    path: &VirtualPath,
    operation: &'static str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> BackendError {
    BackendError::Io { path: path.clone(), operation, source: error.into() }
}
