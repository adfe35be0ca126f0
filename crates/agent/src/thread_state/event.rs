//! The events of a thread. Its log is a list of them.

use std::borrow::Cow;

use prowess_permission::{Fingerprint, Question};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CallId, ThreadId};
use crate::message::Message;
use crate::model::{Finish, ModelError, ModelUsage, Usage};
use crate::tool::ToolAnswer;

/// The version of the stored form of events. Every later version reads all earlier ones.
pub const EVENT_VERSION: u32 = 2;

/// Something that happened in a thread.
///
/// A model call and a tool call have two events: a start and an outcome. A call with a start and no outcome was cut off.
/// The start of a tool call is stored before the call. The start of a model call is usually stored with its outcome: a
/// repeated model call costs tokens, and has no other effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// Someone said something, and a turn began.
    TurnStarted {
        /// The messages.
        messages: Vec<Message>,
    },
    /// A conversation from elsewhere was appended to the thread.
    Imported {
        /// The messages.
        messages: Vec<Message>,
    },
    /// A model call started.
    #[serde(rename = "model_asked")]
    ModelCalled {
        /// The agent's model. A middleware may choose another one.
        model: String,
    },
    /// A model responded.
    #[serde(rename = "model_answered")]
    ModelResponded {
        /// The model.
        model: String,
        /// The response.
        message: Message,
        /// The tokens.
        usage: Usage,
        /// Why the response ended.
        finish: Option<Finish>,
    },
    /// A model call failed for good.
    ModelFailed {
        /// The error.
        error: ModelError,
    },
    /// A tool call started.
    ToolStarted {
        /// The call.
        call: CallId,
    },
    /// A tool answered.
    ToolAnswered {
        /// The call.
        call: CallId,
        /// The answer.
        #[serde(flatten)]
        answer: ToolAnswer,
    },
    /// A middleware approved a call, so nobody is asked about it.
    Approved {
        /// The call.
        call: CallId,
        /// The middleware.
        by: String,
    },
    /// A call waits for a person: before it starts, or because its tool asks.
    Asked {
        /// The call.
        call: CallId,
        /// The question.
        #[serde(flatten)]
        question: Box<CallQuestion>,
        /// Whether the tool asks. Then the tool interprets the reply.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_tool: bool,
    },
    /// The person replied.
    Replied {
        /// The call.
        call: CallId,
        /// The reply.
        reply: CallReply,
    },
    /// Middleware changed their states outside of a call.
    StateChanged {
        /// The changes.
        changes: Vec<StateChange>,
    },
    /// A summary replaced the oldest messages that the model sees. The messages stay in the thread.
    Compacted {
        /// How many messages of the thread the model no longer sees.
        cut: usize,
        /// The message with the summary.
        summary: Message,
        /// What the summary cost.
        #[serde(default, skip_serializing_if = "ModelUsage::is_empty")]
        spent: ModelUsage,
    },
    /// A middleware asked for the end of the turn.
    Stopped {
        /// How the turn ends.
        outcome: TurnOutcome,
    },
    /// A middleware added messages for the model. A turn that was about to end continues.
    #[serde(rename = "told")]
    MessagesAdded {
        /// The messages; there may be none.
        messages: Vec<Message>,
    },
    /// The turn ended.
    TurnEnded {
        /// How it ended.
        outcome: TurnOutcome,
    },
}

impl Event {
    /// What models were paid for it, with what sub-agents and summaries took.
    pub fn spent(&self) -> Option<Cow<'_, ModelUsage>> {
        match self {
            Self::ModelResponded { model, usage, .. } => {
                Some(Cow::Owned(ModelUsage::on(model.clone(), *usage)))
            }
            Self::ToolAnswered { answer, .. } => Some(Cow::Borrowed(&answer.spent)),
            Self::Compacted { spent, .. } => Some(Cow::Borrowed(spent)),
            _ => None,
        }
    }

    /// Whether a model or a tool answered. A turn that gets answers makes progress.
    ///
    /// ```
    /// use prowess_agent::{Event, Message, ToolAnswer};
    ///
    /// assert!(Event::ToolAnswered { call: "c1".into(), answer: ToolAnswer::text("Done.") }.is_answer());
    /// assert!(!Event::TurnStarted { messages: vec![Message::user("Hi.")] }.is_answer());
    /// ```
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::ModelResponded { .. } | Self::ToolAnswered { .. })
    }

    /// What models were paid for it in its own thread: without what sub-agents took, whose threads have that.
    pub fn own_spent(&self) -> Option<Cow<'_, ModelUsage>> {
        match self {
            Self::ToolAnswered { .. } => None,
            event => event.spent(),
        }
    }
}

