//! `prowess verify`

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use clap::Args;
use prowess_install::installer::{Drift, Verified};
use prowess_install::tree::TreeDifference;
use serde_json::json;

use crate::commands::CommandOutcome;
use crate::installing::{ScopeArgs, shown};
use crate::terminal::{Terminal, count, printable};

/// How many files of a difference are named.
const MAX_FILES: usize = 10;

#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 no differences, 1 differences, 2 usage error")]
pub(crate) struct Options {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let verified = options.scope.installer()?.verify()?;
    let lines = lines(&verified);
    if options.json {
        terminal.json(&json!({
            "skills": verified.skills, "files": verified.files, "differences": lines,
            "not_in_the_lock": verified.unlocked, "is_clean": verified.is_clean(),
        }))?;
    } else {
        for line in &lines {
            writeln!(terminal, "{line}")?;
        }
        if !verified.unlocked.is_empty() {
            let names: Vec<String> = verified.unlocked.iter().map(|name| printable(name)).collect();
            writeln!(anstream::stderr(), "not in the lock: {}", names.join(", "))?;
        }
        let all = format!("{}, {}", count(verified.skills, "skill"), count(verified.files, "file"));
        match lines.len() {
            0 => writeln!(terminal, "{all}: as in the lock")?,
            number => writeln!(terminal, "{all}: {}", count(number, "difference"))?,
        }
    }
    Ok(if verified.is_clean() { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// A line for each difference.
fn lines(verified: &Verified) -> Vec<String> {
    let drift =
        verified.drift.iter().map(|(name, drift)| format!("{}: {}", printable(name), describe(drift)));
    let copies = verified.copies.iter().map(|path| format!("the copy {} was changed", shown(path)));
    let links = verified.links.iter().map(|path| foreign(path));
    drift
        .chain(copies)
        .chain(links)
        .chain(verified.locks.iter().map(|found| printable(&found.to_string())))
        .collect()
}

/// What is said about a link or file of an agent that does not lead to the installed skill of its name.
pub(crate) fn foreign(path: &Path) -> String {
    format!(
        "{} does not lead to the installed skill; remove it, and `prowess install --agent NAME` makes it again",
        shown(path)
    )
}

/// How an installed skill differs from the lock.
pub(crate) fn describe(drift: &Drift) -> String {
    match drift {
        Drift::Missing => "is missing; `prowess install` restores it".to_owned(),
        Drift::Changed(difference) => format!("was changed here: {}", files(difference)),
        Drift::Unusable(reason) => printable(reason),
        _ => "differs".to_owned(),
    }
}

fn files(difference: &TreeDifference) -> String {
    let marked = |mark: char, paths: &std::collections::BTreeSet<String>| {
        paths.iter().map(|path| format!("{mark}{}", printable(path))).collect::<Vec<_>>()
    };
    let mut all =
        [marked('+', &difference.added), marked('-', &difference.removed), marked('~', &difference.changed)]
            .concat();
    let more = all.len().saturating_sub(MAX_FILES);
    all.truncate(MAX_FILES);
    all.extend((more > 0).then(|| format!("{more} more")));
    all.join(" ")
}
