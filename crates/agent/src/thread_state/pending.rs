//! The tool calls of a response, until each has its answer.

use super::event::{CallQuestion, CallReply, Event, StateChange};
use crate::id::MessageId;
use crate::message::{Message, ToolCall, ToolResult};
use crate::tool::ToolAnswer;

/// The answer of a call that was interrupted: nobody knows whether the tool did its work.
pub(super) const UNKNOWN_OUTCOME: &str = "Error: this call was interrupted, and it is not known whether it took effect. \
     Check before you call it again.";

/// The answer of a call that the model could not finish writing.
const CUT_OFF: &str = "Error: your response reached its limit before this call was complete, so it was not made. \
     Make it shorter, or split it into several calls.";

/// A call of the last response.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PendingCall {
    pub(super) call: ToolCall,
    /// The id of the message with its answer, the same each time the thread is read.
    pub(super) message: MessageId,
    pub(super) status: CallStatus,
    /// Whether a person was asked before the call.
    pub(super) was_asked: bool,
    /// Whether a person changed the arguments. The answer tells the model.
    pub(super) is_edited: bool,
    /// Whether a person replied "always".
    pub(super) always: bool,
    /// The question that its tool asked a person.
    pub(super) consultation: Option<Consultation>,
    /// The state changes that take effect when all calls are answered.
    pub(super) changes: Vec<StateChange>,
}

/// A question that a tool asked a person in the middle of a call, and the reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Consultation {
    /// The question.
    pub question: CallQuestion,
    /// The reply. `None` while the call waits.
    pub reply: Option<CallReply>,
    /// Whether a person had approved the call before.
    pub(super) approved: bool,
    /// Whether the person also rejected everything else that waits. The tool reads a plain [`CallReply::Reject`], so that
    /// it cannot mistake this reply for an approval.
    pub(crate) rejects_all: bool,
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallStatus {
    /// It is to be made. With `approved`, nobody needs to be asked again.
    New { approved: bool },
    /// It has started.
    Started { approved: bool },
    /// It waits for a person. With `by_tool`, its tool asked.
    Asked { by_tool: bool },
    /// It has its answer.
    Answered(ToolResult),
}

/// A tool call that can be made.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReadyCall {
    /// The call.
    pub call: ToolCall,
    /// The id of the message with its answer. No other call of the thread has it.
    pub message: MessageId,
    /// Whether a person approved it.
    pub approved: bool,
    /// Whether it was started before, and nobody knows its outcome.
    pub interrupted: bool,
    /// Whether a person replied "always".
    pub always: bool,
    /// The question that its tool asked a person, and the reply.
    pub consultation: Option<Consultation>,
}

impl PendingCall {
    /// Answers the call if it is incomplete because the response was cut off.
    pub(super) fn answer_if_torn(&mut self) {
        if self.call.arguments.trim().is_empty() || self.call.parsed().is_err() {
            self.status = CallStatus::Answered(self.result(CUT_OFF, true));
        }
    }

    /// Makes the call a new one with other arguments. Nothing that was approved for it counts any more.
    pub(super) fn begin_again(&mut self, arguments: &str) {
        arguments.clone_into(&mut self.call.arguments);
        (self.is_edited, self.always, self.consultation) = (true, false, None);
        self.status = CallStatus::New { approved: false };
    }

    pub(super) fn into_message(self, result: ToolResult) -> Message {
        Message { id: self.message, ..Message::tool(result) }
    }

    pub(super) fn ready(&self) -> Option<ReadyCall> {
        let (approved, interrupted) = match self.status {
            CallStatus::New { approved } => (approved, false),
            CallStatus::Started { approved } => (approved, true),
            CallStatus::Asked { .. } | CallStatus::Answered(_) => return None,
        };
        Some(self.call(approved, interrupted))
    }

    pub(super) fn call(&self, approved: bool, interrupted: bool) -> ReadyCall {
        ReadyCall {
            call: self.call.clone(),
            message: self.message.clone(),
            approved,
            interrupted,
            always: self.always,
            consultation: self.consultation.clone(),
        }
    }

    pub(super) fn result(&self, text: &str, is_error: bool) -> ToolResult {
        let text = match self.is_edited {
            true => edited_answer(&self.call.arguments, text),
            false => text.to_owned(),
        };
        ToolResult { call: self.call.id.clone(), name: self.call.name.clone(), text, is_error }
    }
}

/// What the model reads as the answer of a call whose arguments a person changed to these.
///
/// ```
/// use prowess_agent::thread_state::edited_answer;
///
/// let answer = edited_answer(r#"{"day": 2}"#, "High at noon.");
/// assert!(answer.contains(r#"{"day": 2}"#) && answer.ends_with("\nHigh at noon."));
/// ```
pub fn edited_answer(arguments: &str, text: &str) -> String {
    format!("(The user changed the arguments of this call to {arguments}.)\n{text}")
}

impl ReadyCall {
    /// The answer to a call that was started before and must not be repeated.
    pub fn unknown_outcome(&self) -> Event {
        Event::ToolAnswered { call: self.call.id.clone(), answer: ToolAnswer::error(UNKNOWN_OUTCOME) }
    }
}

/// The tool calls of a response.
pub(super) fn pending_calls(message: &Message) -> impl Iterator<Item = PendingCall> {
    message.tool_calls().enumerate().map(|(number, call)| PendingCall {
        call: call.clone(),
        message: message.result_id(number),
        status: CallStatus::New { approved: false },
        was_asked: false,
        is_edited: false,
        always: false,
        consultation: None,
        changes: Vec::new(),
    })
}
