//! Why an agent could not go on.

use crate::id::CallId;
use crate::middleware::MiddlewareError;
use crate::thread::ThreadError;
use crate::thread_state::MisplacedEvent;
use crate::tool::DuplicateTool;

/// Why an agent could not go on. What the model or a tool did wrong is none: that is part of the conversation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The thread could not be read or written.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// That cannot be done now.
    #[error(transparent)]
    Misplaced(#[from] MisplacedEvent),
    /// A part of the agent could not do its work.
    #[error("{part}: {source}")]
    Part {
        /// Which one.
        part: String,
        /// What happened.
        source: MiddlewareError,
    },
    /// Something could not be stored that the handle went on from.
    #[error("what happened last could not be stored: open the thread again")]
    Reopen,
    /// The question was answered already.
    #[error("the call `{0}` does not wait for that answer: its question was answered already")]
    Answered(CallId),
    /// Two tools have one name.
    #[error(transparent)]
    TwoOfOneName(#[from] DuplicateTool),
    /// Two parts have one name.
    #[error("there are two parts `{0}`: their states would be one")]
    TwoParts(String),
}

impl AgentError {
    /// A part could not do its work.
    pub(crate) fn of(part: &str) -> impl Fn(MiddlewareError) -> Self {
        move |source| Self::Part { part: part.to_owned(), source }
    }
}
