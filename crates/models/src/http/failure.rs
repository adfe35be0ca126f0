//! A failure before it is known whose it is.

use std::time::Duration;

use prowess_agent::model::ModelErrorKind;

use super::MAX_CALLS;

/// The longest message that leaves this crate, in characters. Whatever a provider says, nobody reads more.
const MAX_MESSAGE: usize = 2_000;

/// A failure, not yet of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: ModelErrorKind,
    /// What the provider said, all of it; it may have secrets in it.
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
    /// Whether it may pass soon.
    pub(crate) is_passing: bool,
}

impl Failure {
    pub(crate) fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, is_passing: kind.is_passing() }
    }

    /// It stays as it is until a person does something.
    pub(crate) fn lasting(mut self) -> Self {
        self.is_passing = false;
        self
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::Malformed, message)
    }

    /// The answer has more calls than [`MAX_CALLS`].
    pub(crate) fn too_many_calls() -> Self {
        Self::malformed(format!("the answer has more than {MAX_CALLS} calls")).lasting()
    }

    /// The stream ended in the middle of an answer.
    pub(crate) fn broken_off() -> Self {
        Self::new(ModelErrorKind::Unreachable, "the connection closed before the answer was complete")
    }
}

/// An error of the client and what caused it, without the address, which may have secrets in it.
pub(crate) fn described(error: reqwest::Error) -> String {
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

/// A message on one line and of a length that can be read. Secrets are taken out before: of one that is cut, the
/// beginning would stay.
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
