//! How many calls of one MCP session may be unanswered at once.

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many calls of one MCP session may run, or wait for a person, at the same time. The server refuses more.
pub(crate) const MAX_UNANSWERED_CALLS: usize = 64;
/// The error code of a call that the server refuses for that reason.
const TOO_MANY_CALLS: ErrorCode = ErrorCode(-32000);

/// Counts the calls of one MCP session that have no answer yet.
pub(crate) struct UnansweredCalls(Semaphore);

impl UnansweredCalls {
    /// Counts a call until the permit is dropped.
    ///
    /// # Errors
    ///
    /// Too many calls are unanswered.
    pub(crate) fn begin(&self) -> Result<SemaphorePermit<'_>, ErrorData> {
        let refuse = |_| {
            let message = format!(
                "More than {MAX_UNANSWERED_CALLS} calls are unanswered; wait for an answer, then call again"
            );
            ErrorData::new(TOO_MANY_CALLS, message, None)
        };
        self.0.try_acquire().map_err(refuse)
    }
}

impl Default for UnansweredCalls {
    fn default() -> Self {
        Self(Semaphore::new(MAX_UNANSWERED_CALLS))
    }
}
