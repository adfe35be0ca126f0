//! Messages of a conversation, independent of any provider.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CallId, MessageId};
use crate::json::MODEL_JSON;

/// The mark of a message that another agent or a middleware said in a person's place.
const BY_AGENT: &str = "by_agent";

/// One message of a conversation. The system prompt is no message: it is built for each model call.
///
/// ```
/// use prowess_agent::message::AssistantPart;
/// use prowess_agent::{Message, ToolCall, ToolResult};
///
/// let call = ToolCall { id: "c1".into(), name: "ls".into(), arguments: r#"{"path": "/"}"#.into() };
/// let text = "notes.md".to_owned();
/// let conversation = [
///     Message::user("What is there?"),
///     Message::assistant(vec![AssistantPart::ToolCall(call)]),
///     Message::tool(ToolResult { call: "c1".into(), name: "ls".into(), text, is_error: false }),
/// ];
/// assert_eq!(conversation[1].tool_calls().next().unwrap().parsed().unwrap()["path"], "/");
/// assert_eq!(conversation[2].text(), "notes.md");
/// assert!(conversation[0].is_by_person());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// The message's id, which never changes.
    pub id: MessageId,
    /// Who says it, and what.
    #[serde(flatten)]
    pub content: Content,
    /// Notes of middleware, each under its own key. No model sees them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub marks: BTreeMap<String, Value>,
}

/// Who says something, and what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Content {
    /// A person, or someone who speaks for a person.
    User {
        /// The parts of the message.
        parts: Vec<UserPart>,
    },
    /// The model.
    Assistant {
        /// The parts of the response, in order.
        parts: Vec<AssistantPart>,
    },
    /// A tool's answer to one call.
    Tool(ToolResult),
}

/// A part of a person's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum UserPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image(Media),
    /// A file.
    File(Media),
}

/// A reference to an image or a file, so that logs stay small.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Where it is: a path in the agent's backend, or `https://…`.
    pub reference: String,
    /// Its media type, such as `image/png`.
    pub mime: String,
}

/// A part of a model's response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AssistantPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning.
    Reasoning(Reasoning),
    /// A tool call.
    ToolCall(ToolCall),
}

/// A model's reasoning, with the data that its provider wants back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The text; empty if the provider does not show it.
    pub text: String,
    /// The provider's signature of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Encrypted reasoning that only the provider can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<String>,
}

/// A tool call.
///
/// ```
/// use prowess_agent::ToolCall;
///
/// let call = ToolCall { id: "c1".into(), name: "ls".into(), arguments: r#"{"path": "/"}"#.into() };
/// assert_eq!(call.parsed()?["path"], "/");
/// let torn = ToolCall { arguments: r#"{"path": "#.into(), ..call };
/// assert!(torn.parsed().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id. Its answer has the same.
    pub id: CallId,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them. They should be JSON.
    pub arguments: String,
}

