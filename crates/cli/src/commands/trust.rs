//! `prowess trust`

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use prowess_catalog::{Environment, RootLayout};

use crate::commands::CommandOutcome;
use crate::directories::real_path;
use crate::project::Project;
use crate::terminal::{Terminal, count, printable};
use crate::trust::{ReviewScope, TrustFile, TrustReview, ask_to_trust};

const AFTER_HELP: &str = "\
Until you trust a project, prowess lists its skills, but does not show them to models or run them. Its prowess.toml \
and AGENTS.md are not used. Trust is bound to the content of each skill and file: you are asked again only about what \
is new or changed.

Exit codes: 0 all of the project is trusted, 1 not all of it is, 2 usage error, or nobody can be asked";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// A directory of the project [default: the working directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Do not ask for confirmation
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    yes: bool,
    /// List the trusted projects
    #[arg(long, conflicts_with_all = ["revoke", "directory"])]
    list: bool,
    /// Stop trusting the project
    #[arg(long)]
    revoke: bool,
    /// Print JSON
    #[arg(long, requires = "list")]
    json: bool,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    if options.list {
        return list(options.json, terminal);
    }
    let environment = environment(options.directory.as_deref())?;
    if options.revoke {
        return revoke(&environment, terminal);
    }
    let here = environment.working_directory.display().to_string();
    if !environment.working_directory.is_dir() {
        bail!("{}: no such directory", printable(&here));
    }
    let Some(project) = Project::around(&environment, &RootLayout::default()) else {
        bail!(
            "{} is a home directory or contains one, so it is not a project: go to a directory below it",
            printable(&here)
        );
    };
    let top = printable(&project.top().display().to_string());
    let review = TrustReview::of(&project, ReviewScope::Refused)?;
    if review.is_empty() {
        writeln!(terminal, "{top} has nothing to trust: no skills, no prowess.toml, no AGENTS.md.")?;
        return Ok(CommandOutcome::Done);
    }
    if review.is_trusted() {
        writeln!(terminal, "{top} is trusted and has not changed.")?;
        return Ok(CommandOutcome::Done);
    }
    let width = if terminal.is_screen() { terminal.width() } else { usize::MAX };
    let summary = review.summary(width);
    write!(terminal, "{summary}")?;
    terminal.flush()?;
    let mut is_trusted = true;
    if options.yes || !review.has_questions() {
        review.remember()?;
        writeln!(terminal)?;
    } else {
        if !std::io::stdin().is_terminal() {
            bail!("there is no terminal to ask on: add --yes to trust {top}");
        }
        is_trusted = ask_to_trust(&review, &mut std::io::stdin().lock())?;
    }
    tell_outcome(&review, &top, is_trusted, terminal)
}

/// Says what is trusted now.
fn tell_outcome(
    review: &TrustReview<'_>,
    top: &str,
    is_trusted: bool,
    terminal: &mut Terminal,
) -> Result<CommandOutcome> {
    let outcome = match (review.unfit(), is_trusted, review.trusted()) {
        (Some(unfit), true, _) => {
            writeln!(terminal, "{top} is trusted, except for what cannot be trusted: {unfit}.")?;
            CommandOutcome::Findings
        }
        (None, true, _) => {
            writeln!(terminal, "{top} is trusted.")?;
            CommandOutcome::Done
        }
        (_, false, 0) => {
            writeln!(terminal, "{top} is not trusted.")?;
            CommandOutcome::Findings
        }
        (_, false, _) => {
            writeln!(terminal, "{top} is trusted as before, without these.")?;
            CommandOutcome::Findings
        }
    };
    if let Some(mistake) = review.mistake().filter(|_| is_trusted) {
        writeln!(terminal, "Its prowess.toml has a mistake, and no chat starts until you fix it: {mistake}")?;
    }
    Ok(outcome)
}

fn list(json: bool, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let mut projects = TrustFile::of_user().map(|file| file.read()).transpose()?.unwrap_or_default();
    projects.retain(|project| !project.items.is_empty());
    if json {
        terminal.json(&projects)?;
        return Ok(CommandOutcome::Done);
    }
    if projects.is_empty() {
        writeln!(terminal, "No project is trusted. Run `prowess trust` in a project to trust it.")?;
        return Ok(CommandOutcome::Done);
    }
    let rows: Vec<Vec<String>> = projects
        .iter()
        .map(|trusted| {
            vec![printable(&trusted.project), printable(&trusted.at), count(trusted.items.len(), "item")]
        })
        .collect();
    terminal.table(&["PROJECT", "SINCE", "ITEMS"], &rows)?;
    Ok(CommandOutcome::Done)
}

/// Revokes trust. A project that no longer exists can be named by its path.
fn revoke(environment: &Environment, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let file = TrustFile::of_user().context("there is no home directory, so nothing is trusted: set HOME")?;
    let top = RootLayout::default().project_top(environment);
    let top = top.unwrap_or_else(|| environment.working_directory.clone());
    let shown_top = printable(&top.display().to_string());
    if !file.remove(&top)? {
        bail!("{shown_top} was not trusted; `prowess trust --list` shows trusted projects");
    }
    writeln!(terminal, "{shown_top} is no longer trusted.")?;
    Ok(CommandOutcome::Done)
}

/// The environment, as if the program was started in `directory`.
fn environment(directory: Option<&Path>) -> Result<Environment> {
    let mut environment = Environment::of_process().context("the working directory cannot be read")?;
    let Some(directory) = directory else { return Ok(environment) };
    // The path without links and `..`, as the system reports it for a working directory.
    let place = real_path(directory).or_else(|_| std::path::absolute(directory));
    environment.working_directory = place.context("the working directory cannot be read")?;
    if environment.working_directory.is_file() {
        bail!("{} is a file: name a directory", directory.display());
    }
    Ok(environment)
}
