//! What happens in a thread, step by step. A thread is the fold of its events.

use prowess_permission::{Fingerprint, Question};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CallId, ThreadId};
use crate::message::Message;
use crate::model::{Finish, ModelError, ModelUsage, Usage};
use crate::tool::ToolAnswer;

/// The version of the stored form of events. What is stored is read for good: a later version reads all before it.
pub const EVENT_VERSION: u32 = 2;

/// What happened in a thread.
///
/// An act has two: one that it begins, and one with what came of it. An act with the first and without the second was cut
/// off. That a tool is called is stored before it is. That a model is asked is stored with what came of it, unless a
/// call before it was cut off: whoever asks a model twice pays twice, and nothing else happens twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// Someone said something, and it is the agent's turn.
    TurnStarted {
        /// What was said.
        messages: Vec<Message>,
    },
    /// A conversation from elsewhere is put at the end of the thread.
    Imported {
        /// What was said.
        messages: Vec<Message>,
    },
    /// A model is asked.
    ModelAsked {
        /// The agent's own; a part may ask another.
        model: String,
    },
    /// A model answered.
    ModelAnswered {
        /// Which one.
        model: String,
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
        /// What it was.
        #[serde(flatten)]
        answer: ToolAnswer,
    },
    /// A call needs nobody's word.
    Approved {
        /// Which call.
        call: CallId,
        /// Who says so.
        by: String,
    },
    /// A call waits for a person: before it is made, or because its tool wants to know something.
    Asked {
        /// Which call.
        call: CallId,
        /// What is asked.
        #[serde(flatten)]
        asking: Box<CallQuestion>,
        /// Whether its tool asks, which does with the reply what it means.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_tool: bool,
    },
    /// The person answered.
    Replied {
        /// Which call.
        call: CallId,
        /// What it was.
        reply: CallReply,
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
        /// What the summary cost.
        #[serde(default, skip_serializing_if = "ModelUsage::is_empty")]
        spent: ModelUsage,
    },
    /// A part of the agent wants the turn to end.
    Stopped {
        /// How.
        outcome: TurnOutcome,
    },
    /// A part of the agent tells the model something; a turn that was to end goes on.
    Told {
        /// What, if anything.
        messages: Vec<Message>,
    },
    /// The turn is over.
    TurnEnded {
        /// How.
        outcome: TurnOutcome,
    },
}

/// What a call waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredAsking")]
pub struct CallQuestion {
    /// What is asked.
    pub question: Question,
    /// What was allowed for the same call before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Fingerprint>,
    /// The question of a sub-agent's thread that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<SubAgentCaller>,
}

/// The question of a sub-agent, which its parent's thread asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubAgentCaller {
    /// The sub-agent.
    pub name: String,
    /// Its thread.
    pub thread: ThreadId,
    /// The number of the event there that asked.
    pub number: u64,
}

impl From<Question> for CallQuestion {
    fn from(question: Question) -> Self {
        Self { question, allowed: Vec::new(), via: None }
    }
}

/// How it is stored; version 1 had all of it in the question.
#[derive(Deserialize)]
struct StoredAsking {
    question: Value,
    #[serde(default)]
    allowed: Vec<Fingerprint>,
    #[serde(default)]
    via: Option<SubAgentCaller>,
}

impl TryFrom<StoredAsking> for CallQuestion {
    type Error = serde_json::Error;

    fn try_from(stored: StoredAsking) -> Result<Self, serde_json::Error> {
        let StoredAsking { question, mut allowed, mut via } = stored;
        if question.get("deed").is_none() {
            let before = question.get("allowed").and_then(Value::as_array).into_iter().flatten();
            allowed.extend(before.filter_map(|text| text.as_str()?.parse::<Fingerprint>().ok()));
            via = question.get("sub_agent").and_then(|via| SubAgentCaller::deserialize(via).ok());
        }
        Ok(Self { question: serde_json::from_value(question)?, allowed, via })
    }
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
pub enum CallReply {
    /// Go on.
    Approve,
    /// Go on, and do not ask again about what the question is about.
    Always,
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
    /// No, nor anything else that waits in the thread, or in the thread of the sub-agent that asks.
    RejectAll {
        /// What the model is told.
        message: String,
    },
}

impl std::fmt::Display for TurnOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Answered => f.write_str("it answered"),
            Self::Silent => f.write_str("the model said nothing"),
            Self::CutOff => f.write_str("the model had no more room"),
            Self::Refused => f.write_str("the model refused"),
            Self::TooManySteps { most } => write!(f, "it took {most} steps, the most there may be"),
            Self::TooManyTokens { most } => write!(f, "it took {most} tokens, the most there may be"),
            Self::WindowFull { why } => {
                write!(f, "the conversation fills the model's window, and nothing could be taken out: {why}")
            }
            Self::Failed { error } => error.fmt(f),
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::Stopped { reason } => f.write_str(reason),
        }
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnOutcome {
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
    /// The turn took as many tokens as it may.
    TooManyTokens {
        /// How many that is.
        most: u64,
    },
    /// The conversation fills the model's window, and nothing could be taken out of it.
    WindowFull {
        /// Why nothing could.
        why: String,
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
