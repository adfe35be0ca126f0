//! What a scripted model expects of a request.

use prowess_agent::ModelRequest;
use serde::Deserialize;

/// How much of a text a failed expectation quotes, in characters.
const MAX_SHOWN: usize = 600;

/// What a scripted model expects of a request. In a file, each expectation is a text or a list of texts.
///
/// ```
/// use prowess_agent::model::ModelErrorKind;
/// use prowess_agent::{Message, Model as _, ModelRequest};
/// use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let model = Scripted::new([ScriptedTurn::new().expect(ScriptedExpect::new().last("notes").messages(1)).say("Three.")]);
/// let failed = model.call(ModelRequest::new([Message::user("Hi.")])).await.err().unwrap();
/// assert_eq!(failed.kind, ModelErrorKind::Invalid, "the last message does not contain notes");
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[must_use]
pub struct ScriptedExpect {
    system: Texts,
    not_in_system: Texts,
    last: Texts,
    not_in_last: Texts,
    conversation: Texts,
    not_in_conversation: Texts,
    tools: Texts,
    not_in_tools: Texts,
    messages: Option<usize>,
}

/// A text or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMany")]
struct Texts(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Texts {
    fn from(texts: OneOrMany) -> Self {
        match texts {
            OneOrMany::One(text) => Self(vec![text]),
            OneOrMany::Many(texts) => Self(texts),
        }
    }
}

impl ScriptedExpect {
    /// No expectations.
    pub fn new() -> Self {
        Self::default()
    }

    /// The system prompt contains this.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system.0.push(text.into());
        self
    }

    /// The system prompt does not contain this.
    pub fn not_in_system(mut self, text: impl Into<String>) -> Self {
        self.not_in_system.0.push(text.into());
        self
    }

    /// The last message contains this.
    pub fn last(mut self, text: impl Into<String>) -> Self {
        self.last.0.push(text.into());
        self
    }

    /// The last message does not contain this.
    pub fn not_in_last(mut self, text: impl Into<String>) -> Self {
        self.not_in_last.0.push(text.into());
        self
    }

    /// Some message contains this.
    pub fn conversation(mut self, text: impl Into<String>) -> Self {
        self.conversation.0.push(text.into());
        self
    }

    /// No message contains this.
    pub fn not_in_conversation(mut self, text: impl Into<String>) -> Self {
        self.not_in_conversation.0.push(text.into());
        self
    }

    /// A tool of this name is offered.
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tools.0.push(name.into());
        self
    }

    /// No tool of this name is offered.
    pub fn not_in_tools(mut self, name: impl Into<String>) -> Self {
        self.not_in_tools.0.push(name.into());
        self
    }

    /// There are this many messages.
    pub fn messages(mut self, count: usize) -> Self {
        self.messages = Some(count);
        self
    }

    /// Checks a request. The error says what was expected and what is there.
    pub(super) fn check(&self, request: &ModelRequest) -> Result<(), String> {
        if let Some(count) = self.messages
            && count != request.messages.len()
        {
            return Err(format!("expected {count} messages, but there are {}", request.messages.len()));
        }
        let system = request.system_text();
        contains("the system prompt", &system, &self.system, &self.not_in_system)?;
        let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
        contains("the last message", &last, &self.last, &self.not_in_last)?;
        if self.conversation != Texts::default() || self.not_in_conversation != Texts::default() {
            let all: Vec<String> = request.messages.iter().map(|message| message.text()).collect();
            let all = all.join("\n");
            contains("the conversation", &all, &self.conversation, &self.not_in_conversation)?;
        }
        let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        if let Some(missing) = self.tools.0.iter().find(|name| !names.contains(&name.as_str())) {
            return Err(format!("expected the tool {missing:?}, but there are {names:?}"));
        }
        if let Some(unwanted) = self.not_in_tools.0.iter().find(|name| names.contains(&name.as_str())) {
            return Err(format!("expected no tool {unwanted:?}, but there are {names:?}"));
        }
        Ok(())
    }
}

fn contains(what: &str, text: &str, wanted: &Texts, unwanted: &Texts) -> Result<(), String> {
    if let Some(missing) = wanted.0.iter().find(|wanted| !text.contains(wanted.as_str())) {
        return Err(format!("expected {what} to contain {missing:?}, but it is {}", quote(text)));
    }
    if let Some(found) = unwanted.0.iter().find(|unwanted| text.contains(unwanted.as_str())) {
        return Err(format!("expected {what} not to contain {found:?}, but it is {}", quote(text)));
    }
    Ok(())
}

/// The beginning of a text, and how much more there is.
fn quote(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_SHOWN {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(MAX_SHOWN).collect();
    format!("{head:?} and {} characters more", length - MAX_SHOWN)
}
