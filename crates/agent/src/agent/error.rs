//! Why an agent could not continue.

use crate::id::CallId;
use crate::middleware::contract::MiddlewareError;
use crate::thread::ThreadError;
use crate::thread_state::MisplacedEvent;
use crate::tool::DuplicateTool;

/// Why an agent could not continue. A failure of a model or a tool is no such error: it is part of the conversation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The store could not read or write the thread.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// The thread does not allow this now.
    #[error(transparent)]
    Misplaced(#[from] MisplacedEvent),
    /// A middleware failed.
    #[error("{name}: {source}")]
    Middleware {
        /// The middleware's name.
        name: String,
        /// What happened.
        source: MiddlewareError,
    },
    /// The store failed earlier, and this handle is ahead of the log.
    #[error("the last events could not be stored: open the thread again")]
    Reopen,
    /// Someone replied to the question already.
    #[error("the call `{0}` does not wait for this reply: someone replied to its question already")]
    AlreadyReplied(CallId),
    /// Two tools have the same name.
    #[error(transparent)]
    DuplicateTool(#[from] DuplicateTool),
    /// Two middleware have the same name.
    #[error("two middleware are called `{0}`, and would share one state: remove one of them")]
    DuplicateMiddleware(String),
}

impl AgentError {
    /// Turns an error of the middleware `name` into an error of the agent.
    pub(crate) fn of(name: &str) -> impl Fn(MiddlewareError) -> Self {
        move |source| Self::Middleware { name: name.to_owned(), source }
    }
}
