//! `prowess threads show`

use std::io::Write as _;

use anyhow::Result;

use super::find;
use crate::commands::CommandOutcome;
use crate::database::DatabaseArgs;
use crate::markdown::Markdown;
use crate::terminal::{Terminal, printable};
use crate::threads;

pub(super) async fn show(
    wanted: &str,
    json: bool,
    database: &DatabaseArgs,
    terminal: &mut Terminal,
) -> Result<CommandOutcome> {
    let (store, id) = find(wanted, database).await?;
    let read = threads::read(store.as_ref(), &id).await?;
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
