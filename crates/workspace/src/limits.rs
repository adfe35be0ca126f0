//! The limits of a run: time, memory, processes, files and output.

use std::time::Duration;

/// The default timeout of a command.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest timeout of a command.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// How much a command may use. The report says which limit was reached.
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
    /// How long the command may run; at most [`MAX_TIMEOUT`].
    pub timeout: Duration,
    /// How long the command has to end after it was asked to, before it is killed.
    pub grace: Duration,
    /// How many processes and threads can exist at once.
    pub processes: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// How many files each process can have open.
    pub open_files: u64,
    /// The largest file that the command can write, in bytes.
    pub file_size: u64,
    /// The size of the workspace, in bytes.
    pub workspace_bytes: u64,
    /// How many files and directories the workspace can have.
    pub workspace_entries: u64,
    /// The size of the private `/tmp`, in bytes.
    pub temporary_bytes: u64,
    /// How many bytes of each output stream are kept: half from its start, half from its end.
    pub output_kept: usize,
    /// How many bytes of output a command can write before it is killed.
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
