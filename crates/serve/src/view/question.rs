//! Questions to a person.

use std::time::SystemTime;

use prowess_agent::ToolCall;
use prowess_agent::thread_state::CallQuestion;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{Places, time};

/// A question that waits for a reply, or waited for one.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct QuestionView {
    /// The thread.
    pub thread: String,
    /// The number of the event that asked. A reply names it.
    pub number: u64,
    /// The call that waits.
    pub call: String,
    /// The tool that is called.
    pub tool: String,
    /// The action, on one line.
    pub title: String,
    /// Everything else that you allow by approving it.
    pub details: Vec<DetailView>,
    /// The arguments of the call.
    pub arguments: Value,
    /// The sub-agent that asks, if it is not the thread's own agent.
    pub via: Option<String>,
    /// Whether the reply `always` is possible.
    pub can_always: bool,
    /// Whether the reply `edit` is possible. The arguments of a sub-agent's call cannot be changed.
    pub can_edit: bool,
    /// What `always` would allow.
    pub always: Vec<String>,
    /// When `always` ends, such as `until the skill changes`, if it ends by itself.
    pub always_ends: Option<String>,
    /// Why prowess asks although you may have replied before.
    pub note: Option<String>,
    /// When it was asked.
    pub at: String,
}

/// One detail of a question.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DetailView {
    /// Its name.
    pub name: String,
    /// Its whole text.
    pub text: String,
    /// How to show it: `plain`, `removed`, `added`, `difference`, `list` or `data`.
    pub look: Value,
}

impl QuestionView {
    /// The public form of a question.
    pub(crate) fn new(
        thread: &str,
        number: u64,
        at: SystemTime,
        call: &ToolCall,
        asked: &CallQuestion,
        places: &Places,
    ) -> Self {
        let wording = asked.question.wording();
        let detail = |detail: &prowess_permission::wording::Detail| DetailView {
            name: detail.name.clone(),
            text: places.exact(&detail.text),
            look: serde_json::to_value(detail.style).unwrap_or_default(),
        };
        let arguments = call.parsed().unwrap_or_else(|_| Value::String(call.arguments.clone()));
        Self {
            thread: thread.to_owned(),
            number,
            call: call.id.as_str().to_owned(),
            tool: call.name.clone(),
            title: places.exact(&wording.title),
            details: wording.details.iter().map(detail).collect(),
            arguments: places.exact_json(&arguments),
            via: asked.via.as_ref().map(|via| via.name.clone()),
            can_edit: asked.via.is_none(),
            can_always: !wording.always.is_empty(),
            always: wording.always.iter().map(|rule| places.exact(rule)).collect(),
            always_ends: wording.always_ends.map(str::to_owned),
            note: wording.note.clone(),
            at: time(at),
        }
    }
}
