//! Commands that a backend runs where its files are.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Result, VirtualPath};

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecuteRequest {
    /// The command line for the backend's shell.
    pub command: String,
    /// The directory to run it in.
    pub cwd: VirtualPath,
    /// Variables to set. The backend chooses which others the command sees.
    pub env: BTreeMap<String, String>,
    /// How long the command may run before the backend ends it.
    pub timeout: Duration,
}

impl ExecuteRequest {
    /// Runs `command` in the root directory for at most `timeout`, with no variables.
    #[must_use]
    pub fn new(command: impl Into<String>, timeout: Duration) -> Self {
        Self { command: command.into(), cwd: VirtualPath::root(), env: BTreeMap::new(), timeout }
    }
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecuteReport {
    /// Its exit code; `None` if a signal or the timeout ended it.
    pub exit_code: Option<i32>,
    /// Its output: both streams in the order in which they came, up to the backend's limit.
    pub output: String,
    /// Whether the command wrote more than `output`.
    pub truncated: bool,
}

impl ExecuteReport {
    /// A command that ended with this exit code, and its whole output.
    #[must_use]
    pub fn new(exit_code: Option<i32>, output: impl Into<String>) -> Self {
        Self { exit_code, output: output.into(), truncated: false }
    }
}

/// The ability to run commands. [`Backend::executor`](crate::Backend::executor) returns it.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_backend::{Execute, ExecuteReport, ExecuteRequest, Result};
///
/// #[derive(Debug)]
/// struct Echo;
///
/// #[async_trait]
/// impl Execute for Echo {
///     async fn execute(&self, request: ExecuteRequest) -> Result<ExecuteReport> {
///         Ok(ExecuteReport::new(Some(0), request.command))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let mut request = ExecuteRequest::new("make check", std::time::Duration::from_secs(60));
/// request.env.insert("CI".to_owned(), "1".to_owned());
/// assert_eq!(Echo.execute(request).await?.output, "make check");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Execute: Send + Sync + Debug {
    /// Runs the command until it ends or reaches its timeout.
    ///
    /// A command that ran and failed is not an error: the report has its exit code.
    ///
    /// # Errors
    ///
    /// The command could not be started.
    async fn execute(&self, request: ExecuteRequest) -> Result<ExecuteReport>;
}
