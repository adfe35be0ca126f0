//! `prowess completions SHELL`

use std::io::Write as _;

use anyhow::Result;
use clap::Args;

use crate::commands::CommandOutcome;
use crate::complete::Shell;
use crate::terminal::Terminal;

const AFTER_HELP: &str = "\
The script asks `prowess` each time you press Tab, so it always offers the current skills, threads and models. \
Completion writes nothing, starts nothing and uses no network.

  bash  prowess completions bash > ~/.local/share/bash-completion/completions/prowess
  zsh   prowess completions zsh > ~/.zfunc/_prowess, with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  fish  prowess completions fish > ~/.config/fish/completions/prowess.fish";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    terminal.write_all(&options.shell.script()?)?;
    Ok(CommandOutcome::Done)
}
