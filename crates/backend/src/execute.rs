//! Running a command where the files are, for the backends that can.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Result, VirtualPath};

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteRequest {
    /// The command line, for the backend's shell.
    pub command: String,
    /// The directory to run it in.
    pub cwd: VirtualPath,
    /// Variables to set; what else the command sees is the backend's choice.
    pub env: BTreeMap<String, String>,
    /// How long it may run before it is ended.
    pub timeout: Duration,
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteReport {
    /// Its exit code; `None` if it was ended by a signal or by the timeout.
    pub exit_code: Option<i32>,
    /// What it wrote, both streams as they came, up to the backend's limit.
    pub output: String,
    /// Whether `output` is less than what it wrote.
    pub truncated: bool,
}

/// The capability to run commands; a backend hands it out by
/// [`Backend::executor`](crate::Backend::executor).
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
    /// Runs the command to its end, or to its timeout.
    ///
    /// A command that ran and failed is a report with its exit code.
    ///
    /// # Errors
    ///
    /// The command could not be started.
    async fn execute(&self, request: ExecuteRequest) -> Result<ExecuteReport>;
}
