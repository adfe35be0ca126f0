//! `prowess remove NAME…`

use std::io::Write as _;

use anyhow::{Result, bail};
use clap::Args;
use prowess_install::discover::directory_name;

use crate::commands::CommandOutcome;
use crate::confirm;
use crate::installing::{self, ScopeArgs};
use crate::terminal::{Terminal, printable};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The skills to remove
    names: Vec<String>,
    /// Remove all skills that the lock has
    #[arg(long, conflicts_with = "names")]
    all: bool,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let installer = options.scope.installer()?;
    let locked = installer.locked()?;
    let names: Vec<String> =
        if options.all { locked.skills.keys().cloned().collect() } else { options.names.clone() };
    if names.is_empty() {
        bail!("name the skills to remove, or add --all");
    }
    let is_unknown = |name: &&String| !locked.skills.contains_key(&directory_name(name));
    if let Some(unknown) = names.iter().find(is_unknown) {
        bail!(
            "no skill called `{}` is in the lock; `prowess list` shows what is installed",
            printable(unknown)
        );
    }
    let list: Vec<String> = names.iter().map(|name| printable(name)).collect();
    if !options.yes && !confirm::confirm(&format!("Remove {}?", list.join(", ")))? {
        writeln!(anstream::stderr(), "nothing was removed")?;
        return Ok(CommandOutcome::Findings);
    }
    let removed = installer.remove(&names)?;
    installing::tell(&removed.report)?;
    for name in &removed.names {
        writeln!(terminal, "removed {}", printable(name))?;
    }
    Ok(CommandOutcome::Done)
}
