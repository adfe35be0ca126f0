//! `/fork`

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use prowess_agent::{Thread, ThreadId, ThreadStore};

use super::new::new_thread_id;
use super::note;
use crate::chat::agents::{ChatAgents, make};
use crate::chat::conversation::Conversation;

/// Continues in a copy of this thread.
pub(super) async fn fork(conversation: &mut Conversation) -> Result<()> {
    let from = conversation.thread.id().clone();
    let copy = copy_thread(&conversation.agents, &conversation.thread).await?;
    conversation.switch(copy).await?;
    note(conversation, format!("you are now in thread {}, a copy of {from}", conversation.thread.id()))
}

/// Copies a thread with its files and artifacts. The names in the conversation keep their meaning, and neither thread can
/// replace files of the other.
async fn copy_thread(agents: &ChatAgents, thread: &Thread) -> Result<ThreadId> {
    let copy = new_thread_id(agents).await?;
    copy_files(&agents.thread_files(thread.id()), &agents.thread_files(&copy))?;
    let (from, to) = (agents.artifacts_of(thread.id())?, agents.artifacts_of(&copy)?);
    if from.scope() != to.scope() {
        from.copy_all(to.scope()).await.map_err(|error| anyhow!("{error}"))?;
    }
    agents.store.fork(thread.id(), thread.events(), &copy).await.map_err(|error| anyhow!("{error}"))?;
    Ok(copy)
}

/// Copies a directory with everything in it.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(from) else { return Ok(()) };
    make(to)?;
    for entry in entries.flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            copy_files(&path, &target)?;
        } else if kind.is_file() {
            std::fs::copy(&path, &target).with_context(|| format!("{} cannot be copied", path.display()))?;
        }
    }
    Ok(())
}
