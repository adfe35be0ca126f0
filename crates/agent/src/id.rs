//! Ids of threads, messages and tool calls.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The longest thread id, in bytes.
pub const MAX_THREAD_ID: usize = 64;

/// The name of a thread: letters, digits, `-` and `_`. It is safe as the name of a file.
///
/// ```
/// use prowess_agent::ThreadId;
///
/// assert!("release-notes".parse::<ThreadId>().is_ok());
/// assert!("../etc".parse::<ThreadId>().is_err());
/// assert!(ThreadId::new() < ThreadId::new(), "new ids are ordered by time");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ThreadId(String);

/// The text is not a valid name of a thread.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a thread's name must have 1 to {MAX_THREAD_ID} characters: letters, digits, `-` and `_`")]
pub struct ThreadIdError;

impl ThreadId {
    /// A new id. It sorts after all earlier ones.
    #[expect(clippy::new_without_default, reason = "a default that differs each time would surprise")]
    pub fn new() -> Self {
        Self(Uuid::now_v7().simple().to_string())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ThreadId {
    type Err = ThreadIdError;

    fn from_str(text: &str) -> Result<Self, ThreadIdError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let fits = (1..=MAX_THREAD_ID).contains(&text.len());
        if fits && text.bytes().all(allowed) { Ok(Self(text.to_owned())) } else { Err(ThreadIdError) }
    }
}

impl TryFrom<String> for ThreadId {
    type Error = ThreadIdError;

    fn try_from(text: String) -> Result<Self, ThreadIdError> {
        text.parse()
    }
}

impl From<ThreadId> for String {
    fn from(id: ThreadId) -> Self {
        id.0
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a message, which never changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(String);

impl MessageId {
    /// A new id.
    #[expect(clippy::new_without_default, reason = "a default that differs each time would surprise")]
    pub fn new() -> Self {
        Self(Uuid::now_v7().simple().to_string())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for MessageId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// The id of a tool call, as the model gave it. It is unique within its message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(String);

impl CallId {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for CallId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_never_a_path() {
        for text in ["", ".", "..", "a/b", "a\\b", "a b", "a\0", "ä", "a.md", &"x".repeat(65)] {
            assert!(text.parse::<ThreadId>().is_err(), "{text:?}");
        }
        assert!(serde_json::from_str::<ThreadId>("\"../x\"").is_err());
    }
}
