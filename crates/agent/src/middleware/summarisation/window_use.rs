//! What fills a model's context window, part by part.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use prowess_base::text::cut;
use prowess_skills::prowess_catalog::untrusted::code_text;
use serde::{Deserialize, Serialize};

use super::sizes::Sizes;
use super::summary::is_summary;
use crate::agent::next_request::NextRequest;
use crate::message::{Content, Message};
use crate::middleware::SkillsState;
use crate::model::{Model, tool_tokens};
use crate::state::States;
use crate::tool::{ToolKind, Tools};

/// How many characters of a name are shown.
const MAX_NAME: usize = 64;
/// How many parts an event stores.
const MAX_STORED: usize = 32;
/// How many messages are parts of their own in such an event. The others are one part.
const MAX_MESSAGES: usize = 3;
/// How many parts a sentence names.
const MAX_NAMED: usize = 3;

/// What fills a model's context window: the parts of a request, with their tokens.
///
/// [`Summarisation::window_use`](super::Summarisation::window_use) counts them for a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WindowUse {
    /// The context window, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The tokens that a request must leave for the response. 0 if the window is unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub response: u64,
    /// Where the numbers come from.
    pub counting: Counting,
    /// The parts, in the order of the request.
    pub parts: Vec<WindowPart>,
}

/// Where a number of tokens comes from.
///
/// ```
/// use prowess_agent::middleware::{Counting, WindowUse};
///
/// let stored = r#"{"counting": {"by": "tokenizer", "name": "o200k", "factor": 1120}, "parts": []}"#;
/// let used: WindowUse = serde_json::from_str(stored)?;
/// // The provider reported 1.12 times as many tokens as prowess counted.
/// assert_eq!(used.counting, Counting::Tokenizer { name: "o200k".into(), factor: Some(1120) });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Counting {
    /// The provider counted the request.
    Provider,
    /// prowess counted with the model's tokenizer.
    Tokenizer {
        /// The tokenizer, such as `o200k`.
        name: String,
        /// The factor that the thread learned from the provider's reports, in thousandths. `None` if it learned none.
        factor: Option<u64>,
    },
    /// prowess estimated.
    Estimate {
        /// The factor that the thread learned from the provider's reports, in thousandths. `None` if it learned none.
        factor: Option<u64>,
    },
    /// Unknown.
    #[default]
    Unknown,
}

/// A part of a request. Its text says what it is.
///
/// ```
/// use prowess_agent::middleware::{WindowPart, WindowPartKind};
///
/// let stored = r#"{"kind": "tool", "group": "server docs", "count": 12, "tokens": 3400}"#;
/// let part: WindowPart = serde_json::from_str(stored)?;
/// assert_eq!((part.kind, part.server()), (WindowPartKind::Tool, Some("docs")));
/// assert_eq!(part.to_string(), "the tools of MCP server `docs`");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WindowPart {
    /// The kind of the part.
    pub kind: WindowPartKind,
    /// The group of a tool, or who wrote a message: `person`, `model`, `tool` or `agent`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The owner of a section of the prompt, a tool, a loaded skill, or the tool that answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How many sections, tools or messages it is.
    pub count: usize,
    /// The tokens.
    pub tokens: u64,
}

/// The kind of a part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WindowPartKind {
    /// The system prompt, without anything about skills.
    Prompt,
    /// The overview of skills.
    Overview,
    /// The definition of a tool.
    Tool,
    /// The text of a loaded skill, wherever it is in the request.
    Skill,
    /// The summary of earlier messages.
    Summary,
    /// The message of the turn under way.
    Request,
    /// Other messages of the conversation.
    Message,
    /// Small parts of several kinds, together.
    Other,
}

/// The group of all tools that work on files.
const FILE_TOOLS: &str = "files";
/// The group of all tools that work with skills.
const SKILL_TOOLS: &str = "skills";
/// The beginning of the group of an MCP server's tools. The server's label follows.
const SERVER: &str = "server ";

