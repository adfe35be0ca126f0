//! `prowess man [DIR]`

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;

use crate::commands::CommandOutcome;
use crate::options::{Cli, VERSION};
use crate::terminal::{Terminal, printable};

const AFTER_HELP: &str = "`prowess man | man -l -` shows the page. Write the pages to ~/.local/share/man/man1, so that `man prowess` and `man prowess-list` find them.";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Write prowess.1 and a page for every command to this directory [default: print prowess(1)]
    dir: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(dir) = &options.dir else {
        terminal.write_all(page(&command)?.as_bytes())?;
        return Ok(CommandOutcome::Done);
    };
    let cannot = || format!("cannot write man pages to {}", printable(&dir.to_string_lossy()));
    std::fs::create_dir_all(dir).with_context(cannot)?;
    let pages = with_subcommands(&command);
    for one in &pages {
        let name = one.get_display_name().unwrap_or_else(|| one.get_name());
        std::fs::write(dir.join(format!("{name}.1")), page(one)?).with_context(cannot)?;
    }
    writeln!(terminal, "wrote {} pages to {}", pages.len(), printable(&dir.to_string_lossy()))?;
    Ok(CommandOutcome::Done)
}

fn page(command: &Command) -> Result<String> {
    let mut page = Vec::new();
    // With an empty date, the version would be printed in its place.
    let man = Man::new(command.clone()).date(" ").source(format!("prowess {VERSION}")).manual("prowess");
    man.render(&mut page)?;
    Ok(String::from_utf8(page)?.replace("\n.SH EXTRA\n", "\n.SH NOTES\n"))
}

/// The command with all its visible subcommands.
fn with_subcommands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|one| !one.is_hide_set()).flat_map(with_subcommands);
    std::iter::once(command).chain(below).collect()
}
