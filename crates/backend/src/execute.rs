//! Commands that a backend runs where its files are.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Result, VirtualPath};

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteReport {
    /// Its exit code; `None` if a signal or the timeout ended it.
    pub exit_code: Option<i32>,
    /// Its output: both streams in the order in which they came, up to the backend's limit.
    pub output: String,
    /// Whether the command wrote more than `output`.
    pub truncated: bool,
}

/// The ability to run commands. [`Backend::executor`](crate::Backend::executor) returns it.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_backend::{Execute, ExecuteReport, ExecuteRequest, Result, VirtualPath};
///
/// #[derive(Debug)]
/// struct Echo;
///
/// #[async_trait]
/// impl Execute for Echo {
///     async fn execute(&self, request: ExecuteRequest) -> Result<ExecuteReport> {
///         Ok(ExecuteReport { exit_code: Some(0), output: request.command, truncated: false })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let request = ExecuteRequest {
///     command: "make check".into(),
///     cwd: VirtualPath::root(),
///     env: [("CI".into(), "1".into())].into(),
///     timeout: std::time::Duration::from_secs(60),
/// };
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
