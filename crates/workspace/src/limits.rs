//! How much a command may use.

use std::time::Duration;

/// The time that a command has when nobody says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// The most time that a command can be given.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// How much a command may use. What bites is in the report.
///
/// ```
/// use std::time::Duration;
/// use prowess_workspace::stage::StageSource;
/// use prowess_workspace::{Limits, RunContext};
///
/// let skills = |_: &str| None::<StageSource>;
/// let mut context = RunContext::new(&skills);
/// context.limits.timeout = Duration::from_secs(5);
/// context.limits.memory = 64 * 1024 * 1024;
/// assert_eq!(context.limits.processes, Limits::default().processes);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How long it may run; at most [`MAX_TIMEOUT`].
    pub timeout: Duration,
    /// How long it has to end by itself once it was told to, before it is killed.
    pub grace: Duration,
    /// Processes and threads at once.
    pub processes: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// Open files of each process.
    pub open_files: u64,
    /// The largest file it may write, in bytes.
    pub file_size: u64,
    /// What the workspace may hold, in bytes.
    pub workspace_bytes: u64,
    /// How many files and directories the workspace may hold.
    pub workspace_entries: u64,
    /// What the private `/tmp` may hold, in bytes.
    pub temporary_bytes: u64,
    /// How much of each output stream is kept, half from its head and half from its tail, in bytes.
    pub output_kept: usize,
    /// A command that writes more than this is killed, in bytes.
    pub output_total: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            timeout: DEFAULT_TIMEOUT,
            grace: Duration::from_secs(2),
            processes: 128,
            memory: 1024 * MIB,
            open_files: 1024,
            file_size: 256 * MIB,
            workspace_bytes: 512 * MIB,
            workspace_entries: 50_000,
            temporary_bytes: 64 * MIB,
            output_kept: 1024 * 1024,
            output_total: 1024 * MIB,
        }
    }
}
