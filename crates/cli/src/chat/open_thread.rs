//! Opens a thread for a chat, and waits for one that another process uses.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use prowess_agent::thread::ThreadError;
use prowess_agent::{AgentError, Thread, ThreadId};

use super::agents::ChatAgents;
use super::thread_artifacts;
use crate::terminal::printable;

/// How long a thread stays leased to a process that died.
pub(crate) const LEASE: Duration = Duration::from_secs(6);
/// How long to wait for a thread that another process uses.
const PATIENCE: Duration = Duration::from_secs(8);

impl ChatAgents {
    /// Opens a thread. A thread of an old version gets copies of the artifacts that it saved.
    pub(super) async fn open(&self, id: ThreadId, waits: impl FnMut(&str)) -> Result<Thread> {
        let thread = self.open_alone(id, waits).await?;
        let artifacts = self.artifacts_of(thread.id())?;
        if artifacts.scope().thread_id().is_some() {
            thread_artifacts::adopt_shared(&thread, &artifacts).await?;
        }
        Ok(thread)
    }

    /// Opens a thread, and waits long enough for the lease of a dead process to run out.
    async fn open_alone(&self, id: ThreadId, mut waits: impl FnMut(&str)) -> Result<Thread> {
        let agent = self.agent(&id)?;
        let begun = tokio::time::Instant::now();
        loop {
            match agent.open(id.clone()).await {
                Ok(thread) => return Ok(thread),
                Err(AgentError::Thread(ThreadError::Leased { owner, .. })) if begun.elapsed() < PATIENCE => {
                    let owner = owner.split(" (").next().unwrap_or_default();
                    waits(&format!(
                        "waiting for {owner}, which uses this thread (a killed process releases it within seconds)"
                    ));
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(AgentError::Thread(ThreadError::Leased { owner, .. })) => {
                    let owner = owner.split(" (").next().unwrap_or_default();
                    bail!("{owner} is using {id}: wait until it is done, or end it");
                }
                Err(error) => return Err(anyhow!("{error}")),
            }
        }
    }
}

/// Checks that a file of threads belongs to the user alone, or does not exist yet: it holds replies to questions.
pub(super) fn check_own(path: &Path) -> Result<()> {
    let name = printable(&path.display().to_string());
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => bail!("{name} is not a file: remove it"),
        Ok(found) if found.mode() & 0o022 != 0 || found.uid() != rustix::process::geteuid().as_raw() => {
            bail!("others can write to {name}: run `chmod 600` on it if its content is yours")
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{name} cannot be read"))
        }
        _ => Ok(()),
    }
}
