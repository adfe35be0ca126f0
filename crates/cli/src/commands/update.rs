//! `prowess update [NAME…]`

use std::io::Write as _;

use anyhow::{Result, bail};
use clap::Args;
use prowess_install::installer::{LocalEdits, Newest, Upstream};

use crate::commands::CommandOutcome;
use crate::confirm::{self, Confirmation};
use crate::installing::{self, Findings, LockArgs, ScopeArgs, short, until_interrupted};
use crate::progress::Progress;
use crate::rows::folded;
use crate::terminal::{Style, Terminal, count, printable, screen_width, styled};

const AFTER_HELP: &str = "\
prowess shows what changed and asks. Changes that you made to an installed skill are merged into the new version. If that is not \
possible, the skill stays as it is.

Exit codes: 0 up to date, 1 something was not updated, 2 usage error";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Only these skills
    names: Vec<String>,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    lock: LockArgs,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let installer = options.scope.installer()?;
    let (fetch, runtime) = (options.lock.fetch_options()?, installing::runtime()?);
    let progress = Progress::start("looking for newer versions");
    let newest = runtime.block_on(until_interrupted(installer.newest(&options.names, &fetch)))??;
    drop(progress);
    let mut outcome = CommandOutcome::Done;
    for Newest { name, upstream, .. } in &newest {
        if let Upstream::Gone { reason } = upstream {
            outcome = CommandOutcome::Findings;
            writeln!(anstream::stderr(), "{}: {}", printable(name), printable(reason))?;
        }
    }
    let new = newest.iter().filter(|newest| matches!(newest.upstream, Upstream::New(_))).count();
    if new == 0 {
        let same = newest.iter().filter(|newest| matches!(newest.upstream, Upstream::Same)).count();
        match (newest.len(), newest.len() - same) {
            (0, _) => writeln!(terminal, "The lock has no skills. `prowess add SOURCE` installs some.")?,
            (_, 0) => writeln!(terminal, "All skills are up to date.")?,
            (_, failed) => {
                writeln!(terminal, "{} could not be checked, {same} up to date", count(failed, "skill"))?
            }
        }
        return Ok(outcome);
    }
    show(&newest)?;
    if options.dry_run {
        let possible = newest.iter().filter(|newest| is_possible(newest)).count();
        writeln!(terminal, "{} can be updated; nothing was changed", count(possible, "skill"))?;
        return Ok(if possible == new { outcome } else { CommandOutcome::Findings });
    }
    if !options.yes && !agreed(new)? {
        writeln!(anstream::stderr(), "nothing was updated")?;
        return Ok(CommandOutcome::Findings);
    }
    let updated =
        runtime.block_on(until_interrupted(installer.update(&newest, &fetch, &installing::now())))??;
    installing::tell(&updated.report)?;
    for (name, kept) in &updated.updated {
        let kept: Vec<String> = kept.iter().map(|path| printable(path)).collect();
        let kept = if kept.is_empty() {
            String::new()
        } else {
            format!("; your changes stay in {}", kept.join(", "))
        };
        writeln!(terminal, "updated {}{kept}", printable(name))?;
    }
    for (name, conflicts) in &updated.conflicts {
        let conflicts: Vec<String> = conflicts
            .iter()
            .map(|conflict| format!("{}: {}", printable(&conflict.path), conflict.kind.reason()))
            .collect();
        writeln!(
            anstream::stderr(),
            "{} stays as it is, because your changes conflict: {}",
            printable(name),
            conflicts.join("; ")
        )?;
    }
    for (name, why) in &updated.failed {
        writeln!(anstream::stderr(), "{}: {}", printable(name), printable(why))?;
    }
    if !updated.conflicts.is_empty() {
        writeln!(
            anstream::stderr(),
            "To take a new version as it is: `prowess remove NAME` keeps your files elsewhere, then `prowess add` it again."
        )?;
    }
    if !options.scope.global && !updated.updated.is_empty() {
        writeln!(
            terminal,
            "Models do not see changed skills of a project before you trust them again: `prowess trust`."
        )?;
    }
    if !updated.conflicts.is_empty() || !updated.failed.is_empty() {
        outcome = CommandOutcome::Findings;
    }
    Ok(outcome)
}

fn agreed(skills: usize) -> Result<bool> {
    if !confirm::can_ask() {
        bail!("nothing was updated: there is no terminal to ask on; add --yes to update without asking");
    }
    let question = format!("Update {}?", count(skills, "skill"));
    Ok(confirm::ask(&[&question], &mut std::io::stdin().lock())? == Confirmation::Yes)
}

/// What becomes of changes that the person made.
fn edits(edits: &LocalEdits) -> Option<String> {
    let list = |paths: &mut dyn Iterator<Item = &String>| {
        paths.map(|path| printable(path)).collect::<Vec<_>>().join(", ")
    };
    match edits {
        LocalEdits::Kept(kept) => Some(format!("your changes stay in {}", list(&mut kept.iter()))),
        LocalEdits::Conflict(conflicts) => {
            let paths = list(&mut conflicts.iter().map(|conflict| &conflict.path));
            Some(styled(format!("it will stay as it is: your changes conflict in {paths}"), Style::Bad))
        }
        LocalEdits::Unmerged(why) => {
            Some(styled(format!("it will stay as it is: {}", printable(why)), Style::Bad))
        }
        _ => None,
    }
}

/// Whether an update can install the new version.
fn is_possible(newest: &Newest) -> bool {
    let Upstream::New(new) = &newest.upstream else { return false };
    !matches!(new.local_edits, LocalEdits::Conflict(_) | LocalEdits::Unmerged(_))
}

/// What changes in each skill.
fn show(newest: &[Newest]) -> Result<()> {
    let (width, mut err) = (screen_width(), anstream::stderr());
    for Newest { name, locked, upstream, .. } in newest {
        let Upstream::New(new) = upstream else { continue };
        let commits = match (locked.commit.as_deref(), new.commit.as_deref()) {
            (Some(old), Some(new)) => format!("{} → {}, ", short(old), short(new)),
            // Directories and web sites have none.
            _ => String::new(),
        };
        let source = printable(&locked.source);
        writeln!(err, "{} ({commits}from {source})", styled(printable(name), Style::Name))?;
        if let Some(line) = edits(&new.local_edits) {
            for row in folded(&format!("    {line}"), width) {
                writeln!(err, "{row}")?;
            }
        }
        let text = match &new.difference {
            Some(difference) => installing::difference_text(difference),
            None => {
                "    the installed version is not in the cache; its differences cannot be shown\n".to_owned()
            }
        };
        for row in text.lines().flat_map(|line| folded(line, width)) {
            writeln!(err, "{row}")?;
        }
        for line in Findings::of(name, &new.stored, &new.hidden).lines() {
            let line = format!("    {}", styled(line, Style::Bad));
            for row in folded(&line, width) {
                writeln!(err, "{row}")?;
            }
        }
    }
    Ok(())
}
