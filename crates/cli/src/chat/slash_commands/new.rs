//! `/new`

use anyhow::{Result, anyhow};
use prowess_agent::ThreadId;
use prowess_agent::thread::ThreadError;

use super::{note, show_opened};
use crate::chat::agents::ChatAgents;
use crate::chat::conversation::Conversation;

/// Starts a new thread and continues in it.
pub(super) async fn start(conversation: &mut Conversation) -> Result<()> {
    let id = new_thread_id(&conversation.agents).await?;
    conversation.switch(id).await?;
    show_opened(conversation)?;
    note(conversation, format!("you are now in thread {}", conversation.thread.id()))
}

/// An unused id for a new thread: the date and six characters, short enough to type.
pub(in crate::chat) async fn new_thread_id(agents: &ChatAgents) -> Result<ThreadId> {
    let day = jiff::Zoned::now().strftime("%Y-%m-%d").to_string();
    loop {
        let own = ThreadId::new();
        let own = &own.as_str()[own.as_str().len() - 6..];
        let name: ThreadId = format!("{day}-{own}").parse().map_err(|error| anyhow!("{error}"))?;
        match agents.store.events(&name, 0, 1).await {
            Err(ThreadError::NotFound(_)) => return Ok(name),
            Err(error) => return Err(anyhow!("{error}")),
            Ok(_) => {}
        }
    }
}
