//! `prowess install`

use std::io::Write as _;

use anyhow::Result;
use clap::Args;
use prowess_install::installer::{AgentFiles, Strictness};
use serde_json::json;

use crate::commands::CommandOutcome;
use crate::commands::verify::{describe, foreign};
use crate::installing::{self, LockArgs, ScopeArgs, until_interrupted};
use crate::progress::Progress;
use crate::terminal::{Terminal, count, printable};

const AFTER_HELP: &str = "\
prowess restores missing skills from its cache, or from their sources at the commits in prowess-lock.json. The files must have the \
digests of the lock. To install from a source, use `prowess add SOURCE`.

Exit codes: 0 the disk is as the lock says, 1 it is not, 2 usage error";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Change nothing if a skill or a lock differs, except that skills are missing
    #[arg(long)]
    frozen: bool,
    /// Also link the skills for these agents; `*` means all that are used here
    #[arg(short, long = "agent", value_name = "AGENT", num_args = 1..)]
    agents: Vec<String>,
    /// Give other agents copies, not links
    #[arg(long)]
    copy: bool,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    lock: LockArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let installer = options.scope.installer()?;
    let agents = installing::agents(&options.agents, &installer)?;
    let strictness = if options.frozen { Strictness::Frozen } else { Strictness::Usual };
    let files = if options.copy { AgentFiles::Copy } else { AgentFiles::Link };
    let fetch = options.lock.fetch_options()?;
    let progress = Progress::start("restoring");
    let restored = installing::runtime()?.block_on(until_interrupted(installer.restore(
        strictness,
        &agents,
        files,
        &fetch,
        &installing::now(),
    )))??;
    drop(progress);
    installing::tell(&restored.report)?;
    let other = installer.scope().shared_lock();
    let other = other.file_name().unwrap_or_default().to_string_lossy();
    let mut problems: Vec<String> = restored
        .drift
        .iter()
        .map(|(name, drift)| format!("{}: {}", printable(name), describe(drift)))
        .collect();
    problems
        .extend(restored.failed.iter().map(|(name, why)| format!("{}: {}", printable(name), printable(why))));
    problems.extend(
        restored.copies.iter().map(|path| format!("the copy {} was changed", installing::shown(path))),
    );
    problems.extend(restored.links.iter().map(|path| foreign(path)));
    problems.extend(restored.locks.iter().map(|found| printable(&found.to_string())));
    if options.json {
        terminal.json(&json!({
            "restored": restored.restored, "from_cache": restored.from_cache, "unchanged": restored.unchanged,
            "recorded": restored.shared, "problems": problems, "is_exact": restored.is_exact(),
        }))?;
    } else {
        for name in &restored.restored {
            writeln!(terminal, "restored {}", printable(name))?;
        }
        if !restored.shared.is_empty() {
            let names: Vec<String> = restored.shared.iter().map(|name| printable(name)).collect();
            writeln!(
                anstream::stderr(),
                "recorded in {other}, because prowess-lock.json has it: {}; to remove a skill, use `prowess remove NAME`",
                names.join(", ")
            )?;
        }
        for problem in &problems {
            writeln!(anstream::stderr(), "{problem}")?;
        }
        if options.frozen && !problems.is_empty() {
            writeln!(anstream::stderr(), "nothing was changed, because of --frozen")?;
        }
        let (restored, unchanged) = (restored.restored.len(), restored.unchanged);
        if restored + unchanged + problems.len() == 0 {
            writeln!(terminal, "The lock has no skills. `prowess add SOURCE` installs some.")?;
        } else {
            writeln!(terminal, "{} restored, {unchanged} there already", count(restored, "skill"))?;
            if restored > 0 && !options.scope.global {
                writeln!(
                    terminal,
                    "Models do not see skills of a project before you trust them: `prowess trust`."
                )?;
            }
        }
    }
    Ok(if restored.is_exact() { CommandOutcome::Done } else { CommandOutcome::Findings })
}