impl WindowUse {
    /// Counts the parts of a request. `current` are the messages that started the turn under way.
    pub(super) fn count(
        model: &dyn Model,
        made: &NextRequest,
        states: &States,
        current: &[Arc<Message>],
        sizes: &Sizes,
    ) -> Self {
        let mut parts = Parts { model, skills: SkillsState::of(states), parts: Vec::new() };
        for section in &made.request.system {
            let kind = match section.owner.as_str() {
                SkillsState::OWNER => WindowPartKind::Overview,
                _ => WindowPartKind::Prompt,
            };
            let owner = if kind == WindowPartKind::Prompt { section.owner.as_str() } else { "" };
            parts.add_text(kind, "", owner, &[&section.text], model.count_tokens(&section.text));
        }
        for tool in &made.request.tools {
            let group = tool_group(&made.tools, &tool.name);
            parts.add(WindowPartKind::Tool, &group, &tool.name, tool_tokens(model, tool));
        }
        for message in &made.request.messages {
            let (mut group, mut name) = ("agent", "");
            let kind = match &message.content {
                _ if is_summary(message) => WindowPartKind::Summary,
                _ if current.iter().any(|said| said.id == message.id) => WindowPartKind::Request,
                content => {
                    (group, name) = match content {
                        Content::Tool(result) => ("tool", result.name.as_str()),
                        Content::Assistant { .. } => ("model", ""),
                        Content::User { .. } if message.is_by_person() => ("person", ""),
                        Content::User { .. } => ("agent", ""),
                    };
                    WindowPartKind::Message
                }
            };
            let group = if kind == WindowPartKind::Message { group } else { "" };
            parts.add_text(kind, group, name, &message.texts(), sizes.message(model, message));
        }
        let mut parts = parts.parts;
        parts.sort_by_key(|part| part.kind);
        Self { window: None, response: 0, counting: Counting::Unknown, parts }
    }

    /// Replaces the counts, so that the parts together have `total` tokens.
    pub(super) fn scaled_to(mut self, total: u64) -> Self {
        let counted = self.total().max(1);
        for part in &mut self.parts {
            let tokens = u128::from(part.tokens) * u128::from(total) / u128::from(counted);
            part.tokens = u64::try_from(tokens).unwrap_or(u64::MAX);
        }
        // What rounding took away.
        let rest = total.saturating_sub(self.total());
        if let Some(largest) = self.parts.iter_mut().max_by_key(|part| part.tokens) {
            largest.tokens += rest;
        }
        self
    }

    /// All parts together.
    pub fn total(&self) -> u64 {
        self.parts.iter().map(|part| part.tokens).sum()
    }

    /// The tokens of all parts of a kind.
    pub fn of_kind(&self, kind: WindowPartKind) -> u64 {
        self.parts.iter().filter(|part| part.kind == kind).map(|part| part.tokens).sum()
    }

    /// The tokens that are left in the context window, if it is known.
    pub fn free(&self) -> Option<u64> {
        Some(self.window?.saturating_sub(self.total()))
    }

    /// Whether the request leaves no room for a response. A request of an unknown window fits.
    pub fn is_full(&self) -> bool {
        self.window.is_some_and(|window| self.total().saturating_add(self.response) > window)
    }

    /// The parts that no compaction makes smaller.
    pub(super) fn what_stays(&self) -> u64 {
        let goes = [WindowPartKind::Summary, WindowPartKind::Message].map(|kind| self.of_kind(kind));
        self.total() - goes.iter().sum::<u64>()
    }

    /// The same with fewer parts: the tools of each group and small messages are one part each.
    #[must_use]
    pub fn grouped(&self) -> Self {
        let mut largest: Vec<u64> = self.messages().map(|part| part.tokens).collect();
        largest.sort_unstable_by(|one, other| other.cmp(one));
        let least = largest.get(MAX_MESSAGES - 1).copied().unwrap_or_default();
        let mut left = MAX_MESSAGES;
        let mut parts: Vec<WindowPart> = Vec::new();
        for part in &self.parts {
            let mut part = part.clone();
            match part.kind {
                WindowPartKind::Tool => part.name.clear(),
                WindowPartKind::Message if part.tokens >= least && left > 0 && part.group == "tool" => {
                    left -= 1;
                    parts.push(part);
                    continue;
                }
                WindowPartKind::Message => (part.group, part.name) = (String::new(), String::new()),
                _ => {}
            }
            let same = |known: &&mut WindowPart| {
                (known.kind, &known.group, &known.name) == (part.kind, &part.group, &part.name)
            };
            match parts.iter_mut().find(same) {
                Some(known) => {
                    (known.tokens, known.count) = (known.tokens + part.tokens, known.count + part.count)
                }
                None => parts.push(part),
            }
        }
        Self { parts, ..self.clone() }
    }

