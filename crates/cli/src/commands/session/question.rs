//! A permission question in a session, and the reply to it.

use prowess_permission::{Question, Reply};

use super::command::echo;
use crate::terminal::{printable, printable_lines};

/// The possible replies.
pub(crate) const REPLIES: &str = "Reply once, always, or no [REASON]; y, a and n also work.";

/// The text of a question.
pub(crate) fn text(question: &Question) -> String {
    let wording = question.wording();
    let mut lines = vec![format!("Permission is needed: {}", printable(&wording.heading))];
    lines.extend(wording.note.iter().map(|note| printable(note)));
    for detail in wording.details.iter().filter(|detail| !detail.is_in_title) {
        lines.push(format!(
            "{}: {}",
            printable(&detail.name),
            printable_lines(&detail.text).replace('\n', "\n  ")
        ));
    }
    lines.push(wording.always_line().unwrap_or_else(|| "`always` would record nothing".to_owned()));
    lines.push(REPLIES.to_owned());
    lines.join("\n")
}

/// Parses a reply.
pub(crate) fn parse(line: &str) -> Option<Reply> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (word.to_ascii_lowercase().as_str(), rest.trim()) {
        ("y" | "yes" | "once", "") => Some(Reply::Once),
        ("a" | "always", "") => Some(Reply::Always),
        ("n" | "no", "") => Some(Reply::Reject { message: None }),
        ("n" | "no", reason) => Some(Reply::Reject { message: Some(reason.to_owned()) }),
        _ => None,
    }
}

/// The reply for a line of a script that is not a valid reply: the gate stays closed.
pub(crate) fn not_a_reply(line: &str) -> Reply {
    let message =
        format!("`{}` is not a reply to the question; reply once, always or no [REASON]", echo(line));
    Reply::Reject { message: Some(message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clear_words_allow() {
        for line in ["y", "yes", " once \r", "Y"] {
            assert_eq!(parse(line), Some(Reply::Once), "{line}");
        }
        assert_eq!([parse("a"), parse("always")], [Some(Reply::Always), Some(Reply::Always)]);
        assert_eq!(parse("n"), Some(Reply::Reject { message: None }));
        assert_eq!(parse("no not  today"), Some(Reply::Reject { message: Some("not  today".to_owned()) }));
        for line in ["", "yes please", "load pdf", "ye"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
