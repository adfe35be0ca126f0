//! `prowess uninstall`

mod binary;
mod items;
mod size;

use std::io::Write as _;

use anyhow::Result;
use clap::Args;

use self::binary::Binary;
use self::items::{Item, items, lock_state, remove_empty_parents, skills};
use crate::commands::CommandOutcome;
use crate::confirm::confirm;
use crate::terminal::{Style, Terminal, printable, styled};

const AFTER_HELP: &str = "\
Your skills stay, and so do the files of projects: .prowess, prowess.toml, AGENTS.md. prowess removes links, but not \
what they point to. Without a terminal, nothing is removed unless you add --yes.

Exit codes: 0 everything was removed, 1 you said no or something could not be removed, 2 usage error, or nobody can \
be asked";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Keep your prowess.toml
    #[arg(long)]
    keep_config: bool,
    /// Only list what would be removed
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let mut items = items(options.keep_config);
    let binary = Binary::running();
    if let Binary::Own(path) = &binary {
        items.extend(Item::of_program(path.clone()));
    }
    if items.is_empty() {
        writeln!(terminal, "There is nothing to remove.")?;
        print_remaining(&binary, terminal)?;
        return Ok(CommandOutcome::Done);
    }
    writeln!(terminal, "{}", styled("This will be removed:", Style::Heading))?;
    for item in &items {
        let path = printable(&item.path.to_string_lossy());
        writeln!(terminal, "  {path}  {}", styled(format!("({}, {})", item.what, item.size), Style::Faint))?;
    }
    writeln!(terminal)?;
    print_remaining(&binary, terminal)?;
    terminal.flush()?;
    if options.dry_run {
        return Ok(CommandOutcome::Done);
    }
    // Checked before the question, so that nobody is asked in vain. The lock is not held while the question is open.
    drop(lock_state()?);
    if !options.yes && !confirm("Remove all of this? You cannot undo it.")? {
        writeln!(terminal, "Nothing was removed.")?;
        return Ok(CommandOutcome::Findings);
    }
    // A chat or a server may have started meanwhile. From here on none can start.
    let _held = lock_state()?;
    let mut failed = false;
    for item in &items {
        if let Err(error) = item.remove() {
            failed = true;
            writeln!(anstream::stderr(), "not removed: {}", printable(&format!("{error:#}")))?;
        }
    }
    remove_empty_parents(options.keep_config);
    if failed {
        return Ok(CommandOutcome::Findings);
    }
    writeln!(terminal, "Everything was removed.")?;
    Ok(CommandOutcome::Done)
}

/// Says what stays, and what others must remove.
fn print_remaining(binary: &Binary, terminal: &mut Terminal) -> Result<()> {
    if let Some(skills) = skills() {
        writeln!(terminal, "Your skills stay: {}", printable(&skills.to_string_lossy()))?;
    }
    if let Binary::Others(what) = binary {
        writeln!(terminal, "{what}")?;
    }
    Ok(())
}