impl ToolCall {
    /// The arguments as an object. An empty text is an empty object.
    ///
    /// # Errors
    ///
    /// Says what is wrong with them, for the model to read.
    pub fn parsed(&self) -> Result<Value, String> {
        if self.arguments.trim().is_empty() {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        if let Err(costly) = MODEL_JSON.check(self.arguments.as_bytes()) {
            return Err(format!("the arguments take too much memory: {costly}"));
        }
        match serde_json::from_str(&self.arguments) {
            Ok(arguments @ Value::Object(_)) => Ok(arguments),
            Ok(Value::Null) => Ok(Value::Object(serde_json::Map::new())),
            Ok(_) => Err("the arguments must be a JSON object".to_owned()),
            Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
        }
    }
}

/// A tool's answer to one call, as a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub call: CallId,
    /// The tool's name.
    pub name: String,
    /// The text that the model reads.
    pub text: String,
    /// Whether the answer is an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl Message {
    /// A person's message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Content::User { parts: vec![UserPart::Text { text: text.into() }] })
    }

    /// A model's response.
    pub fn assistant(parts: Vec<AssistantPart>) -> Self {
        Self::new(Content::Assistant { parts })
    }

    /// A tool's answer.
    pub fn tool(result: ToolResult) -> Self {
        Self::new(Content::Tool(result))
    }

    fn new(content: Content) -> Self {
        Self { id: MessageId::new(), content, marks: BTreeMap::new() }
    }

    /// A message that another agent says in a person's place.
    pub(crate) fn by_agent(text: impl Into<String>) -> Self {
        Self::user(text).not_by_person()
    }

    /// Marks the message as said by another agent or a middleware.
    pub(crate) fn not_by_person(self) -> Self {
        self.mark(BY_AGENT, true)
    }

    /// Whether a person said it, and no model, tool, middleware or other agent.
    pub fn is_by_person(&self) -> bool {
        matches!(self.content, Content::User { .. }) && !self.marks.contains_key(BY_AGENT)
    }

    /// The id of the message that answers the call of this number. It is the same each time the thread is read.
    pub(crate) fn result_id(&self, number: usize) -> MessageId {
        format!("{}-{number}", self.id.as_str()).as_str().into()
    }

    /// Adds a note of a middleware.
    #[must_use]
    pub fn mark(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.marks.insert(key.into(), value.into());
        self
    }

    /// All text of the message, without reasoning. Newlines join its parts.
    pub fn text(&self) -> String {
        self.texts().join("\n")
    }

    /// The texts of the message, part by part, without reasoning.
    pub(crate) fn texts(&self) -> Vec<&str> {
        match &self.content {
            Content::User { parts } => parts
                .iter()
                .filter_map(|part| match part {
                    UserPart::Text { text } => Some(text.as_str()),
                    UserPart::Image(_) | UserPart::File(_) => None,
                })
                .collect(),
            Content::Assistant { parts } => parts
                .iter()
                .filter_map(|part| match part {
                    AssistantPart::Text { text } => Some(text.as_str()),
                    AssistantPart::Reasoning(_) | AssistantPart::ToolCall(_) => None,
                })
                .collect(),
            Content::Tool(result) => vec![&result.text],
        }
    }

    /// The tool calls of the message, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        let parts: &[AssistantPart] = match &self.content {
            Content::Assistant { parts } => parts,
            Content::User { .. } | Content::Tool(_) => &[],
        };
        parts.iter().filter_map(|part| match part {
            AssistantPart::ToolCall(call) => Some(call),
            AssistantPart::Text { .. } | AssistantPart::Reasoning(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(arguments: &str) -> ToolCall {
        ToolCall { id: "c1".into(), name: "ls".to_owned(), arguments: arguments.to_owned() }
    }

    /// Later versions must read this stored form.
    #[test]
    fn the_stored_form() {
        let reasoning = Reasoning { text: "hm".to_owned(), signature: Some("s".to_owned()), redacted: None };
        let mut messages = vec![
            Message::user("hello").mark("lc_source", "summarization"),
            Message::assistant(vec![
                AssistantPart::Reasoning(reasoning),
                AssistantPart::Text { text: "let me look".to_owned() },
                AssistantPart::ToolCall(call("{\"path\": \"/\"}")),
            ]),
            Message::tool(ToolResult {
                call: "c1".into(),
                name: "ls".to_owned(),
                text: "a b".to_owned(),
                is_error: false,
            }),
        ];
        for (message, id) in messages.iter_mut().zip(["m1", "m2", "m3"]) {
            message.id = id.into();
        }
        let stored = json!([
            {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hello"}],
             "marks": {"lc_source": "summarization"}},
            {"id": "m2", "role": "assistant", "parts": [
                {"type": "reasoning", "text": "hm", "signature": "s"},
                {"type": "text", "text": "let me look"},
                {"type": "tool_call", "id": "c1", "name": "ls", "arguments": "{\"path\": \"/\"}"}]},
            {"id": "m3", "role": "tool", "call": "c1", "name": "ls", "text": "a b"},
        ]);
        assert_eq!(json!(messages), stored);
        assert_eq!(serde_json::from_value::<Vec<Message>>(stored).unwrap(), messages);
    }

    #[test]
    fn arguments_are_an_object_or_an_error_says_why() {
        assert_eq!(call("").parsed(), Ok(json!({})));
        assert_eq!(call("null").parsed(), Ok(json!({})));
        assert_eq!(call("{\"a\": 1}").parsed(), Ok(json!({"a": 1})));
        let many = call(&format!("{{\"a\": [{}0]}}", "{},".repeat(1 << 20))).parsed().unwrap_err();
        assert!(many.starts_with("the arguments take too much memory: "), "{many}");
        assert_eq!(call("[1]").parsed(), Err("the arguments must be a JSON object".to_owned()));
        assert!(call("{\"a\": ").parsed().unwrap_err().starts_with("the arguments are not valid JSON: EOF"));
    }
}
