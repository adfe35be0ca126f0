//! `prowess threads`

mod leftovers;
mod removal;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use prowess_agent::ThreadId;
use prowess_agent::thread::ThreadInfo;
use prowess_store::SqliteStore;
use serde::Serialize;

use self::removal::ThreadStorage;
use crate::commands::CommandOutcome;
use crate::confirm::confirm;
use crate::markdown::Markdown;
use crate::terminal::{Style, Terminal, count, printable, styled};
use crate::threads::{self, ago};
use crate::workspace_dir::WorkspaceDir;

const AFTER_HELP: &str = "\
A thread is a conversation of `prowess chat`. `prowess chat --resume THREAD` continues it. THREAD is its name, the \
start or end of the name, or `last` for the last one in this directory.

Exit codes: 0 done, 1 some could not be removed, 2 usage error";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List conversations, the last changed first
    List {
        /// The most threads to list
        #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u16).range(1..))]
        limit: u16,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a conversation
    Show {
        /// The thread
        #[arg(add = crate::complete::threads())]
        thread: String,
        /// Print its messages as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a conversation to a new file: Markdown, or JSON if its name ends with .json
    Export {
        /// The thread
        #[arg(add = crate::complete::threads())]
        thread: String,
        /// The file [default: prowess-THREAD.md in the working directory]
        file: Option<PathBuf>,
    },
    /// Remove conversations with their workspaces, artifacts and other files
    Rm {
        /// The threads
        #[arg(required = true, value_name = "THREAD", add = crate::complete::threads())]
        threads: Vec<String>,
        #[command(flatten)]
        removal: Removal,
    },
    /// Remove all conversations that have not changed for a while
    Prune {
        /// The age: a number of minutes, hours, days or weeks, such as 12h, 30d or 8w
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Duration,
        #[command(flatten)]
        removal: Removal,
    },
}

#[derive(Args, Debug)]
struct Removal {
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    workspace_dir: WorkspaceDir,
}

impl Removal {
    fn storage(&self, state: PathBuf, store: SqliteStore) -> Result<ThreadStorage> {
        let (workspaces, artifacts) =
            (self.workspace_dir.existing_workspaces()?, self.workspace_dir.existing_artifacts()?);
        Ok(ThreadStorage { store, state, workspaces, artifacts })
    }
}

/// A thread, as a list shows it.
#[derive(Serialize)]
struct Row {
    id: String,
    created: String,
    changed: String,
    title: String,
    directory: Option<String>,
    model: Option<String>,
    messages: usize,
    /// What a person is asked, in a line each.
    questions: Vec<String>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip)]
    age: String,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the threads cannot be opened")?.block_on(async {
        match &options.command {
            Command::List { limit, json } => list(usize::from(*limit), *json, terminal).await,
            Command::Show { thread, json } => show(thread, *json, terminal).await,
            Command::Export { thread, file } => export(thread, file.clone(), terminal).await,
            Command::Rm { threads, removal } => remove(threads, removal, terminal).await,
            Command::Prune { older_than, removal } => prune(*older_than, removal, terminal).await,
        }
    })
}

/// The database, and the thread in it that somebody means.
async fn found(wanted: &str) -> Result<(SqliteStore, ThreadId)> {
    let (_, store) =
        threads::open_store().await?.context("there are no threads yet; `prowess chat` starts one")?;
    let directory = std::env::current_dir().context("the working directory cannot be read")?;
    let id = threads::find(&store, &directory, wanted).await?;
    Ok((store, id))
}

async fn list(limit: usize, json: bool, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let mut listed = Vec::new();
    let mut more = 0;
    if let Some((_, store)) = threads::open_store().await? {
        let all = threads::all(&store).await?;
        more = all.len().saturating_sub(limit);
        for info in all.iter().take(limit) {
            listed.push(row(&store, info).await);
        }
    }
    if json {
        terminal.json(&listed)?;
        return Ok(CommandOutcome::Done);
    }
    if listed.is_empty() {
        writeln!(anstream::stderr(), "there are no threads yet; `prowess chat` starts one")?;
        return Ok(CommandOutcome::Done);
    }
    table(&listed, terminal)?;
    if more > 0 {
        terminal.flush()?;
        writeln!(anstream::stderr(), "and {more} more: --limit N shows them")?;
    }
    Ok(CommandOutcome::Done)
}

fn table(rows: &[Row], terminal: &mut Terminal) -> Result<()> {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let said = match (&row.problem, row.questions.first()) {
                (Some(_), _) => "(cannot be read)".to_owned(),
                (None, Some(_)) => format!("(a question is waiting) {}", row.title),
                (None, None) => row.title.clone(),
            };
            let model = printable(row.model.as_deref().unwrap_or("-"));
            vec![row.id.clone(), row.age.clone(), row.messages.to_string(), model, said]
        })
        .collect();
    Ok(terminal.table(&["THREAD", "AGE", "MESSAGES", "MODEL", "FIRST WORDS"], &cells)?)
}

