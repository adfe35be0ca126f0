//! `prowess threads export`

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;

use super::find;
use crate::commands::CommandOutcome;
use crate::database::DatabaseArgs;
use crate::terminal::{Terminal, printable};
use crate::threads;

pub(super) async fn export(
    wanted: &str,
    file: Option<PathBuf>,
    database: &DatabaseArgs,
    terminal: &mut Terminal,
) -> Result<CommandOutcome> {
    let (store, id) = find(wanted, database).await?;
    let read = threads::read(store.as_ref(), &id).await?;
    let path = threads::export(&id, &read.run, file)?;
    writeln!(terminal, "wrote the conversation to {}", printable(&path.to_string_lossy()))?;
    Ok(CommandOutcome::Done)
}
