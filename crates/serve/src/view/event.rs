//! Events of a thread's log.

use prowess_agent::Event;
use prowess_agent::middleware::{SkillsState, Todos};
use prowess_agent::model::Usage;
use prowess_agent::thread_state::{CallReply, StateChange, TurnOutcome};
use prowess_agent::tool::ToolData;
use prowess_skills::SkillDelta;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{LoadedSkillView, MessageView, Places, QuestionView, TodoView};

/// An event of a thread's log, with its number.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct LoggedEvent {
    /// Its number in the log, from 1. It is the id of the server-sent event.
    pub number: u64,
    /// When it was stored.
    pub at: String,
    /// What happened.
    #[serde(flatten)]
    pub event: EventView,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventView {
    /// Somebody said something, and a turn began.
    TurnStarted {
        /// The messages.
        messages: Vec<MessageView>,
    },
    /// A conversation from elsewhere was appended.
    Imported {
        /// The messages.
        messages: Vec<MessageView>,
    },
    /// A model call started.
    ModelCalled {
        /// The model.
        model: String,
    },
    /// The model responded. The message replaces all pieces of text before.
    Responded {
        /// The model.
        model: String,
        /// The response.
        message: MessageView,
        /// The tokens.
        usage: UsageView,
        /// Why the response ended.
        finish: Option<Value>,
    },
    /// A model call failed for good.
    ModelFailed {
        /// Why.
        error: String,
    },
    /// A tool call started.
    ToolStarted {
        /// The call.
        call: String,
    },
    /// A tool answered.
    ToolAnswered {
        /// The call.
        call: String,
        /// The tool's text. If a person changed the arguments, the model reads that before the text.
        text: String,
        /// Whether the answer is an error.
        is_error: bool,
        /// The outcome as data: who refused the call, or the file that was changed.
        data: Option<Value>,
        /// The skill whose `allowed-tools` approved the call.
        #[serde(skip_serializing_if = "Option::is_none")]
        preapproved_by: Option<String>,
        /// What changed with it.
        #[serde(flatten)]
        changes: ChangesView,
    },
    /// A call was approved without a question.
    Approved {
        /// The call.
        call: String,
        /// Who approved it.
        by: String,
    },
    /// A question waits for a person.
    Asked(#[serde(serialize_with = "without_place")] Box<QuestionView>),
    /// A person replied.
    Replied {
        /// The call.
        call: String,
        /// The number of the question, unless its turn has ended.
        question: Option<u64>,
        /// `approve`, `always`, `edit`, `reject` or `reject_all`.
        reply: &'static str,
        /// The reason, if the person gave one.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The new arguments of the call, if the reply is `edit`.
        #[serde(skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    /// Something changed outside of a call.
    StateChanged(ChangesView),
    /// A summary replaced the oldest messages that the model sees.
    Compacted {
        /// How many messages of the thread the model no longer sees.
        messages: usize,
        /// The summary.
        summary: String,
    },
    /// Something asked for the end of the turn.
    Stopped {
        /// Why.
        reason: String,
    },
    /// Messages were added for the model.
    MessagesAdded {
        /// The messages.
        messages: Vec<MessageView>,
    },
    /// The turn ended.
    TurnEnded {
        /// How: `answered`, `cancelled`, `failed` and so on.
        outcome: String,
        /// The same for a person.
        reason: String,
    },
    /// An event of a newer version.
    Other,
}

/// What changed in a thread's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct ChangesView {
    /// The skills that were loaded.
    pub loaded: Vec<LoadedSkillView>,
    /// The names of the skills that were unloaded.
    pub unloaded: Vec<String>,
    /// The agent's new list of steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todos: Option<Vec<TodoView>>,
}

impl ChangesView {
    pub(crate) fn of(changes: &[StateChange]) -> Self {
        let mut view = Self::default();
        for change in changes {
            match SkillsState::delta(change) {
                Some(SkillDelta::Loaded { skill, .. } | SkillDelta::Reloaded { skill, .. }) => {
                    view.loaded.push((&skill).into());
                }
                Some(SkillDelta::Unloaded { name, .. }) => view.unloaded.push(name),
                _ => {}
            }
            if let Some(todos) = Todos::written(change) {
                view.todos = Some(todos.iter().map(TodoView::from).collect());
            }
        }
        view
    }
}

/// Tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct UsageView {
    /// Of the request, without those that the provider had in its cache.
    pub input: u64,
    /// Of the response.
    pub output: u64,
    /// Of the request, from the provider's cache.
    pub cached: u64,
}

impl From<Usage> for UsageView {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input.saturating_sub(usage.cache_read),
            output: usage.output,
            cached: usage.cache_read,
        }
    }
}

