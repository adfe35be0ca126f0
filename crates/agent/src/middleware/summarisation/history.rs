//! The history file: messages that the model no longer sees.

use std::sync::Arc;

use bytes::Bytes;
use prowess_backend::{Backend, BackendError, ReadRange, VirtualPath};

use super::summary;
use crate::message::{AssistantPart, Content, Message, UserPart};

/// Messages as text, one after another, with their speakers.
pub(super) fn as_text(messages: impl IntoIterator<Item = impl AsRef<Message>>) -> String {
    let mut text = String::new();
    for message in messages {
        if !text.is_empty() {
            text.push('\n');
        }
        write(&mut text, message.as_ref());
    }
    text
}

fn write(text: &mut String, message: &Message) {
    let mut is_first = true;
    let mut add = |text: &mut String, pieces: &[&str]| {
        if !std::mem::take(&mut is_first) {
            text.push('\n');
        }
        text.extend(pieces.iter().copied());
    };
    match &message.content {
        Content::User { parts } => {
            text.push_str("Human: ");
            for part in parts {
                match part {
                    UserPart::Text { text: said } => add(text, &[said]),
                    UserPart::Image(media) | UserPart::File(media) => {
                        add(text, &["[", &media.mime, ": ", &media.reference, "]"]);
                    }
                }
            }
        }
        Content::Assistant { parts } => {
            text.push_str("AI: ");
            for part in parts {
                match part {
                    AssistantPart::Text { text: said } => add(text, &[said]),
                    AssistantPart::ToolCall(call) => {
                        add(text, &["[calls ", &call.name, " with ", &call.arguments, "]"]);
                    }
                    AssistantPart::Reasoning(_) => {}
                }
            }
        }
        Content::Tool(result) => text.extend(["Tool: ", &result.text]),
    }
}

/// The section of the history file for these messages. `None` if all of them are earlier summaries.
pub(super) fn section(at: &str, messages: &[Arc<Message>]) -> Option<Bytes> {
    let mut written = messages.iter().filter(|message| !summary::is_summary(message)).peekable();
    written.peek()?;
    Some(format!("## Summarized at {at}\n\n{}\n\n", as_text(written)).into())
}

/// The size of a history file, in bytes.
pub(super) async fn size(backend: &dyn Backend, path: &VirtualPath) -> Result<u64, BackendError> {
    match backend.stat(path).await {
        Ok(entry) => Ok(entry.size),
        Err(BackendError::NotFound { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Appends a section to a history file, unless it is there already. If a crash cut the section off, appends its rest.
///
/// `before` is the size of the file when the compaction was decided.
pub(super) async fn append_once(
    backend: &dyn Backend,
    path: &VirtualPath,
    section: Bytes,
    before: u64,
) -> Result<(), BackendError> {
    let since = size(backend, path).await?.saturating_sub(before);
    let written = match since {
        0 => 0,
        since => {
            already_written(&section, &backend.read(path, ReadRange::first(since).at(before)).await?.bytes)
        }
    };
    if written == section.len() {
        return Ok(());
    }
    backend.append(path, section.slice(written..)).await.map(drop)
}

/// How many bytes of a section are written: all if it is anywhere in `since`, or its beginning at the end of `since`.
fn already_written(section: &[u8], since: &[u8]) -> usize {
    if since.windows(section.len()).any(|window| window == section) {
        return section.len();
    }
    let most = section.len().min(since.len());
    (0..=most).rev().find(|length| since.ends_with(&section[..*length])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::already_written;

    #[test]
    fn a_section_is_whole_missing_or_torn() {
        let section = b"## Summarized at 1\n\nHuman: a\n\n";
        assert_eq!(already_written(section, b""), 0);
        assert_eq!(already_written(section, b"## Summarized at 2\n\nHuman: a\n\n"), 0);
        assert_eq!(already_written(section, section), section.len());
        assert_eq!(
            already_written(section, &[b"other\n\n", &section[..], b"other\n\n"].concat()),
            section.len()
        );
        for torn in 0..section.len() {
            assert_eq!(already_written(section, &[b"other\n\n", &section[..torn]].concat()), torn);
        }
    }
}
