//! Why an operation on a live run failed.

use std::sync::Arc;

use super::input::MAX_LINE;
use crate::runner::RunError;

/// Why an operation on a live run failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// No run has this id.
    #[error("there is no session `{0}`: it was never started, was ended, or was left alone for too long")]
    Unknown(String),
    /// The command has ended.
    #[error("session `{0}` has ended and reads no more input")]
    Ended(String),
    /// The command's input was closed before.
    #[error("the input of session `{0}` is closed")]
    Closed(String),
    /// The command does not read its input.
    #[error("session `{id}` does not read its input: it took {taken} of {all} bytes")]
    NotReading {
        /// The id of the run.
        id: String,
        /// How many bytes the command took.
        taken: usize,
        /// How many bytes were written.
        all: usize,
    },
    /// A line is longer than a terminal accepts.
    #[error(
        "a line for session `{0}` is too long: its terminal accepts {MAX_LINE} bytes. Nothing was written"
    )]
    LineTooLong(String),
    /// As many commands run as can run at once.
    #[error("{most} sessions are running, the limit: end one first")]
    TooMany {
        /// The limit.
        most: usize,
    },
    /// The command could not be started.
    #[error("{0}")]
    NotStarted(Arc<RunError>),
}
