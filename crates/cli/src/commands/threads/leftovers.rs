//! Leftovers of interrupted removals and interrupted chats.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use prowess_agent::middleware::sub_agent_threads;
use prowess_agent::thread::ThreadError;
use prowess_agent::{ThreadId, ThreadStore as _};
use prowess_workspace::dir::remove_tree;

use super::removal::ThreadStorage;
use crate::threads::{FILES, MAX_OLD, is_of_sub_agent};

/// How old files without a thread must be. A new thread has files before it has events.
const SETTLED: Duration = Duration::from_secs(60 * 60);

/// Empty threads, threads of sub-agents whose parent is gone, and files whose thread is gone.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    threads: Vec<ThreadId>,
    files: Vec<PathBuf>,
}

impl Leftovers {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.threads.len() + self.files.len()
    }
}

impl ThreadStorage {
    /// Finds leftovers that have not changed for this long. Nothing is removed.
    pub(crate) async fn leftovers(&self, older_than: Duration) -> Result<Leftovers> {
        let old = self.store.unchanged_for(older_than, MAX_OLD).await.map_err(|error| anyhow!("{error}"))?;
        let (silent, rest): (Vec<_>, Vec<_>) = old.into_iter().partition(|info| info.events == 0);
        let mut threads: Vec<ThreadId> = silent.into_iter().map(|info| info.id).collect();
        let mut tasks: Vec<ThreadId> = rest.into_iter().map(|info| info.id).filter(is_of_sub_agent).collect();
        if !tasks.is_empty()
            && let Some(known) = self.sub_agents().await?
        {
            tasks.retain(|task| !known.contains(task));
            threads.extend(tasks);
        }
        Ok(Leftovers { threads, files: self.files_without_thread().await })
    }

    /// Removes leftovers, and returns how many. What cannot be removed now is left for another time.
    pub(crate) async fn discard(&self, leftovers: &Leftovers) -> usize {
        let mut gone = 0;
        for id in &leftovers.threads {
            gone += usize::from(self.remove(id).await.is_ok());
        }
        for path in &leftovers.files {
            gone += usize::from(remove_tree(path).is_ok());
        }
        gone
    }

    /// The threads of all sub-agents whose parent exists. `None` if a parent cannot be read or there are too many,
    /// because then it is not known to whom a thread belongs.
    async fn sub_agents(&self) -> Result<Option<BTreeSet<ThreadId>>> {
        let all = self.store.list(MAX_OLD + 1).await.map_err(|error| anyhow!("{error}"))?;
        if all.len() > MAX_OLD {
            return Ok(None);
        }
        let mut known = BTreeSet::new();
        for info in all.iter().filter(|info| !is_of_sub_agent(&info.id)) {
            match sub_agent_threads(&self.store, &info.id).await {
                Ok(threads) => known.extend(threads),
                Err(ThreadError::Damaged { .. }) => return Ok(None),
                Err(error) => return Err(anyhow!("{error}")),
            }
        }
        Ok(Some(known))
    }

    async fn files_without_thread(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let Ok(entries) = std::fs::read_dir(self.state.join(FILES)) else { return files };
        for entry in entries.flatten() {
            let changed = entry.metadata().and_then(|found| found.modified());
            let is_settled = changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > SETTLED));
            let id = entry.file_name().to_str().and_then(|name| name.parse::<ThreadId>().ok());
            if let Some(id) = id.filter(|_| is_settled)
                && matches!(self.store.events(&id, 0, 1).await, Err(ThreadError::NotFound(_)))
            {
                files.push(entry.path());
            }
        }
        files
    }
}
