//! What providers over HTTP share: one client, timeouts, retries, bounds and typed errors.

mod answer;
mod client;
mod complaint;
mod endpoint;
mod failure;
mod retry;
mod sse;

pub use self::client::{Http, HttpOptions, Proxies, SetupError};
pub(crate) use self::complaint::Complaint;
pub(crate) use self::endpoint::{Endpoint, EndpointBuilder, KeyHeader};
pub(crate) use self::failure::Failure;
pub(crate) use self::sse::SseEvent;

use std::collections::VecDeque;

use prowess_agent::Delta;

/// Reads one provider's events. It sees one answer, from its beginning.
pub(crate) trait Decoder: Send + 'static {
    /// Takes the next event.
    fn read(&mut self, event: &SseEvent, deltas: &mut VecDeque<Delta>) -> Result<Progress, Failure>;

    /// No event comes any more.
    ///
    /// # Errors
    ///
    /// The answer was not complete.
    fn end(&mut self, deltas: &mut VecDeque<Delta>) -> Result<(), Failure>;
}

/// Whether an answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More may come.
    More,
    /// The provider has said that this was all.
    Done,
}
