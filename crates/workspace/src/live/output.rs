//! The answer to a read of an interactive run.

use serde::Serialize;

use super::prompt::Prompt;
use crate::report::RunReport;

/// The answer to a read of an interactive run: its output since the last read, and its status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LiveOutput {
    /// The id of the run.
    pub session_id: String,
    /// Its status.
    pub status: LiveStatus,
    /// The output from `offset` to `next_offset`, both streams in the order in which they came.
    pub output: String,
    /// The position of the first byte in `output`, counted from the start of all output.
    pub offset: u64,
    /// The position at which the next read goes on.
    pub next_offset: u64,
    /// How many of the requested bytes are no longer kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub missed_bytes: u64,
    /// How many more bytes can be read now.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_bytes: u64,
    /// The question that the command seems to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Prompt>,
    /// The report of the run, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<RunReport>,
}

/// The status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LiveStatus {
    /// It is running.
    Running,
    /// It seems to wait for input.
    NeedsInput,
    /// It has ended.
    Ended,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