/// The question that a call waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredCallQuestion")]
#[non_exhaustive]
pub struct CallQuestion {
    /// The question to the person.
    pub question: Question,
    /// What a person allowed for the same call before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Fingerprint>,
    /// The sub-agent that asks, if it is not this thread's agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<SubAgentCaller>,
}

/// A sub-agent that asks a question in its parent's thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SubAgentCaller {
    /// The sub-agent's name.
    pub name: String,
    /// Its thread.
    pub thread: ThreadId,
    /// The number of the event in that thread that asked.
    pub number: u64,
}

impl From<Question> for CallQuestion {
    fn from(question: Question) -> Self {
        Self { question, allowed: Vec::new(), via: None }
    }
}

/// The stored form of a [`CallQuestion`]. Version 1 had everything in the question.
#[derive(Deserialize)]
struct StoredCallQuestion {
    question: Value,
    #[serde(default)]
    allowed: Vec<Fingerprint>,
    #[serde(default)]
    via: Option<SubAgentCaller>,
}

impl TryFrom<StoredCallQuestion> for CallQuestion {
    type Error = serde_json::Error;

    fn try_from(stored: StoredCallQuestion) -> Result<Self, serde_json::Error> {
        let StoredCallQuestion { question, mut allowed, mut via } = stored;
        if question.get("deed").is_none() {
            let before = question.get("allowed").and_then(Value::as_array).into_iter().flatten();
            allowed.extend(before.filter_map(|text| text.as_str()?.parse::<Fingerprint>().ok()));
            via = question.get("sub_agent").and_then(|via| SubAgentCaller::deserialize(via).ok());
        }
        Ok(Self { question: serde_json::from_value(question)?, allowed, via })
    }
}

/// A change of a middleware's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// The middleware whose state changes.
    pub owner: String,
    /// The change, in its owner's form.
    pub delta: Value,
}

/// A person's reply about a waiting call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallReply {
    /// Make the call.
    Approve,
    /// Make the call, and do not ask about this again.
    Always,
    /// Make the call with other arguments. If the tool asked, the call begins again: the rules decide about the new
    /// arguments, and may ask again. A reply to a sub-agent changes the sub-agent's call.
    Edit {
        /// The arguments, as JSON.
        arguments: String,
    },
    /// Do not make the call.
    Reject {
        /// What the model reads.
        message: String,
    },
    /// Do not make the call, nor any other call that waits in the thread that asks.
    RejectAll {
        /// What the model reads.
        message: String,
    },
}

impl std::fmt::Display for TurnOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Responded => f.write_str("the model responded"),
            Self::Silent => f.write_str("the response was empty"),
            Self::CutOff => f.write_str("the response reached its limit of tokens"),
            Self::Refused => f.write_str("the model refused"),
            Self::TooManyModelCalls { most: 1 } => f.write_str("the turn reached its limit of 1 model call"),
            Self::TooManyModelCalls { most } => write!(f, "the turn reached its limit of {most} model calls"),
            Self::TooManyTokens { most } => write!(f, "the turn reached its limit of {most} tokens"),
            Self::WindowFull { why } => {
                write!(f, "the next request does not fit into the model's context window: {why}")
            }
            Self::Failed { error } => error.fmt(f),
            Self::Cancelled => f.write_str("the turn was cancelled"),
            Self::Stopped { reason } => f.write_str(reason),
        }
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnOutcome {
    /// The model responded.
    #[serde(rename = "answered")]
    Responded,
    /// The response was empty.
    Silent,
    /// The response reached its limit of tokens.
    CutOff,
    /// The model or its provider refused.
    Refused,
    /// The turn reached its limit of model calls.
    #[serde(rename = "too_many_steps")]
    TooManyModelCalls {
        /// The limit.
        most: u32,
    },
    /// The turn reached its limit of tokens.
    TooManyTokens {
        /// The limit.
        most: u64,
    },
    /// The conversation fills the model's context window, and could not be summarised.
    WindowFull {
        /// Why it could not.
        why: String,
    },
    /// The model call failed.
    Failed {
        /// The error.
        error: ModelError,
    },
    /// Someone cancelled the turn.
    Cancelled,
    /// A middleware ended the turn.
    Stopped {
        /// Why.
        reason: String,
    },
}
