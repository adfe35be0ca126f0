//! `/fork`

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use prowess_agent::{Thread, ThreadId};

use super::new::new_thread_id;
use super::note;
use crate::chat::agents::{ChatAgents, make};
use crate::chat::conversation::Conversation;
use crate::terminal::printable;

/// Continues in a copy of this thread.
pub(super) async fn fork(conversation: &mut Conversation) -> Result<()> {
    let from = conversation.thread.id().clone();
    let (copy, notice) = copy_thread(&conversation.agents, &conversation.thread).await?;
    conversation.switch(copy).await?;
    note(conversation, format!("you are now in thread {}, a copy of {from}", conversation.thread.id()))?;
    notice.map_or(Ok(()), |notice| note(conversation, notice))
}

/// Copies a thread with its files, its workspace and its artifacts. The names in the conversation keep their meaning, and
/// neither thread can replace files of the other. Also returns what to say about files that were not copied.
async fn copy_thread(agents: &ChatAgents, thread: &Thread) -> Result<(ThreadId, Option<String>)> {
    let copy = new_thread_id(agents).await?;
    copy_files(&agents.thread_files(thread.id()), &agents.thread_files(&copy))?;
    let (from, to) = (agents.artifacts_of(thread.id())?, agents.artifacts_of(&copy)?);
    if from.scope() != to.scope() {
        from.copy_all(to.scope()).await.map_err(|error| anyhow!("{error}"))?;
    }
    agents.store.fork(thread.id(), thread.events(), &copy).await.map_err(|error| anyhow!("{error}"))?;
    let notice = copy_workspace(agents, thread.id(), &copy).await;
    Ok((copy, notice))
}

/// Copies the files of a thread's workspace. A conversation can go on without them, so a failure is only said.
async fn copy_workspace(agents: &ChatAgents, from: &ThreadId, to: &ThreadId) -> Option<String> {
    let workspaces = agents.runner.workspaces.clone();
    let (source, target) = (from.as_str().to_owned(), to.as_str().to_owned());
    let copied = tokio::task::spawn_blocking(move || workspaces.copy_files(&source, &target)).await;
    let place = printable(&agents.workspace_of(from).display().to_string());
    match copied {
        Ok(Ok(copied)) if copied.left_out == 0 => None,
        Ok(Ok(copied)) => {
            let (entries, were) = if copied.left_out == 1 { ("entry", "was") } else { ("entries", "were") };
            Some(format!(
                "{} {entries} of {place} {were} not copied: only readable files and directories are.",
                copied.left_out
            ))
        }
        Ok(Err(error)) => Some(without_files(&error.to_string())),
        Err(error) => Some(without_files(&error.to_string())),
    }
}

fn without_files(error: &str) -> String {
    format!("the files of commands are not in the new thread: {}", printable(error))
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
