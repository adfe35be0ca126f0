//! The request of a model call.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Message;

/// The request of one model call.
///
/// ```
/// use prowess_agent::model::{Effort, PromptSection};
/// use prowess_agent::{Message, ModelRequest};
///
/// let mut request = ModelRequest::new([Message::user("How many notes are there?")]);
/// request.system = vec![PromptSection { owner: "me".into(), text: "You count.".into(), is_stable: true }];
/// request.effort = Some(Effort::Low);
/// assert_eq!(request.system_text(), "You count.");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The sections of the system prompt, the most stable first.
    pub system: Vec<PromptSection>,
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
    /// The tools that the model can call.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Whether the model must call a tool.
    pub tool_choice: ToolChoice,
    /// The longest response, in tokens. `None`: the model's own limit.
    pub max_output: Option<u64>,
    /// How much the model should reason. `None`: its default.
    pub effort: Option<Effort>,
    /// The temperature. `None`: the provider's default.
    pub temperature: Option<f32>,
}

/// A section of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSection {
    /// The middleware that added it, or `agent`.
    pub owner: String,
    /// The text.
    pub text: String,
    /// Whether it stays the same during the conversation, so that the provider can cache it.
    pub is_stable: bool,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// The tool's name.
    pub name: String,
    /// What the tool does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

impl ToolDefinition {
    /// A tool with this name, description and schema.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self { name: name.into(), description: description.into(), parameters }
    }
}

/// Whether the model must call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// It must call some tool.
    Any,
    /// It must call this tool.
    Named(String),
    /// It must call no tool.
    None,
}

/// How much a model should reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effort {
    /// A little.
    Low,
    /// As usual.
    Medium,
    /// Much.
    High,
    /// As much as it can.
    Max,
}

impl ModelRequest {
    /// A request with only a conversation.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().map(Arc::new).collect(), ..Self::default() }
    }

    /// The system prompt as one text: all sections that are not blank, with blank lines between them.
    pub fn system_text(&self) -> String {
        let texts = self.system.iter().map(|section| section.text.as_str());
        let texts: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
        texts.join("\n\n")
    }
}
