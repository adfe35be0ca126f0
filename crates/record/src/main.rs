//! `prowess-record FILE COMMAND…`

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};
use clap::Parser;
use prowess_record::{Kind, Picture, record};

/// Record what a command shows in a terminal as an SVG
#[derive(Debug, Parser)]
struct Options {
    /// Record only the last screen
    #[arg(long)]
    still: bool,
    /// The width of the screen
    #[arg(long, value_name = "NUMBER", default_value_t = 92)]
    columns: u16,
    /// The height of the screen
    #[arg(long, value_name = "NUMBER", default_value_t = 34)]
    rows: u16,
    /// The text above the screen
    #[arg(long, value_name = "TEXT", default_value = "")]
    title: String,
    /// The SVG to write
    file: PathBuf,
    /// The command to run, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let mut arguments = options.command.iter();
    let Some(program) = arguments.next() else { bail!("no command to record; add one after the file") };
    let mut command = Command::new(program);
    command.args(arguments);
    let kind = if options.still { Kind::Still } else { Kind::Moving };
    let picture = Picture { columns: options.columns, rows: options.rows, title: &options.title, kind };
    let status = record(command, picture, &options.file)?;
    if !status.success() {
        bail!("{program} failed with {status}; {} shows its output until then", options.file.display());
    }
    Ok(ExitCode::SUCCESS)
}