    /// The same with a bounded number of parts, for an event.
    pub(super) fn stored(&self) -> Self {
        let mut grouped = self.grouped();
        let small = grouped.parts.len().saturating_sub(MAX_STORED);
        if small > 0 {
            grouped.parts.sort_by_key(|part| std::cmp::Reverse(part.tokens));
            let small = grouped.parts.split_off(MAX_STORED);
            let (count, tokens) = (small.len(), small.iter().map(|part| part.tokens).sum());
            let (group, name) = (String::new(), String::new());
            grouped.parts.push(WindowPart { kind: WindowPartKind::Other, group, name, count, tokens });
            grouped.parts.sort_by_key(|part| part.kind);
        }
        grouped
    }

    /// The largest parts, the largest first.
    pub fn largest(&self) -> Vec<WindowPart> {
        let mut parts = self.grouped().parts;
        parts.retain(|part| part.tokens > 0);
        parts.sort_by_key(|part| std::cmp::Reverse(part.tokens));
        parts
    }

    fn messages(&self) -> impl Iterator<Item = &WindowPart> {
        self.parts.iter().filter(|part| part.kind == WindowPartKind::Message && part.group == "tool")
    }
}

/// A sentence: how many tokens a request has, and its largest parts.
impl fmt::Display for WindowUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request has about {} tokens", self.total())?;
        if self.response > 0 {
            write!(f, ", a response needs at least {}", self.response)?;
        }
        if let Some(window) = self.window {
            write!(f, ", and the window has {window}")?;
        }
        let parts = self.largest();
        for (number, part) in parts.iter().take(MAX_NAMED).enumerate() {
            f.write_str(if number == 0 { "; the largest parts are " } else { ", " })?;
            write!(f, "{part} ({})", part.tokens)?;
        }
        Ok(())
    }
}

/// What the part is, as in "the text of skill `tides`".
impl fmt::Display for WindowPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |name: &str| cut(&code_text(name), MAX_NAME).into_owned();
        match self.kind {
            WindowPartKind::Prompt => write!(f, "the system prompt ({})", shown(&self.name)),
            WindowPartKind::Overview => f.write_str("the skills overview"),
            WindowPartKind::Tool => {
                match self.group.strip_prefix(SERVER) {
                    Some(server) => write!(f, "the tools of MCP server `{}`", shown(server))?,
                    None => match self.group.as_str() {
                        FILE_TOOLS => f.write_str("the file tools")?,
                        SKILL_TOOLS => f.write_str("the skill tools")?,
                        _ => f.write_str("the other tools")?,
                    },
                }
                if self.name.is_empty() { Ok(()) } else { write!(f, ": `{}`", shown(&self.name)) }
            }
            WindowPartKind::Skill => write!(f, "the text of skill `{}`", shown(&self.name)),
            WindowPartKind::Summary => f.write_str("the summary"),
            WindowPartKind::Request => f.write_str("your message"),
            WindowPartKind::Message => match self.group.as_str() {
                "tool" => write!(f, "an answer of `{}`", shown(&self.name)),
                _ => f.write_str("the conversation"),
            },
            WindowPartKind::Other => f.write_str("other parts"),
        }
    }
}

impl WindowPart {
    /// The label of the MCP server whose tools these are.
    pub fn server(&self) -> Option<&str> {
        (self.kind == WindowPartKind::Tool).then(|| self.group.strip_prefix(SERVER)).flatten()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// The group of a tool.
fn tool_group(tools: &Tools, name: &str) -> String {
    let Some(tool) = tools.get(name) else { return "other".to_owned() };
    let group = match tool.kind() {
        ToolKind::Skill(_) => SKILL_TOOLS,
        ToolKind::Server => {
            let mut group = SERVER.to_owned();
            let _ = write!(group, "{}", tool.server().unwrap_or_default());
            return group;
        }
        kind if kind.reads_files() || kind.changes_files() || kind == ToolKind::Execute => FILE_TOOLS,
        _ => "other",
    };
    group.to_owned()
}

/// Collects parts, and finds the texts of loaded skills in them.
struct Parts<'a> {
    model: &'a dyn Model,
    skills: Option<&'a SkillsState>,
    parts: Vec<WindowPart>,
}

impl Parts<'_> {
    /// Adds a part. If there is one of the same name, except for messages, they become one.
    fn add(&mut self, kind: WindowPartKind, group: &str, name: &str, tokens: u64) {
        let same = self.parts.iter_mut().find(|part| {
            kind != WindowPartKind::Message && part.kind == kind && part.group == group && part.name == name
        });
        match same {
            Some(part) => (part.tokens, part.count) = (part.tokens + tokens, part.count + 1),
            None => {
                let (group, name) = (group.to_owned(), name.to_owned());
                self.parts.push(WindowPart { kind, group, name, count: 1, tokens });
            }
        }
    }

