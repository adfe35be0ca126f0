//! The response to a request for a summary: the end of the messages, with short lines.

use prowess_agent::ModelRequest;

/// How much of an earlier summary, and of the messages, it quotes, in characters.
const MAX_PART: usize = 300;
/// How much of one line it quotes, in characters.
const MAX_LINE: usize = 80;

/// The text in place of a summary, if a request asks for one: it has no tools, and messages between tags.
pub(super) fn summary(request: &ModelRequest) -> Option<String> {
    if !request.tools.is_empty() || !request.system.is_empty() {
        return None;
    }
    let [asked] = &request.messages[..] else { return None };
    let text = asked.text();
    let messages = between(&text, "messages")?;
    let lines = messages.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.map(|line| line.chars().take(MAX_LINE).collect::<String>());
    let said = lines.collect::<Vec<_>>().join("\n");
    let earlier =
        between(&text, "summary").map(|earlier| format!("{}\n\n", end(earlier))).unwrap_or_default();
    Some(format!(
        "{earlier}I cannot summarise. These are the last messages, with each line cut short:\n\n{}",
        end(&said)
    ))
}

/// The text between two tags.
fn between<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>\n"))?;
    let (inner, _) = rest.rsplit_once(&format!("\n</{tag}>"))?;
    Some(inner)
}

/// The end of a text.
fn end(text: &str) -> &str {
    let skipped = text.chars().count().saturating_sub(MAX_PART);
    let from = text.char_indices().nth(skipped).map_or(text.len(), |(at, _)| at);
    &text[from..]
}

#[cfg(test)]
mod tests {
    use prowess_agent::Message;

    use super::*;

    fn asked(text: &str) -> Option<String> {
        summary(&ModelRequest::new([Message::user(text)]))
    }

    #[test]
    fn lines_of_the_messages_are_quoted() {
        let text = format!(
            "Write it down.\n\n<summary>\nbefore\n</summary>\n\n<messages>\nuser: hello\n\nassistant: {}\n</messages>",
            "x".repeat(500)
        );
        let said = asked(&text).unwrap();
        assert!(said.starts_with("before\n\nI cannot summarise"), "{said}");
        assert!(said.contains("user: hello\nassistant: x") && said.len() < 400, "{said}");
    }

    #[test]
    fn a_conversation_without_end_is_cut_at_its_beginning() {
        let text = format!("<messages>\n{}last\n</messages>", "line\n".repeat(10_000));
        let said = asked(&text).unwrap();
        assert!(said.ends_with("line\nlast") && said.len() < MAX_PART + 200, "{}", said.len());
    }

    #[test]
    fn other_requests_get_no_summary() {
        assert_eq!(asked("Hello!"), None);
        assert_eq!(asked("<messages>"), None);
    }
}
