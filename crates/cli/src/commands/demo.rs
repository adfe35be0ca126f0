//! `prowess demo`

use std::io::Write as _;

use anyhow::Result;
use clap::Args;
use prowess_workspace::{Level, LocalOptions};

use crate::commands::Outcome;
use crate::commands::run::level;
use crate::demo;
use crate::isolation::{self, Isolation};
use crate::terminal::{Terminal, shown};

const AFTER_HELP: &str = "\
It needs neither a key nor a network, and leaves nothing behind.

Exit codes: 0 all stages were played, 1 commands cannot be isolated here, 2 misuse or a stage failed";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The weakest isolation that is enough for commands
    #[arg(long, value_name = "LEVEL", value_parser = level())]
    sandbox: Option<Level>,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<Outcome> {
    let mut least = options.sandbox;
    if let Isolation::Weaker { why, strongest } =
        Isolation::find(least.unwrap_or(LocalOptions::default().least))?
    {
        terminal.flush()?;
        match strongest {
            Some(level) if isolation::accepts(level, &why)? => least = Some(level),
            _ => {
                writeln!(terminal.errors(), "prowess: {}", shown(&refusal(&why, strongest)))?;
                return Ok(Outcome::Findings);
            }
        }
    }
    let level = least.map(Level::name);
    Ok(demo::play(level, terminal)?.map_or(Outcome::Done, Outcome::Code))
}

/// Why the demo is not played, and what to do about it.
fn refusal(why: &str, strongest: Option<Level>) -> String {
    let offer = strongest
        .map(Level::name)
        .map(|level| format!(" `prowess demo --sandbox {level}` plays it with less around the commands."));
    format!("commands cannot be isolated here: {why}{}", offer.unwrap_or_default())
}
