//! Messages, in no provider's words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CallId, MessageId};
use crate::json::MODEL_JSON;

/// The mark of a message that another agent, or a part, said in a person's place.
const BY_AGENT: &str = "by_agent";

/// One message of a conversation. The system prompt is none: it is made anew for each call of a model.
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
pub struct Message {
    /// Its name, which it keeps.
    pub id: MessageId,
    /// Who says what.
    #[serde(flatten)]
    pub content: Content,
    /// What the parts of an agent note on it, each under a key of its own; no model sees it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub marks: BTreeMap<String, Value>,
}

/// Who says what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Content {
    /// A person, or who speaks for one.
    User {
        /// What is said.
        parts: Vec<UserPart>,
    },
    /// The model.
    Assistant {
        /// What is said, in its order.
        parts: Vec<AssistantPart>,
    },
    /// A tool, to one call of it.
    Tool(ToolResult),
}

/// A part of what a person says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum UserPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image(Media),
    /// A document.
    File(Media),
}

/// Something that is not text, by reference: a log of messages stays small.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Where it is: a path of the agent's backend, or `https://…`.
    pub reference: String,
    /// What it is, such as `image/png`.
    pub mime: String,
}

/// A part of what a model says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// What it thought.
    Reasoning(Reasoning),
    /// A call of a tool.
    ToolCall(ToolCall),
}

/// What a model thought, with what its provider wants back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The text; empty when the provider keeps it to itself.
    pub text: String,
    /// What proves to the provider that the text is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// What the provider shows to nobody, and wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<String>,
}

/// A call of a tool.
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
    /// Its name, which its result bears.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// The arguments, as the model wrote them: JSON, if it did well.
    pub arguments: String,
}

impl ToolCall {
    /// The arguments as an object. Nothing at all is an empty one.
    ///
    /// # Errors
    ///
    /// What is wrong with them, for the model to read.
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

/// What a tool answers to one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// What the model reads.
    pub text: String,
    /// Whether it is an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl Message {
    /// What a person says.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Content::User { parts: vec![UserPart::Text { text: text.into() }] })
    }

    /// What a model says.
    pub fn assistant(parts: Vec<AssistantPart>) -> Self {
        Self::new(Content::Assistant { parts })
    }

    /// What a tool answers.
    pub fn tool(result: ToolResult) -> Self {
        Self::new(Content::Tool(result))
    }

    fn new(content: Content) -> Self {
        Self { id: MessageId::new(), content, marks: BTreeMap::new() }
    }

    /// What another agent says in a person's place.
    pub(crate) fn by_agent(text: impl Into<String>) -> Self {
        Self::user(text).not_by_person()
    }

    /// The same, said by another agent or a part.
    pub(crate) fn not_by_person(self) -> Self {
        self.marked(BY_AGENT, true)
    }

    /// Whether a person said it: no model, tool, part or other agent.
    pub fn is_by_person(&self) -> bool {
        matches!(self.content, Content::User { .. }) && !self.marks.contains_key(BY_AGENT)
    }

    /// The name of the message that answers its call of this number: the same whenever a thread is read.
    pub(crate) fn result_id(&self, number: usize) -> MessageId {
        format!("{}-{number}", self.id.as_str()).as_str().into()
    }

    /// Notes something on it.
    #[must_use]
    pub fn marked(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.marks.insert(key.into(), value.into());
        self
    }

    /// All its text, parts joined by newlines; nothing of what was thought.
    pub fn text(&self) -> String {
        self.texts().join("\n")
    }

    /// Its texts, part by part; nothing of what was thought.
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

    /// The calls that it makes, in their order.
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

    /// What is stored today is read for good: this form only ever grows.
    #[test]
    fn the_stored_form() {
        let reasoning = Reasoning { text: "hm".to_owned(), signature: Some("s".to_owned()), redacted: None };
        let mut messages = vec![
            Message::user("hello").marked("lc_source", "summarization"),
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
    fn arguments_are_an_object_or_told_what_is_wrong() {
        assert_eq!(call("").parsed(), Ok(json!({})));
        assert_eq!(call("null").parsed(), Ok(json!({})));
        assert_eq!(call("{\"a\": 1}").parsed(), Ok(json!({"a": 1})));
        let many = call(&format!("{{\"a\": [{}0]}}", "{},".repeat(1 << 20))).parsed().unwrap_err();
        assert!(many.starts_with("the arguments take too much memory: "), "{many}");
        assert_eq!(call("[1]").parsed(), Err("the arguments must be a JSON object".to_owned()));
        assert!(call("{\"a\": ").parsed().unwrap_err().starts_with("the arguments are not valid JSON: EOF"));
    }
}
