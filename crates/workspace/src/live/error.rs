//! Errors of interactive runs.

use std::sync::Arc;

use super::input::MAX_LINE;
use crate::runner::RunError;

/// Why an operation on an interactive run failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// No run has this id.
    #[error("there is no interactive run `{0}`: it was never started, was ended, or was idle for too long")]
    Unknown(String),
    /// The command has ended.
    #[error("the interactive run `{0}` has ended and reads no more input")]
    Ended(String),
    /// The command's input was closed before.
    #[error("the input of the interactive run `{0}` is closed")]
    Closed(String),
    /// The command does not read its input.
    #[error("the interactive run `{id}` does not read its input: it took {taken} of {all} bytes")]
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
        "a line for the interactive run `{0}` is too long: its terminal accepts {MAX_LINE} bytes. Nothing was written"
    )]
    LineTooLong(String),
    /// The limit of commands that run at once is reached.
    #[error("{most} interactive runs are active, which is the limit; end one first")]
    TooMany {
        /// The limit.
        most: usize,
    },
    /// The command could not be started.
    #[error("{0}")]
    NotStarted(Arc<RunError>),
}
