//! `prowess queue`

use std::io::Write as _;
use std::time::SystemTime;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use prowess_agent::ThreadId;
use prowess_serve::view::{QueueNumbersView, QueueView, QueuedThreadState, QueuedThreadView};
use prowess_serve::{QueueAdmin, QueueAdminError};
use prowess_store::serve::Audit;
use serde_json::json;

use super::serve::place::ServerPlace;
use super::serve::system_user;
use crate::commands::CommandOutcome;
use crate::terminal::{Terminal, count, printable};
use crate::threads::{ago, span};

const AFTER_HELP: &str = "\
These commands need the same --data and --database as the server, which can run meanwhile. A dead letter is a thread that five \
attempts in a row could not work on. No worker takes it until you retry or drop it, or its user cancels the turn. First look into \
the log of the worker, which names the thread and says why: see docs/scaling.md.

Exit codes: 0 done, 2 usage error, or the thread is no dead letter";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    place: ServerPlace,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the threads that are queued, waiting, working or dead: dead letters first
    List {
        /// The most threads to list
        #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u16).range(1..))]
        limit: u16,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let workers take a dead letter again
    Retry {
        /// The thread
        thread: String,
    },
    /// End the turn of a dead letter, and drop messages that no worker has taken. The thread stays
    Drop {
        /// The thread
        thread: String,
    },
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the queue cannot be opened")?.block_on(async {
        let (database, _) = options.place.open_existing().await?;
        let queue = QueueAdmin::of(&database);
        match &options.command {
            Command::List { limit, json } => {
                let list = queue.list(usize::from(*limit)).await?;
                if *json { terminal.json(&list)? } else { print(&list, terminal)? }
            }
            Command::Retry { thread } => {
                let id = id(&options.place, thread)?;
                let retried = queue.retry(&id, Audit::COMMAND_LINE, system_user::noted(json!({}))).await;
                retried.map_err(|error| advised(&options.place, error))?;
                writeln!(terminal, "workers take `{id}` again")?;
            }
            Command::Drop { thread } => {
                let id = id(&options.place, thread)?;
                let dropped = queue.drop_work(&id, Audit::COMMAND_LINE, system_user::noted(json!({}))).await;
                dropped.map_err(|error| advised(&options.place, error))?;
                writeln!(terminal, "dropped the work of `{id}`: the next worker that is free ends its turn")?;
            }
        }
        database.close().await.map_err(|error| anyhow!("{error}"))?;
        Ok(CommandOutcome::Done)
    })
}

fn id(place: &ServerPlace, thread: &str) -> Result<ThreadId> {
    let Ok(id) = thread.parse() else {
        bail!("there is no thread `{}`; {} shows the queue", printable(thread), place.command("queue list"))
    };
    Ok(id)
}

/// An error with the next step.
fn advised(place: &ServerPlace, error: QueueAdminError) -> anyhow::Error {
    match error {
        QueueAdminError::NoThread(_) | QueueAdminError::NotDead { .. } => {
            anyhow!("{error}; {} shows the queue", place.command("queue list"))
        }
        error => error.into(),
    }
}

/// Prints the threads as a table, and how full the queue is.
fn print(list: &QueueView, terminal: &mut Terminal) -> Result<()> {
    if list.items.is_empty() {
        writeln!(anstream::stderr(), "the queue is empty")?;
        return Ok(());
    }
    let heading = ["THREAD", "STATE", "USER", "SINCE", "ATTEMPTS", "FAILED", "DETAIL"];
    terminal.headed_table(&heading, list.items.iter().map(row).collect())?;
    terminal.flush()?;
    let more = if list.left_off == 0 {
        String::new()
    } else {
        format!("; {} more: --limit N shows them", list.left_off)
    };
    writeln!(anstream::stderr(), "{}{more}", numbers(&list.numbers))?;
    Ok(())
}

/// How full the queue is, on one line.
fn numbers(numbers: &QueueNumbersView) -> String {
    let QueueNumbersView { queued, waiting, working, dead, age_seconds, .. } = *numbers;
    let dead = count(usize::try_from(dead).unwrap_or(usize::MAX), "dead letter");
    let oldest =
        if queued == 0 { String::new() } else { format!(", the first one for {}", span(age_seconds)) };
    format!("{dead}, {working} working, {waiting} waiting, {queued} queued{oldest}")
}

fn row(thread: &QueuedThreadView) -> Vec<String> {
    let state = match thread.state {
        QueuedThreadState::Queued => "queued",
        QueuedThreadState::Waiting => "waiting",
        QueuedThreadState::Working => "working",
        QueuedThreadState::Dead => "dead",
    };
    let user = thread.owner_name.as_ref().or(thread.owner.as_ref());
    vec![
        thread.thread.clone(),
        state.to_owned(),
        user.map_or_else(|| "-".to_owned(), |user| printable(user)),
        ago(thread.since),
        thread.attempts.to_string(),
        thread.failures.to_string(),
        printable(&detail(thread)),
    ]
}

/// What helps most to know about a thread in this state.
fn detail(thread: &QueuedThreadView) -> String {
    // An older reason stays when an attempt succeeds.
    let problem = thread.problem.as_deref().filter(|_| thread.failures > 0);
    let waits = |until: SystemTime| until.duration_since(SystemTime::now()).unwrap_or_default();
    let waits = thread.not_before.map(|until| format!("for another {}", span(waits(until).as_secs())));
    let worker = thread.worker.as_deref().filter(|_| thread.state == QueuedThreadState::Working);
    let parts = [worker.map(str::to_owned), waits, problem.map(str::to_owned)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(": ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(state: QueuedThreadState) -> QueuedThreadView {
        QueuedThreadView {
            thread: "t1".to_owned(),
            state,
            owner: Some("u1".to_owned()),
            owner_name: None,
            worker: None,
            since: SystemTime::now(),
            not_before: None,
            attempts: 3,
            failures: 0,
            problem: Some("the\u{1b}[2J disk\nwas full".to_owned()),
        }
    }

    #[test]
    fn a_row_says_what_helps_in_its_state() {
        let detail = |thread: &QueuedThreadView| row(thread)[6].clone();
        let mut queued = thread(QueuedThreadState::Queued);
        assert_eq!(row(&queued), ["t1", "queued", "u1", "now", "3", "0", "-"]);
        queued.failures = 1;
        assert!(!detail(&queued).contains(['\u{1b}', '\n']), "{}", detail(&queued));
        assert!(detail(&queued).contains("disk"));
        let mut waiting = thread(QueuedThreadState::Waiting);
        waiting.not_before = Some(SystemTime::now());
        assert_eq!(detail(&waiting), "for another 0 s");
        let mut working = thread(QueuedThreadState::Working);
        working.worker = Some("process 7 on harbour".to_owned());
        assert_eq!(detail(&working), "process 7 on harbour");
    }

    #[test]
    fn the_numbers_are_one_line() {
        let mut some = QueueNumbersView::default();
        (some.dead, some.working) = (1, 2);
        assert_eq!(numbers(&some), "1 dead letter, 2 working, 0 waiting, 0 queued");
        (some.queued, some.age_seconds) = (3, 125);
        assert_eq!(numbers(&some), "1 dead letter, 2 working, 0 waiting, 3 queued, the first one for 2 min");
    }
}