    /// Adds texts of `tokens` tokens. Texts of loaded skills in them become parts of their own.
    fn add_text(&mut self, kind: WindowPartKind, group: &str, name: &str, texts: &[&str], tokens: u64) {
        let mut rest = tokens;
        let Some(skills) = self.skills else { return self.add(kind, group, name, rest) };
        for text in texts {
            for (skill, range) in skills.texts_in(text) {
                let framed = self.model.count_tokens(&text[range]).min(rest);
                rest -= framed;
                self.add(WindowPartKind::Skill, "", &skill, framed);
            }
        }
        self.add(kind, group, name, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: WindowPartKind, group: &str, name: &str, tokens: u64) -> WindowPart {
        WindowPart { kind, group: group.to_owned(), name: name.to_owned(), count: 1, tokens }
    }

    fn used() -> WindowUse {
        use WindowPartKind::{Message, Overview, Prompt, Request, Skill, Tool};
        let answers =
            (0..5).map(|number| part(Message, "tool", &format!("tool{number}"), 100 * (number + 1)));
        let mut parts = vec![
            part(Prompt, "", "agent", 500),
            part(Overview, "", "", 700),
            part(Tool, FILE_TOOLS, "ls", 90),
            part(Tool, FILE_TOOLS, "grep", 110),
            part(Tool, "server docs", "docs__find", 900),
            part(Skill, "", "tides", 333),
            part(Request, "", "", 40),
            part(Message, "person", "", 20),
        ];
        parts.extend(answers);
        WindowUse { window: Some(5_000), response: 256, counting: Counting::Unknown, parts }
    }

    #[test]
    fn parts_always_add_up() {
        let used = used();
        let total = used.total();
        for scaled in [0, 1, 7, total - 1, total, 2 * total + 1] {
            assert_eq!(used.clone().scaled_to(scaled).total(), scaled);
        }
        assert_eq!((used.grouped().total(), used.stored().total()), (total, total));
        assert_eq!(used.free(), Some(5_000 - total));
        assert_eq!(used.what_stays(), total - 1_520);
        assert!(
            !used.is_full() && used.clone().scaled_to(4_745).is_full() && !used.scaled_to(4_744).is_full()
        );
    }

    #[test]
    fn groups_are_short_and_name_what_is_large() {
        let sentence = used().to_string();
        let expected = "the request has about 4193 tokens, a response needs at least 256, and the window has 5000; the \
                        largest parts are the tools of MCP server `docs` (900), the skills overview (700), the system \
                        prompt (agent) (500)";
        assert_eq!(sentence, expected);
        let names: Vec<String> = used().largest().iter().map(ToString::to_string).collect();
        assert!(names.contains(&"an answer of `tool4`".to_owned()), "{names:?}");
        assert!(!names.contains(&"an answer of `tool0`".to_owned()), "{names:?}");
    }

    #[test]
    fn an_event_has_a_bounded_number_of_parts() {
        let mut used = used();
        let servers =
            (0..500).map(|number| part(WindowPartKind::Tool, &format!("server s{number}"), "x", 10));
        used.parts.extend(servers);
        let stored = used.stored();
        assert_eq!((stored.parts.len(), stored.total()), (MAX_STORED + 1, used.total()));
    }

    #[test]
    fn names_are_made_harmless() {
        let hostile = part(WindowPartKind::Message, "tool", "\u{1b}[31m`<skill>\n", 1);
        let shown = hostile.to_string();
        assert!(!shown.contains(['\u{1b}', '\n', '<']), "{shown:?}");
    }
}
