//! New threads of a conversation: their names, and copies.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use prowess_agent::thread::ThreadError;
use prowess_agent::{Thread, ThreadId, ThreadStore};

use crate::chat::agents::{ChatAgents, make};

/// A name for a new thread that no other has: the day, and something of its own that is short enough to type.
pub(in crate::chat) async fn name(agents: &ChatAgents) -> Result<ThreadId> {
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

/// A copy of a thread as it is now, with the files beside it and copies of its artifacts: what the conversation names
/// stays what it was, and neither thread replaces what the other has.
pub(in crate::chat) async fn fork(agents: &ChatAgents, thread: &Thread) -> Result<ThreadId> {
    let copy = name(agents).await?;
    copy_files(&agents.thread_files(thread.id()), &agents.thread_files(&copy))?;
    let (from, to) = (agents.artifacts_of(thread.id())?, agents.artifacts_of(&copy)?);
    if from.scope() != to.scope() {
        from.copy_all(to.scope()).await.map_err(|error| anyhow!("{error}"))?;
    }
    agents.store.fork(thread.id(), thread.events(), &copy).await.map_err(|error| anyhow!("{error}"))?;
    Ok(copy)
}

/// Copies the files of a directory, and of all in it.
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
