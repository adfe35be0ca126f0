//! What is taken out of a conversation, as a file has it.

use std::fmt::Write as _;
use std::sync::Arc;

use prowess_backend::{Backend, BackendError, ReadRange, VirtualPath};

use crate::message::{AssistantPart, Content, Message, UserPart};

/// Messages as text: who says what, one after another.
pub(super) fn written(messages: &[Arc<Message>]) -> String {
    let mut text = String::new();
    for message in messages {
        if !text.is_empty() {
            text.push('\n');
        }
        match &message.content {
            Content::User { parts } => {
                text.push_str("Human: ");
                for part in parts {
                    match part {
                        UserPart::Text { text: said } => text.push_str(said),
                        UserPart::Image(media) | UserPart::File(media) => {
                            let _ = write!(text, "[{}: {}]", media.mime, media.reference);
                        }
                    }
                }
            }
            Content::Assistant { parts } => {
                text.push_str("AI: ");
                for part in parts {
                    match part {
                        AssistantPart::Text { text: said } => text.push_str(said),
                        AssistantPart::ToolCall(call) => {
                            let _ = write!(text, "[calls {} with {}]", call.name, call.arguments);
                        }
                        AssistantPart::Reasoning(_) => {}
                    }
                }
            }
            Content::Tool(result) => {
                let _ = write!(text, "Tool: {}", result.text);
            }
        }
    }
    text
}

/// Appends messages to a history, once: when the process died after it had written them and before that was
/// recorded, they are there already.
pub(super) async fn append(
    backend: &dyn Backend,
    path: &VirtualPath,
    messages: &str,
    at: &str,
) -> Result<(), BackendError> {
    let body = format!("\n\n{messages}\n\n");
    if ends_with(backend, path, body.as_bytes()).await? {
        return Ok(());
    }
    backend.append(path, format!("## Summarized at {at}{body}").into()).await.map(drop)
}

async fn ends_with(backend: &dyn Backend, path: &VirtualPath, end: &[u8]) -> Result<bool, BackendError> {
    let size = match backend.stat(path).await {
        Ok(entry) => entry.size,
        Err(BackendError::NotFound { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let Some(offset) = size.checked_sub(end.len() as u64) else { return Ok(false) };
    let contents = backend.read(path, ReadRange::first(end.len() as u64).at(offset)).await?;
    Ok(contents.bytes == end)
}
