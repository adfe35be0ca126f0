//! Messages.

use prowess_agent::Message;
use prowess_agent::message::{AssistantPart, Content};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    /// A person.
    User,
    /// The model.
    Assistant,
    /// A tool, which answers a call.
    Tool,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MessageView {
    /// Its id, which never changes.
    pub id: String,
    /// Who says it.
    pub role: MessageRole,
    /// Its text.
    pub text: String,
    /// The model's reasoning, if its provider shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The calls that the model makes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallView>,
    /// The call that a tool answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Whether a tool's answer is an error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// `agent`, if prowess or another agent says it in a person's place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'static str>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct CallView {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: an object, or the model's own text if that is no JSON.
    pub arguments: Value,
}

impl From<&Message> for MessageView {
    fn from(message: &Message) -> Self {
        let mut view = Self {
            id: message.id.as_str().to_owned(),
            role: MessageRole::User,
            text: message.text(),
            reasoning: None,
            calls: Vec::new(),
            call: None,
            is_error: false,
            by: None,
        };
        match &message.content {
            Content::User { .. } => view.by = (!message.is_by_person()).then_some("agent"),
            Content::Assistant { parts } => {
                view.role = MessageRole::Assistant;
                let reasoning: Vec<&str> = parts
                    .iter()
                    .filter_map(|part| match part {
                        AssistantPart::Reasoning(reasoning) if !reasoning.text.is_empty() => {
                            Some(reasoning.text.as_str())
                        }
                        _ => None,
                    })
                    .collect();
                view.reasoning = (!reasoning.is_empty()).then(|| reasoning.join("\n"));
                view.calls = message.tool_calls().map(CallView::from).collect();
            }
            Content::Tool(result) => {
                view.role = MessageRole::Tool;
                (view.call, view.is_error) = (Some(result.call.as_str().to_owned()), result.is_error);
            }
        }
        view
    }
}

impl From<&prowess_agent::ToolCall> for CallView {
    fn from(call: &prowess_agent::ToolCall) -> Self {
        let arguments = call.parsed().unwrap_or_else(|_| Value::String(call.arguments.clone()));
        Self { id: call.id.as_str().to_owned(), name: call.name.clone(), arguments }
    }
}
