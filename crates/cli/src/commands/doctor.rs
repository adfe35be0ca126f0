//! `prowess doctor`

mod print;
mod report;

use anyhow::Result;
use clap::Args;

use self::print::print;
use self::report::examine;
use crate::commands::CommandOutcome;
use crate::executor::ContainerArgs;
use crate::terminal::Terminal;
use crate::workspace_dir::WorkspaceDir;

const AFTER_HELP: &str =
    "Exit codes: 0 skills can run, 1 skills cannot run until a problem is fixed, 2 usage error";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    containers: ContainerArgs,
    #[command(flatten)]
    workspace_dir: WorkspaceDir,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let report = examine(options)?;
    if options.json {
        terminal.json(&report)?;
    } else {
        print(&report, terminal)?;
    }
    Ok(if report.can_run { CommandOutcome::Done } else { CommandOutcome::Findings })
}
