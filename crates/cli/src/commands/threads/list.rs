//! `prowess threads list`

use std::io::Write as _;
use std::time::SystemTime;

use anyhow::Result;
use prowess_agent::ThreadStore;
use prowess_agent::thread::ThreadInfo;
use serde::Serialize;

use crate::commands::CommandOutcome;
use crate::database::DatabaseArgs;
use crate::terminal::{Terminal, printable};
use crate::threads::{self, ago};

/// A thread in a list.
#[derive(Serialize)]
pub(super) struct Row {
    id: String,
    created: String,
    changed: String,
    title: String,
    directory: Option<String>,
    model: Option<String>,
    messages: usize,
    /// The questions that wait for a reply, one line each.
    questions: Vec<String>,
    /// Why the thread cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip)]
    age: String,
}

pub(super) async fn list(
    limit: usize,
    json: bool,
    database: &DatabaseArgs,
    terminal: &mut Terminal,
) -> Result<CommandOutcome> {
    let mut listed = Vec::new();
    let mut more = 0;
    if let Some(store) = threads::open_named(database).await? {
        let all = threads::all(store.as_ref()).await?;
        more = all.len().saturating_sub(limit);
        for info in all.iter().take(limit) {
            listed.push(row(store.as_ref(), info).await);
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

/// Prints threads as a table.
pub(super) fn table(rows: &[Row], terminal: &mut Terminal) -> Result<()> {
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

/// What a list shows of a thread.
pub(super) async fn row(store: &dyn ThreadStore, info: &ThreadInfo) -> Row {
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

/// A time in RFC 3339.
fn written(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default()
}
