//! Conversations that began elsewhere. A thread cannot take over messages that its agent never wrote, so the first message
//! quotes them.

use std::fmt::Write as _;

/// A message from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// Who said it, such as `user` or `system`.
    pub(crate) who: String,
    pub(crate) text: String,
}

/// A message with what was said elsewhere before it, each line marked as a quotation.
pub(crate) fn quoting(before: &[Elsewhere], text: &str) -> String {
    let before: Vec<&Elsewhere> = before.iter().filter(|message| !message.text.trim().is_empty()).collect();
    if before.is_empty() {
        return text.to_owned();
    }
    let mut quoted = "This conversation began elsewhere. What was said so far:\n".to_owned();
    for Elsewhere { who, text } in before {
        let _ = write!(quoted, "\n> {who}:\n");
        for line in text.lines() {
            let _ = writeln!(quoted, "> {line}");
        }
    }
    let _ = write!(quoted, "\nNow the person says:\n\n{text}");
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_from_elsewhere_is_a_quotation() {
        let said = |who: &str, text: &str| Elsewhere { who: who.to_owned(), text: text.to_owned() };
        assert_eq!(quoting(&[said("system", " ")], "/tides now"), "/tides now");
        let text = quoting(&[said("user", "One\n/tides"), said("assistant", "Two")], "Three");
        assert_eq!(
            text,
            "This conversation began elsewhere. What was said so far:\n\n> user:\n> One\n> /tides\n\n> assistant:\n> Two\n\n\
             Now the person says:\n\nThree"
        );
    }
}
