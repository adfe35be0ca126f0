//! What happens in a thread, step by step. A thread is the fold of its events.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::CallId;
use crate::message::Message;
use crate::model::{Finish, ModelError, Usage};

/// The version of the stored form of events. What is stored is read for good: a later version reads all before it.
pub const EVENT_VERSION: u32 = 1;

/// What happened in a thread.
///
/// An act has two: one that it begins, stored before it does, and one with what came of it. An act with the first and
/// without the second was cut off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// Someone said something, and it is the agent's turn.
    TurnStarted {
        /// What was said.
        messages: Vec<Message>,
    },
    /// A model is asked.
    ModelAsked {
        /// Which one.
        model: String,
    },
    /// A model answered.
    ModelAnswered {
        /// What it said.
        message: Message,
        /// What was paid.
        usage: Usage,
        /// Why it said no more.
        finish: Option<Finish>,
    },
    /// A model did not answer, and was not asked again.
    ModelFailed {
        /// Why.
        error: ModelError,
    },
    /// A tool is called.
    ToolStarted {
        /// Which call.
        call: CallId,
    },
    /// A tool answered.
    ToolAnswered {
        /// Which call.
        call: CallId,
        /// What the model reads.
        text: String,
        /// Whether it is an error.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        /// What changed with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<StateChange>,
    },
    /// A call waits for a person.
    Asked {
        /// Which call.
        call: CallId,
        /// What is asked, as a front end shows it.
        question: Value,
    },
    /// The person answered.
    Replied {
        /// Which call.
        call: CallId,
        /// What it was.
        reply: Reply,
    },
    /// Something outside of a call changed state.
    StateChanged {
        /// What.
        changes: Vec<StateChange>,
    },
    /// What the model sees of the conversation begins elsewhere. The messages before stay in the thread.
    Compacted {
        /// How many messages of the thread the model no longer sees.
        cut: usize,
        /// What it sees in their place.
        summary: Message,
    },
    /// A part of the agent wants the turn to end.
    Stopped {
        /// Which one, and why.
        reason: String,
    },
    /// The turn is over.
    TurnEnded {
        /// How.
        outcome: Outcome,
    },
}

/// A change of the state that one part of the agent has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// Whose state.
    pub owner: String,
    /// The change, as its owner writes it.
    pub delta: Value,
}

/// What a person says to a call that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reply {
    /// Go on.
    Approve,
    /// Go on with other arguments.
    Edit {
        /// The arguments, as JSON.
        arguments: String,
    },
    /// No.
    Reject {
        /// What the model is told.
        message: String,
    },
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The model said what it wanted.
    Answered,
    /// The model said nothing at all.
    Silent,
    /// The model had no more room.
    CutOff,
    /// The model, or its provider, would not say it.
    Refused,
    /// The model was asked as often as it may be in one turn.
    TooManySteps {
        /// How often that is.
        most: u32,
    },
    /// The model did not answer.
    Failed {
        /// Why.
        error: ModelError,
    },
    /// Someone ended it.
    Cancelled,
    /// A part of the agent ended it.
    Stopped {
        /// Which one, and why.
        reason: String,
    },
}
