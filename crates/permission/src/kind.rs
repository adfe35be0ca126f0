//! The kind of an action: `skill`, `run`, `read` and so on.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest kind, in characters.
pub const MAX_KIND_CHARS: usize = 64;

/// The kind of an action: a short word.
///
/// The constants are the kinds that prowess uses. An embedder can add its own with [`Kind::parse`].
///
/// ```
/// use prowess_permission::Kind;
///
/// assert_eq!(Kind::parse("skill").unwrap(), Kind::SKILL);
/// assert!(Kind::parse("*").is_err(), "a kind is a word, never a pattern");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Kind(Cow<'static, str>);

impl Kind {
    /// Loading a skill and reading its files; the subject is the skill's name.
    pub const SKILL: Self = Self(Cow::Borrowed("skill"));
    /// Running a command; the subject is the command. For a skill's command it is
    /// [`owned_subject`](crate::owned_subject) of the skill's name and the command.
    pub const RUN: Self = Self(Cow::Borrowed("run"));
    /// Reading a file outside a skill; the subject is its real path.
    pub const READ: Self = Self(Cow::Borrowed("read"));
    /// Writing a file; the subject is its real path.
    pub const WRITE: Self = Self(Cow::Borrowed("write"));
    /// Calling a tool; the subject is the tool's name.
    pub const TOOL: Self = Self(Cow::Borrowed("tool"));
    /// Reaching a host on the network; the subject is the host: `example.com`, with `:port` if the port matters.
    pub const NETWORK: Self = Self(Cow::Borrowed("network"));

    /// Running a hook of a skill; the subject is [`owned_subject`](crate::owned_subject) of the skill's name and the event:
    /// `pdf PreToolUse`.
    pub const HOOK: Self = Self(Cow::Borrowed("hook"));

    /// Calling a tool of an MCP server; the subject is [`owned_subject`](crate::owned_subject) of our label for the server
    /// and the tool: `docs search`.
    pub const MCP: Self = Self(Cow::Borrowed("mcp"));
    /// Loading a skill of an MCP server; the subject is its name, which begins with our label for the server:
    /// `docs:pdf`.
    pub const MCP_SKILL: Self = Self(Cow::Borrowed("mcp_skill"));

    /// The kinds whose subjects are paths.
    pub(crate) const PATHS: [Self; 2] = [Self::READ, Self::WRITE];

    pub(crate) const KNOWN: [&str; 9] =
        ["skill", "run", "read", "write", "tool", "network", "hook", "mcp", "mcp_skill"];

    /// Parses a kind: up to [`MAX_KIND_CHARS`] lowercase letters, digits, `-`, `_` and `.`.
    pub fn parse(text: &str) -> Result<Self, KindError> {
        if text.is_empty() || text.len() > MAX_KIND_CHARS || !text.chars().all(Self::allows) {
            return Err(KindError { text: text.to_owned() });
        }
        Ok(Self(Cow::Owned(text.to_owned())))
    }

    pub(crate) fn has_path_subjects(&self) -> bool {
        Self::PATHS.contains(self)
    }

    pub(crate) fn allows(c: char) -> bool {
        c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.')
    }

    /// The kind as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Kind {
    type Error = KindError;

    fn try_from(text: String) -> Result<Self, KindError> {
        Self::parse(&text)
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> Self {
        kind.0.into_owned()
    }
}

/// The error for a text that is not a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a kind; use 1 to {MAX_KIND_CHARS} lowercase letters, digits, `-`, `_` and `.`",
    crate::text::escaped_start(.text)
)]
pub struct KindError {
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_kinds() {
        let constants = [
            Kind::SKILL,
            Kind::RUN,
            Kind::READ,
            Kind::WRITE,
            Kind::TOOL,
            Kind::NETWORK,
            Kind::HOOK,
            Kind::MCP,
            Kind::MCP_SKILL,
        ];
        for (kind, name) in constants.into_iter().zip(Kind::KNOWN) {
            assert_eq!(Kind::parse(name), Ok(kind));
        }
    }

    #[test]
    fn a_text_that_is_not_a_word_is_refused() {
        for text in ["", "Run", "a b", "a*", "a/b", "é", &"a".repeat(65)] {
            assert!(Kind::parse(text).is_err(), "{text}");
        }
        assert!(Kind::parse(&"a".repeat(64)).is_ok());
        assert!(serde_json::from_str::<Kind>("\"a\\n\"").is_err());
    }
}
