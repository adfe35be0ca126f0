//! A failed model call, before the model's name and the secrets are known.

use std::time::Duration;

use prowess_agent::model::ModelErrorKind;

use super::MAX_CALLS;

/// The longest error message, in characters. Longer ones are cut.
const MAX_MESSAGE: usize = 2_000;

/// A failed model call, without the model's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: ModelErrorKind,
    /// The provider's whole message. It may contain secrets.
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
    /// Whether a retry may succeed.
    pub(crate) is_passing: bool,
    /// The context window that the provider named.
    pub(crate) window: Option<u64>,
    /// The tokens of the request that the provider named.
    pub(crate) tokens: Option<u64>,
}

impl Failure {
    pub(crate) fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        let is_passing = kind.is_passing();
        Self { kind, message: message.into(), retry_after: None, is_passing, window: None, tokens: None }
    }

    /// Marks it as one that a retry cannot fix.
    pub(crate) fn lasting(mut self) -> Self {
        self.is_passing = false;
        self
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::Malformed, message)
    }

    /// The response has more calls than [`MAX_CALLS`].
    pub(crate) fn too_many_calls() -> Self {
        Self::malformed(format!("the response has more than {MAX_CALLS} calls")).lasting()
    }

    /// The stream ended in the middle of a response.
    pub(crate) fn broken_off() -> Self {
        Self::new(ModelErrorKind::Unreachable, "the connection closed before the response was complete")
    }
}

/// An error of the HTTP client with its causes, without the address, which may contain secrets.
pub(crate) fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// A message on one line, cut to a readable length. Secrets must be removed before, because cutting could keep the
/// beginning of one.
pub(super) fn plain(message: &str) -> String {
    let mut text = String::with_capacity(message.len().min(MAX_MESSAGE * 2));
    let mut length = 0;
    for word in message.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !text.is_empty() {
            text.push(' ');
        }
        for c in word.chars() {
            if length == MAX_MESSAGE {
                text.push('…');
                return text;
            }
            text.push(c);
            length += 1;
        }
        length += 1;
        if length >= MAX_MESSAGE {
            text.push('…');
            return text;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_short_and_on_one_line() {
        assert_eq!(plain(" a\r\n\tb\u{7} "), "a b");
        assert!(plain(&"x".repeat(100_000)).chars().count() <= MAX_MESSAGE + 1);
        assert!(plain(&"x ".repeat(100_000)).chars().count() <= MAX_MESSAGE + 1);
    }
}
