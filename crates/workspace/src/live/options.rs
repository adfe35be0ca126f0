//! The limits of interactive runs: how many there can be, and how long each can be idle.

use std::time::Duration;

/// The limits of interactive runs.
///
/// ```
/// use std::time::Duration;
/// use prowess_workspace::{LiveOptions, LiveRuns};
///
/// let mut options = LiveOptions::default();
/// options.idle_timeout = Duration::from_secs(60);
/// options.max_runs = 2;
/// let live = LiveRuns::new(options);
/// assert!(live.running().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveOptions {
    /// How long a run can go without a read or a write. A running command is then ended, and an ended one is
    /// forgotten.
    pub idle_timeout: Duration,
    /// How many commands can run at once.
    pub max_runs: usize,
    /// How many bytes of each command's output are kept for later reads.
    pub kept_bytes: usize,
    /// How many bytes of output one read returns.
    pub read_bytes: usize,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(300),
            max_runs: 8,
            kept_bytes: 1024 * 1024,
            read_bytes: 16 * 1024,
        }
    }
}