impl EventView {
    /// The public form of an event. `question` is that of an [`Event::Asked`].
    pub(crate) fn new(event: &Event, question: Option<QuestionView>, places: &Places) -> Self {
        let views = |messages: &[prowess_agent::Message]| messages.iter().map(MessageView::from).collect();
        match event {
            Event::TurnStarted { messages } => Self::TurnStarted { messages: views(messages) },
            Event::Imported { messages } => Self::Imported { messages: views(messages) },
            Event::MessagesAdded { messages } => Self::MessagesAdded { messages: views(messages) },
            Event::ModelCalled { model } => Self::ModelCalled { model: model.clone() },
            Event::ModelResponded { model, message, usage, finish } => Self::Responded {
                model: model.clone(),
                message: message.into(),
                usage: (*usage).into(),
                finish: finish.as_ref().and_then(|finish| serde_json::to_value(finish).ok()),
            },
            Event::ModelFailed { error } => Self::ModelFailed { error: places.shown(&error.to_string()) },
            Event::ToolStarted { call } => Self::ToolStarted { call: call.as_str().to_owned() },
            Event::ToolAnswered { call, answer } => Self::ToolAnswered {
                call: call.as_str().to_owned(),
                text: places.shown(&answer.text),
                is_error: answer.is_error,
                data: answer.data.as_ref().and_then(|data| tool_data(data, places)),
                preapproved_by: answer.preapproved_by.clone(),
                changes: ChangesView::of(&answer.changes),
            },
            Event::Approved { call, by } => Self::Approved { call: call.as_str().to_owned(), by: by.clone() },
            Event::Asked { .. } => question.map_or(Self::Other, |question| Self::Asked(Box::new(question))),
            Event::Replied { call, reply } => {
                let arguments = match reply {
                    CallReply::Edit { arguments } => Some(arguments_view(arguments, places)),
                    _ => None,
                };
                let (reply, message) = reply_view(reply);
                Self::Replied { call: call.as_str().to_owned(), question: None, reply, message, arguments }
            }
            Event::StateChanged { changes } => Self::StateChanged(ChangesView::of(changes)),
            Event::Compacted { cut, summary, .. } => {
                Self::Compacted { messages: *cut, summary: summary.text() }
            }
            Event::Stopped { outcome } => Self::Stopped { reason: places.shown(&outcome.to_string()) },
            Event::TurnEnded { outcome } => {
                Self::TurnEnded { outcome: outcome_name(outcome), reason: places.shown(&outcome.to_string()) }
            }
            _ => Self::Other,
        }
    }

    /// The name of its type: the name of the server-sent event.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TurnStarted { .. } => "turn_started",
            Self::Imported { .. } => "imported",
            Self::ModelCalled { .. } => "model_called",
            Self::Responded { .. } => "responded",
            Self::ModelFailed { .. } => "model_failed",
            Self::ToolStarted { .. } => "tool_started",
            Self::ToolAnswered { .. } => "tool_answered",
            Self::Approved { .. } => "approved",
            Self::Asked(_) => "asked",
            Self::Replied { .. } => "replied",
            Self::StateChanged(_) => "state_changed",
            Self::Compacted { .. } => "compacted",
            Self::Stopped { .. } => "stopped",
            Self::MessagesAdded { .. } => "messages_added",
            Self::TurnEnded { .. } => "turn_ended",
            Self::Other => "other",
        }
    }
}

/// A question without its number and time: those of its event are the same, and a key may not be there twice.
fn without_place<S: serde::Serializer>(question: &QuestionView, serializer: S) -> Result<S::Ok, S::Error> {
    let mut value = serde_json::to_value(question).map_err(serde::ser::Error::custom)?;
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|key, _| key != "number" && key != "at");
    }
    value.serialize(serializer)
}

fn outcome_name(outcome: &TurnOutcome) -> String {
    let value = serde_json::to_value(outcome).unwrap_or_default();
    value["outcome"].as_str().unwrap_or("ended").to_owned()
}

/// What the model reads if a person gives no reason.
pub(crate) const NO_REASON: &str = "The person rejected the call.";

fn reply_view(reply: &CallReply) -> (&'static str, Option<String>) {
    match reply {
        CallReply::Approve => ("approve", None),
        CallReply::Always => ("always", None),
        CallReply::Edit { .. } => ("edit", None),
        CallReply::Reject { message } => ("reject", reason(message)),
        CallReply::RejectAll { message } => ("reject_all", reason(message)),
        _ => ("other", None),
    }
}

fn arguments_view(arguments: &str, places: &Places) -> Value {
    let value = serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()));
    places.exact_json(&value)
}

/// What a person gave as a reason. The model always reads one.
fn reason(message: &str) -> Option<String> {
    (message != NO_REASON).then(|| message.to_owned())
}

/// The outcome of a call, without paths and rules of the server.
fn tool_data(data: &ToolData, places: &Places) -> Option<Value> {
    match data {
        ToolData::Refused { by, message, .. } => Some(
            json!({"kind": "refused", "by": by, "message": message.as_deref().map(|text| places.shown(text))}),
        ),
        ToolData::ChangedFile(file) => Some(
            json!({"kind": "changed_file", "path": file.path, "bytes": file.bytes, "change": file.change}),
        ),
        ToolData::Ran(ran) => {
            let ran = serde_json::to_value(ran).ok()?;
            let mut shown = places.shown_json(&ran);
            shown["kind"] = "ran".into();
            Some(shown)
        }
        _ => None,
    }
}
