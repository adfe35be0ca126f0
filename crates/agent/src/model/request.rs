//! What a model is asked.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Message;

/// What a model is asked in one call.
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
    /// The system prompt, from its most to its least stable section.
    pub system: Vec<PromptSection>,
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
    /// What it may call.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Whether it has to call something.
    pub tool_choice: ToolChoice,
    /// The most that it may say, in tokens; the model's own limit otherwise.
    pub max_output: Option<u64>,
    /// How hard it should think; as hard as it does by itself otherwise.
    pub effort: Option<Effort>,
    /// How varied its answers are; as its provider has it otherwise.
    pub temperature: Option<f32>,
}

/// A section of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSection {
    /// Whose it is.
    pub owner: String,
    /// What it says.
    pub text: String,
    /// Whether it stays the same through a session, so that a provider's cache can hold it.
    pub is_stable: bool,
}

/// A tool, as a model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// Whether a model has to call something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must call something.
    Any,
    /// It must call this.
    Named(String),
    /// It must call nothing.
    None,
}

/// How hard a model should think.
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
    /// As hard as it can.
    Max,
}

impl ModelRequest {
    /// A request with nothing but a conversation.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().map(Arc::new).collect(), ..Self::default() }
    }

    /// The system prompt as one text: the sections that say something, parted by blank lines.
    pub fn system_text(&self) -> String {
        let texts = self.system.iter().map(|section| section.text.as_str());
        let texts: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
        texts.join("\n\n")
    }
}
