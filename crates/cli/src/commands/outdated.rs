//! `prowess outdated`

use std::io::Write as _;

use anyhow::Result;
use clap::Args;
use prowess_install::installer::{Newest, Upstream};
use serde_json::json;

use crate::commands::CommandOutcome;
use crate::installing::{self, LockArgs, ScopeArgs, short, until_interrupted};
use crate::progress::Progress;
use crate::terminal::{Terminal, printable};

#[derive(Args, Debug)]
#[command(
    after_help = "Nothing is installed. Exit codes: 0 all are up to date, 1 some are not, 2 usage error"
)]
pub(crate) struct Options {
    /// Only these skills
    names: Vec<String>,
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
    let fetch = options.lock.fetch_options()?;
    let progress = Progress::start("looking for newer versions");
    let newest =
        installing::runtime()?.block_on(until_interrupted(installer.newest(&options.names, &fetch)))??;
    drop(progress);
    let is_current = |newest: &&Newest| matches!(newest.upstream, Upstream::Same);
    let outdated: Vec<&Newest> = newest.iter().filter(|newest| !is_current(newest)).collect();
    if options.json {
        let rows: Vec<_> = outdated.iter().map(|newest| row_json(newest)).collect();
        terminal.json(&rows)?;
    } else if newest.is_empty() {
        writeln!(terminal, "The lock has no skills. `prowess add SOURCE` installs some.")?;
    } else if outdated.is_empty() {
        writeln!(terminal, "All skills are up to date.")?;
    } else {
        let rows: Vec<Vec<String>> = outdated.iter().map(|newest| row(newest)).collect();
        terminal.table(&["skill", "installed", "newest", "source"], &rows)?;
    }
    Ok(if outdated.is_empty() { CommandOutcome::Done } else { CommandOutcome::Findings })
}

fn row(newest: &Newest) -> Vec<String> {
    let commit =
        |commit: Option<&str>| commit.map_or_else(|| "changed".to_owned(), |commit| short(commit).to_owned());
    let now = match &newest.upstream {
        Upstream::New(new) => commit(new.commit.as_deref()),
        Upstream::Gone { reason } => printable(reason),
        _ => String::new(),
    };
    let installed =
        newest.locked.commit.as_deref().map_or_else(|| "-".to_owned(), |commit| short(commit).to_owned());
    vec![printable(&newest.name), installed, now, printable(&newest.locked.source)]
}

fn row_json(newest: &Newest) -> serde_json::Value {
    let (commit, problem) = match &newest.upstream {
        Upstream::New(new) => (new.commit.clone(), None),
        Upstream::Gone { reason } => (None, Some(reason)),
        _ => (None, None),
    };
    json!({
        "name": newest.name, "source": newest.locked.source, "installed": newest.locked.commit, "newest": commit,
        "problem": problem,
    })
}
