//! `prowess completions SHELL`

use anyhow::Result;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::commands::Outcome;
use crate::options::Cli;
use crate::terminal::Terminal;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The shell; for bash, `prowess completions bash > ~/.local/share/bash-completion/completions/prowess`
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<Outcome> {
    // The generator panics when it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "prowess", &mut script);
    std::io::Write::write_all(terminal, &script)?;
    Ok(Outcome::Done)
}
