//! `prowess threads`

mod export;
mod leftovers;
mod list;
mod prune;
mod removal;
mod rm;
mod show;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use prowess_agent::{ThreadId, ThreadStore};
use prowess_store::SqliteStore;

use self::removal::ThreadStorage;
use crate::commands::CommandOutcome;
use crate::database::DatabaseArgs;
use crate::terminal::Terminal;
use crate::threads;
use crate::workspace_dir::WorkspaceDir;

const AFTER_HELP: &str = "\
A thread is a conversation of `prowess chat`. `prowess chat --resume THREAD` continues it. THREAD is its name, the \
start or end of the name, or `last` for the last one in this directory.

Exit codes: 0 done, 1 you said no or some could not be removed, 2 usage error, or nobody can be asked";

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
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Print a conversation
    Show {
        /// The thread
        #[arg(add = crate::complete::threads())]
        thread: String,
        /// Print its messages as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Write a conversation to a new file: Markdown, or JSON if its name ends with .json
    Export {
        /// The thread
        #[arg(add = crate::complete::threads())]
        thread: String,
        /// The file [default: prowess-THREAD.md in the working directory]
        file: Option<PathBuf>,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Remove conversations with their workspaces, artifacts and other files
    Rm {
        /// The threads
        #[arg(required = true, value_name = "THREAD", add = crate::complete::threads())]
        threads: Vec<String>,
        #[command(flatten)]
        removal: RemovalArgs,
    },
    /// Remove all conversations that have not changed for a while
    Prune {
        /// The age: a number of minutes, hours, days or weeks, such as 12h, 30d or 8w
        #[arg(long, value_name = "AGE", value_parser = prune::age)]
        older_than: Duration,
        #[command(flatten)]
        removal: RemovalArgs,
    },
}

#[derive(Args, Debug)]
struct RemovalArgs {
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    workspace_dir: WorkspaceDir,
}

impl RemovalArgs {
    fn storage(&self, state: PathBuf, store: SqliteStore) -> Result<ThreadStorage> {
        let (workspaces, artifacts) =
            (self.workspace_dir.existing_workspaces()?, self.workspace_dir.existing_artifacts()?);
        Ok(ThreadStorage { store, state, workspaces, artifacts })
    }
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the threads cannot be opened")?.block_on(async {
        match &options.command {
            Command::List { limit, json, database } => {
                list::list(usize::from(*limit), *json, database, terminal).await
            }
            Command::Show { thread, json, database } => show::show(thread, *json, database, terminal).await,
            Command::Export { thread, file, database } => {
                export::export(thread, file.clone(), database, terminal).await
            }
            Command::Rm { threads, removal } => rm::remove(threads, removal, terminal).await,
            Command::Prune { older_than, removal } => prune::prune(*older_than, removal, terminal).await,
        }
    })
}

/// Opens the store, and finds the thread that the person named.
async fn find(wanted: &str, database: &DatabaseArgs) -> Result<(Arc<dyn ThreadStore>, ThreadId)> {
    let store = threads::open_named(database).await?;
    let store = store.context("there are no threads yet; `prowess chat` starts one")?;
    let directory = std::env::current_dir().context("the working directory cannot be read")?;
    let id = threads::find(store.as_ref(), &directory, wanted).await?;
    Ok((store, id))
}
