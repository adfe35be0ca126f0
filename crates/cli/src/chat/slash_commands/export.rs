//! `/export`

use anyhow::Result;

use super::note;
use crate::chat::conversation::Conversation;
use crate::threads;

/// Writes the conversation to a file.
pub(super) fn export(conversation: &Conversation, file: Option<String>) -> Result<()> {
    let path = threads::export(conversation.thread.id(), conversation.thread.state(), file.map(Into::into))?;
    note(conversation, format!("wrote the conversation to {}", path.display()))
}
