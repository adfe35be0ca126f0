//! `prowess demo`

mod examples;
mod play;
mod stages;

use std::io::Write as _;

use anyhow::Result;
use clap::Args;
use prowess_workspace::{Level, LocalOptions};

use crate::commands::CommandOutcome;
use crate::sandbox_level::{self, SandboxCheck, level_parser};
use crate::terminal::{Terminal, printable};

const AFTER_HELP: &str = "\
The demo needs no API key and no network, and leaves nothing behind.

Exit codes: 0 all stages ran, 1 commands cannot be isolated here, 2 usage error or a stage failed";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The weakest sandbox level to accept for commands
    #[arg(long, value_name = "LEVEL", value_parser = level_parser())]
    sandbox: Option<Level>,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let mut least = options.sandbox;
    if let SandboxCheck::Weaker { why, strongest } =
        SandboxCheck::probe(least.unwrap_or(LocalOptions::default().least))?
    {
        terminal.flush()?;
        match strongest {
            Some(level) if sandbox_level::accept_weaker(level, &why)? => least = Some(level),
            _ => {
                writeln!(terminal.errors(), "prowess: {}", printable(&refusal(&why, strongest)))?;
                return Ok(CommandOutcome::Findings);
            }
        }
    }
    let level = least.map(Level::name);
    Ok(play::play(level, terminal)?.map_or(CommandOutcome::Done, CommandOutcome::Code))
}

/// Why the demo does not run, and what to do.
fn refusal(why: &str, strongest: Option<Level>) -> String {
    let offer = strongest
        .map(Level::name)
        .map(|level| format!(" `prowess demo --sandbox {level}` runs it with weaker isolation."));
    format!("commands cannot be isolated here: {why}{}", offer.unwrap_or_default())
}
