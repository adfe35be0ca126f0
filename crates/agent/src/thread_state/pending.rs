//! The calls of an answer, until each has its result.

use super::event::{CallQuestion, CallReply, Event, StateChange};
use crate::id::MessageId;
use crate::message::{Message, ToolCall, ToolResult};
use crate::tool::ToolAnswer;

/// What a call's answer is when nobody knows whether the tool did its work.
pub(super) const UNKNOWN_OUTCOME: &str = "Error: this call was interrupted, and it is not known whether it took effect. \
     Look before you call it again.";

/// What a call's answer is that the model had no room to write.
const CUT_OFF: &str = "Error: your answer reached its limit before this call was whole, so it was not made. \
     Make it shorter, or do it in several calls.";

/// A call of the last answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pending {
    pub(super) call: ToolCall,
    /// The name of the message with its result, the same whenever the thread is read.
    pub(super) message: MessageId,
    pub(super) status: Status,
    /// Whether a person was asked if it may be made.
    pub(super) was_asked: bool,
    /// Whether a person changed its arguments, which the model has to be told.
    pub(super) is_edited: bool,
    /// Whether a person wants such calls never to be asked about again.
    pub(super) always: bool,
    /// What its tool asked a person.
    pub(super) consulted: Option<Consultation>,
    /// What changes once all calls are answered.
    pub(super) changes: Vec<StateChange>,
}

/// What a tool asked a person about a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Consultation {
    /// What was asked.
    pub asking: CallQuestion,
    /// What the person said; nothing yet while the call waits.
    pub reply: Option<CallReply>,
    /// Whether a person had let the call pass before.
    pub(super) approved: bool,
    /// Whether the person's no is for everything else that the asker waits for. A tool reads a plain no, so that none
    /// mistakes this one for a yes.
    pub(crate) rejects_all: bool,
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Status {
    /// To be made; with `approved`, nobody needs to be asked again.
    New { approved: bool },
    /// Begun.
    Started { approved: bool },
    /// It waits for a person; with `by_tool`, because its tool wants to know something.
    Asked { by_tool: bool },
    /// Made.
    Answered(ToolResult),
}

/// A call to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyCall {
    /// The call.
    pub call: ToolCall,
    /// The name of the message that its result will be: no other call of the thread has it.
    pub message: MessageId,
    /// Whether a person let it pass already.
    pub approved: bool,
    /// Whether it was begun before, and nobody knows what came of it.
    pub interrupted: bool,
    /// Whether a person wants such calls never to be asked about again.
    pub always: bool,
    /// What its tool asked a person, and the reply.
    pub consulted: Option<Consultation>,
}

impl Pending {
    /// Answers a call that is not whole, because the model had no more room.
    pub(super) fn cut_off(&mut self) {
        if self.call.arguments.trim().is_empty() || self.call.parsed().is_err() {
            self.status = Status::Answered(self.result(CUT_OFF, true));
        }
    }

    pub(super) fn into_message(self, result: ToolResult) -> Message {
        Message { id: self.message, ..Message::tool(result) }
    }

    pub(super) fn ready(&self) -> Option<ReadyCall> {
        let (approved, interrupted) = match self.status {
            Status::New { approved } => (approved, false),
            Status::Started { approved } => (approved, true),
            Status::Asked { .. } | Status::Answered(_) => return None,
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
            consulted: self.consulted.clone(),
        }
    }

    pub(super) fn result(&self, text: &str, is_error: bool) -> ToolResult {
        let text = match self.is_edited {
            true => {
                format!("(The user changed the arguments of this call to {}.)\n{text}", self.call.arguments)
            }
            false => text.to_owned(),
        };
        ToolResult { call: self.call.id.clone(), name: self.call.name.clone(), text, is_error }
    }
}

impl ReadyCall {
    /// The answer to a call that was begun before and must not be made twice.
    pub fn unknown_outcome(&self) -> Event {
        Event::ToolAnswered { call: self.call.id.clone(), answer: ToolAnswer::error(UNKNOWN_OUTCOME) }
    }
}

/// The calls of an answer.
pub(super) fn pending(message: &Message) -> impl Iterator<Item = Pending> {
    message.tool_calls().enumerate().map(|(number, call)| Pending {
        call: call.clone(),
        message: message.result_id(number),
        status: Status::New { approved: false },
        was_asked: false,
        is_edited: false,
        always: false,
        consulted: None,
        changes: Vec::new(),
    })
}
