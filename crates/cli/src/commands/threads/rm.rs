//! `prowess threads rm`

use std::io::Write as _;

use anyhow::{Context as _, Result};
use prowess_agent::thread::ThreadInfo;

use super::RemovalArgs;
use super::list::{row, table};
use super::removal::ThreadStorage;
use crate::commands::CommandOutcome;
use crate::confirm::confirm;
use crate::terminal::{Style, Terminal, count, printable, styled};
use crate::threads;

pub(super) async fn remove(
    wanted: &[String],
    removal: &RemovalArgs,
    terminal: &mut Terminal,
) -> Result<CommandOutcome> {
    let (state, store) = threads::open_store().await?.context("there are no threads to remove")?;
    let directory = std::env::current_dir().context("the working directory cannot be read")?;
    let mut ids = Vec::new();
    for wanted in wanted {
        let id = threads::find(&store, &directory, wanted).await?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let all = threads::all(&store).await?;
    let chosen: Vec<ThreadInfo> = all.into_iter().filter(|info| ids.contains(&info.id)).collect();
    let storage = removal.storage(state, store)?;
    if !confirm_removal(&storage, &chosen, removal.yes, terminal).await? {
        return Ok(CommandOutcome::Findings);
    }
    remove_all(&storage, &chosen, terminal).await
}

/// Lists the threads to remove, and asks for confirmation.
pub(super) async fn confirm_removal(
    storage: &ThreadStorage,
    chosen: &[ThreadInfo],
    yes: bool,
    terminal: &mut Terminal,
) -> Result<bool> {
    let mut rows = Vec::new();
    for info in chosen {
        rows.push(row(&storage.store, info).await);
    }
    table(&rows, terminal)?;
    terminal.flush()?;
    let what = count(chosen.len(), "thread");
    let them = if chosen.len() == 1 { "it" } else { "them" };
    if !yes && !confirm(&format!("Remove {what} and everything that belongs to {them}?"))? {
        writeln!(terminal, "Nothing was removed.")?;
        return Ok(false);
    }
    Ok(true)
}

/// Removes threads. If one is in use, the others are removed all the same.
pub(super) async fn remove_all(
    storage: &ThreadStorage,
    chosen: &[ThreadInfo],
    terminal: &mut Terminal,
) -> Result<CommandOutcome> {
    let what = count(chosen.len(), "thread");
    let (mut gone, mut failed) = (0, false);
    for info in chosen {
        match storage.remove(&info.id).await {
            Ok(with) => {
                gone += 1;
                let mut parts = Vec::new();
                parts.extend((with.workspaces > 0).then(|| count(with.workspaces, "workspace")));
                parts.extend((with.artifacts > 0).then(|| count(with.artifacts, "artifact")));
                parts.extend(
                    (with.sub_agents > 0)
                        .then(|| format!("{} of sub-agents", count(with.sub_agents, "thread"))),
                );
                let parts =
                    if parts.is_empty() { String::new() } else { format!(" with {}", parts.join(", ")) };
                writeln!(terminal, "{} {}{parts}", styled("removed", Style::Good), info.id)?;
                for left in with.left {
                    writeln!(anstream::stderr(), "left: {}", printable(&left))?;
                }
            }
            Err(error) => {
                failed = true;
                terminal.flush()?;
                writeln!(anstream::stderr(), "not removed: {}", printable(&format!("{error:#}")))?;
            }
        }
    }
    if chosen.len() > 1 {
        writeln!(terminal, "{gone} of {what} removed")?;
    }
    Ok(if failed { CommandOutcome::Findings } else { CommandOutcome::Done })
}
