//! What a middleware can ask the agent to do.

use prowess_permission::Question;

use crate::id::CallId;
use crate::message::{Message, ToolCall};
use crate::model::ModelUsage;
use crate::thread_state::{StateChange, TurnOutcome};
use crate::tool::ToolData;

/// What a middleware asks the agent to do.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_agent::middleware::{Jump, MiddlewareError};
/// use prowess_agent::{Middleware, MiddlewareAction, MiddlewareContext, TurnOutcome};
///
/// /// Ends a turn after ten messages.
/// #[derive(Clone, Debug)]
/// struct ShortTalk;
///
/// #[async_trait]
/// impl Middleware for ShortTalk {
///     fn name(&self) -> &str {
///         "short_talk"
///     }
///
///     async fn before_model(&self, context: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
///         if context.thread_state.messages().len() < 10 {
///             return Ok(Vec::new());
///         }
///         Ok(vec![MiddlewareAction::Jump(Jump::End(TurnOutcome::Stopped { reason: "we have talked enough".into() }))])
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MiddlewareAction {
    /// Change the middleware's state.
    Change(StateChange),
    /// After the model: ask a person before the call is made.
    Ask {
        /// The call.
        call: CallId,
        /// The question.
        question: Box<Question>,
    },
    /// After the model: make the call without asking a person. A rule that denies it still wins.
    Approve {
        /// The call.
        call: CallId,
    },
    /// After the model: do not make the call, and answer it with this text.
    Answer {
        /// The call.
        call: CallId,
        /// The text that the model reads.
        text: String,
        /// Whether the answer is an error.
        is_error: bool,
        /// The same for programs that show the call.
        data: Option<ToolData>,
    },
    /// Replace the oldest messages that the model sees by a summary.
    Compact {
        /// How many messages of the thread the model no longer sees.
        cut: usize,
        /// The message with the summary.
        summary: Message,
        /// What the summary cost.
        spent: ModelUsage,
    },
    /// Add messages for the model, as if a user wrote them. A turn that was about to end continues.
    AddMessages(Vec<Message>),
    /// Continue the turn somewhere else.
    Jump(Jump),
}

/// Where a turn continues.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Jump {
    /// With a model call, after these messages. Open tool calls are answered as not made.
    Model(Vec<Message>),
    /// With these tool calls, as if the model had made them.
    Tools(Vec<ToolCall>),
    /// With the end of the turn.
    End(TurnOutcome),
    /// At the same point: the agent stores the middleware's changes and calls the middleware again.
    ///
    /// The agent ignores this if the middleware changed nothing, or asked for it too often.
    Again,
}