async fn row(store: &SqliteStore, info: &ThreadInfo) -> Row {
    let (read, problem) = match threads::read(store, &info.id).await {
        Ok(read) => (Some(read), None),
        Err(error) => (None, Some(printable(&format!("{error:#}")))),
    };
    let begun = match &read {
        Some(read) => read.beginning.clone(),
        None => threads::beginning(store, &info.id).await,
    };
    Row {
        id: info.id.to_string(),
        created: written(info.created),
        changed: written(info.changed),
        age: ago(info.changed),
        title: begun.title,
        directory: begun.directory.map(|directory| directory.to_string_lossy().into_owned()),
        messages: read.as_ref().map_or(0, |read| read.run.messages().len()),
        questions: read.as_ref().map(|read| read.questions.clone()).unwrap_or_default(),
        model: read.and_then(|read| read.model),
        problem,
    }
}

/// A time, for programs.
fn written(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default()
}

async fn show(wanted: &str, json: bool, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let (store, id) = found(wanted).await?;
    let read = threads::read(&store, &id).await?;
    if json {
        terminal.json(&read.run.messages())?;
        return Ok(CommandOutcome::Done);
    }
    let mut text = threads::markdown(&id, &read.run);
    for question in &read.questions {
        text.push_str(&format!("\n## A question is waiting\n\n{}\n", printable(question)));
    }
    if terminal.is_screen() {
        let mut rows = Markdown::new(terminal.width());
        for line in rows.push(&text).into_iter().chain(rows.finish()) {
            writeln!(terminal, "{line}")?;
        }
    } else {
        write!(terminal, "{text}")?;
    }
    Ok(CommandOutcome::Done)
}

async fn export(wanted: &str, file: Option<PathBuf>, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let (store, id) = found(wanted).await?;
    let read = threads::read(&store, &id).await?;
    let path = threads::export(&id, &read.run, file)?;
    writeln!(terminal, "wrote the conversation to {}", printable(&path.to_string_lossy()))?;
    Ok(CommandOutcome::Done)
}

async fn remove(wanted: &[String], removal: &Removal, terminal: &mut Terminal) -> Result<CommandOutcome> {
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
    if !agreed(&storage, &chosen, removal.yes, terminal).await? {
        return Ok(CommandOutcome::Findings);
    }
    removed(&storage, &chosen, terminal).await
}

async fn prune(older_than: Duration, removal: &Removal, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let Some((state, store)) = threads::open_store().await? else {
        writeln!(terminal, "There is nothing to remove.")?;
        return Ok(CommandOutcome::Done);
    };
    let old = threads::unchanged_for(&store, older_than).await?;
    let storage = removal.storage(state, store)?;
    if !old.is_empty() {
        if !agreed(&storage, &old, removal.yes, terminal).await? {
            return Ok(CommandOutcome::Findings);
        }
        let outcome = removed(&storage, &old, terminal).await?;
        let leftovers = storage.leftovers(older_than).await?;
        storage.discard(&leftovers).await;
        return Ok(outcome);
    }
    let leftovers = storage.leftovers(older_than).await?;
    if leftovers.count() == 0 {
        writeln!(terminal, "There is nothing to remove.")?;
        return Ok(CommandOutcome::Done);
    }
    let what = format!("{} of conversations that are gone or empty", count(leftovers.count(), "leftover"));
    if !removal.yes && !confirm(&format!("Remove {what}?"))? {
        writeln!(terminal, "Nothing was removed.")?;
        return Ok(CommandOutcome::Findings);
    }
    let gone = storage.discard(&leftovers).await;
    writeln!(terminal, "{gone} of {what} removed")?;
    Ok(CommandOutcome::Done)
}

/// Shows what is to go, and asks.
async fn agreed(
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

/// Removes threads. One that is in use does not keep the others.
async fn removed(
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

/// An age: a number and its unit.
fn age(text: &str) -> Result<Duration, String> {
    let expected = || "write a number and m, h, d or w: 12h, 30d, 8w".to_owned();
    let unit = text.chars().next_back().ok_or_else(expected)?;
    let seconds: u64 = match unit {
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return Err(expected()),
    };
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| expected())?;
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_a_unit() {
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!([age("12h"), age("0m")], [Ok(Duration::from_secs(43_200)), Ok(Duration::ZERO)]);
        for wrong in ["", "30", "d", "-3d", "3y", "1.5h", "3 d", "3é"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
