//! `prowess add SOURCE…`

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use prowess_catalog::{Catalog, SkillEntry};
use prowess_install::installer::{
    AgentFiles, Candidate, Change, Installer, Listed, ListedSkill, LookOptions, Looked,
};
use prowess_install::source::Source;
use serde_json::{Value, json};

use crate::commands::CommandOutcome;
use crate::confirm::{self, Confirmation};
use crate::installing::{self, Interrupted, Problems, ScopeArgs};
use crate::options::RootArgs;
use crate::rows::folded;
use crate::tell_error;
use crate::terminal::{Terminal, count, printable, screen_width};

const AFTER_HELP: &str = "\
Sources:
  OWNER/REPO, OWNER/REPO/PATH, OWNER/REPO@SKILL   a repository on GitHub
  https://github.com/OWNER/REPO/tree/REF/PATH     a branch, tag or directory of it
  URL#REF, git@HOST:PATH, ssh://…, file://…       any Git repository
  ./DIR, ./FILE.skill                             a directory or an archive here
  https://HOST/FILE.skill, https://HOST           an archive, or a web site with an index of skills

prowess shows what it would install and asks. Nothing of a source runs, and installing a skill does not trust it: in a project, \
`prowess trust` does. The lock files skills-lock.json and prowess-lock.json record what was installed.

Exit codes: 0 installed, 1 something was not installed, 2 usage error";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Where the skills come from
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    /// Install only these skills; `*` means all
    #[arg(short, long = "skill", value_name = "NAME", num_args = 1..)]
    skills: Vec<String>,
    /// Also link the skills for these agents; `*` means all that are used here
    #[arg(short, long = "agent", value_name = "AGENT", num_args = 1..)]
    agents: Vec<String>,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Only list the skills of the sources
    #[arg(short, long)]
    list: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Give other agents copies, not links
    #[arg(long)]
    copy: bool,
    /// All skills, for all agents that are used here, without asking
    #[arg(long)]
    all: bool,
    /// Look deeper than a SKILL.md at the top of the source
    #[arg(long)]
    full_depth: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let installer = if options.list { options.scope.unrecovered()? } else { options.scope.installer()? };
    let sources =
        options.sources.iter().map(|source| installing::parse(source)).collect::<Result<Vec<_>>>()?;
    let star = || vec!["*".to_owned()];
    let agents = if options.all { star() } else { options.agents.clone() };
    let agents = installing::agents(&agents, &installer)?;
    let internal = std::env::var_os("INSTALL_INTERNAL_SKILLS").is_some_and(|value| value == "1");
    let skills = if options.all { star() } else { options.skills.clone() };
    let look = LookOptions { skills, full_depth: options.full_depth, internal };
    let mut outcome = CommandOutcome::Done;
    let (mut rows, mut has_installed) = (Vec::new(), false);
    let mut installed = Vec::new();
    for source in &sources {
        if options.list {
            let listed = if options.json {
                installing::list_and_look(&installer, source, &look)
            } else {
                installing::list(source, &look).map(|listed| (listed, None))
            };
            let Some((listed, looked)) = fetched(source, listed, has_installed, &mut rows)? else {
                outcome = CommandOutcome::Findings;
                continue;
            };
            if tell_problems(source, &Problems::from(&listed), &mut rows)? {
                outcome = CommandOutcome::Findings;
            }
            if options.json {
                rows.extend(listed_rows(&installer, source, &listed, looked.as_ref())?);
            } else if !listed.skills.is_empty() {
                table(&listed, terminal)?;
            }
            continue;
        }
        let looked = installing::look(&installer, source, &look);
        let Some(looked) = fetched(source, looked, has_installed, &mut rows)? else {
            outcome = CommandOutcome::Findings;
            continue;
        };
        let changes = installer.plan(&looked)?;
        if tell_problems(source, &Problems::from(&looked), &mut rows)? {
            outcome = CommandOutcome::Findings;
        }
        if looked.candidates.is_empty() {
            continue;
        }
        let all = looked.candidates.iter().zip(&changes);
        let blocked: Vec<_> =
            all.clone().filter(|(_, change)| matches!(change, Change::Blocked { .. })).collect();
        let chosen: Vec<&Candidate> = all
            .filter(|(_, change)| !matches!(change, Change::Blocked { .. }))
            .map(|(candidate, _)| candidate)
            .collect();
        if !blocked.is_empty() {
            outcome = CommandOutcome::Findings;
        }
        let is_agreed = options.yes || options.all;
        // Nobody is asked about something that was not shown.
        if !options.json || !is_agreed {
            show(&looked, &changes)?;
        }
        if chosen.is_empty() {
            rows.extend(looked.candidates.iter().zip(&changes).map(|(candidate, change)| {
                let mut row = installing::candidate_json(&looked, candidate, change);
                row["status"] = json!("skipped");
                row
            }));
            continue;
        }
        if let Source::Local(_) = source
            && !options.scope.global
        {
            let text = "this source is only on this machine: to share the project, commit .agents/skills too";
            installing::tell_lines([text.to_owned()])?;
        }
        let is_agreed = is_agreed || agreed(chosen.len(), &installer, options)?;
        if !is_agreed {
            writeln!(anstream::stderr(), "nothing was installed")?;
            outcome = CommandOutcome::Findings;
            break;
        }
        let files = if options.copy { AgentFiles::Copy } else { AgentFiles::Link };
        let added = match installer.add(&looked, &chosen, &agents, files, &installing::now()) {
            Ok(added) => added,
            Err(error) => {
                outcome = CommandOutcome::Findings;
                let error = tell_error(&error.into());
                let names = chosen.iter().map(|candidate| candidate.found.name().as_str());
                rows.extend(names.map(|name| failed(source, Some(name), &error)));
                continue;
            }
        };
        has_installed |= !added.installed.is_empty();
        installing::tell(&added.report)?;
        installed.extend(added.installed.iter().chain(&added.same).map(|name| installer.skill_path(name)));
        for (candidate, change) in looked.candidates.iter().zip(&changes) {
            let mut row = installing::candidate_json(&looked, candidate, change);
            row["status"] =
                json!(if matches!(change, Change::Blocked { .. }) { "skipped" } else { "installed" });
            row["installed_in"] = json!(installer.skill_path(candidate.directory_name()));
            rows.push(row);
        }
        if !options.json {
            for name in &added.installed {
                writeln!(terminal, "installed {}", installing::shown(&installer.skill_path(name)))?;
            }
            if !added.same.is_empty() {
                writeln!(terminal, "{} installed already", count(added.same.len(), "skill"))?;
            }
            if !options.scope.global && !added.installed.is_empty() {
                writeln!(
                    terminal,
                    "Models do not see new skills of a project before you trust them: `prowess trust`."
                )?;
            }
        }
    }
    if options.json {
        terminal.json(&rows)?;
    }
    terminal.flush()?;
    tell_shadowed(&installed)?;
    Ok(outcome)
}

/// Warns about installed skills that another skill of the same name shadows.
fn tell_shadowed(installed: &[PathBuf]) -> Result<()> {
    if installed.is_empty() {
        return Ok(());
    }
    // Two paths can lead to the same directory.
    let identity = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let installed: Vec<_> = installed.iter().filter_map(|path| identity(path)).collect();
    let roots = RootArgs::default();
    // The skills are installed, whatever is wrong with the roots.
    let Ok(skills) = roots.discover_silently(&Catalog::empty(), &roots.scan_options()) else {
        return Ok(());
    };
    for shadowed in skills.catalog.shadowed() {
        let (entry, by) = (&shadowed.entry, &shadowed.by);
        let real = |entry: &SkillEntry| identity(Path::new(entry.skill.location.directory()));
        let is_installed = real(entry).is_some_and(|directory| installed.contains(&directory));
        if is_installed && real(by) != real(entry) {
            writeln!(
                anstream::stderr(),
                "warning: the installed `{}` is shadowed by {}, so nobody sees it here",
                printable(entry.skill.name.as_str()),
                printable(by.skill.location.as_str())
            )?;
        }
    }
    Ok(())
}

/// Asks whether to install so many skills.
fn agreed(skills: usize, installer: &Installer, options: &Options) -> Result<bool> {
    if !confirm::can_ask() {
        bail!("nothing was installed: there is no terminal to ask on; add --yes to install without asking");
    }
    let what = if skills == 1 { "this skill".to_owned() } else { format!("these {skills} skills") };
    let place = installing::shown(&installer.scope().skills());
    let agents = if options.agents.is_empty() {
        String::new()
    } else {
        format!(", and for {}", options.agents.join(", "))
    };
    let some = if skills > 1 { " (--skill NAME installs only some)" } else { "" };
    let question = format!("Install {what} into {place}{agents}?{some}");
    let reply = confirm::ask(&[&question], &mut std::io::stdin().lock())?;
    Ok(reply == Confirmation::Yes)
}

/// What a person should know before anything is written.
fn show(looked: &Looked, changes: &[Change]) -> Result<()> {
    let width = screen_width();
    let mut err = anstream::stderr();
    for (candidate, change) in looked.candidates.iter().zip(changes) {
        let text = installing::candidate_text(looked, candidate, change);
        for row in text.lines().flat_map(|line| folded(line, width)) {
            writeln!(err, "{row}")?;
        }
        writeln!(err)?;
    }
    Ok(())
}

/// A row about a skill, or a whole source, that was not installed.
fn failed(source: &Source, name: Option<&str>, error: &str) -> Value {
    json!({ "name": name, "source": source.to_string(), "status": "failed", "error": error })
}

/// What was fetched from a source. `None` if that failed; a row says why.
fn fetched<T>(
    source: &Source,
    fetched: Result<T>,
    has_installed: bool,
    rows: &mut Vec<Value>,
) -> Result<Option<T>> {
    match fetched {
        Ok(fetched) => Ok(Some(fetched)),
        Err(error) if error.is::<Interrupted>() && has_installed => {
            bail!("interrupted; the skills of the sources before are installed")
        }
        Err(error) if error.is::<Interrupted>() => Err(error),
        Err(error) => {
            rows.push(failed(source, None, &tell_error(&error)));
            Ok(None)
        }
    }
}

/// A row for each skill of a source. If its files were not looked at, nothing is known of them.
fn listed_rows(
    installer: &Installer,
    source: &Source,
    listed: &Listed,
    looked: Option<&Looked>,
) -> Result<Vec<Value>> {
    let Some(looked) = looked else {
        return Ok(listed
            .skills
            .iter()
            .map(|skill| installing::listed_json(source, listed, skill))
            .collect());
    };
    let changes = installer.plan(looked)?;
    let all = looked.candidates.iter().zip(&changes);
    Ok(all.map(|(candidate, change)| installing::candidate_json(looked, candidate, change)).collect())
}

fn table(listed: &Listed, terminal: &mut Terminal) -> Result<()> {
    let row = |skill: &ListedSkill| {
        vec![printable(skill.found.name().as_str()), printable(&skill.found.skill.description)]
    };
    let rows: Vec<Vec<String>> = listed.skills.iter().map(row).collect();
    terminal.table(&["skill", "description"], &rows)?;
    Ok(())
}

/// Says what is wrong with a source, in rows too. Returns whether anything is.
fn tell_problems(source: &Source, problems: &Problems<'_>, rows: &mut Vec<Value>) -> Result<bool> {
    let Problems { usable, refused, missing, .. } = problems;
    installing::tell_lines(problems.lines())?;
    rows.extend(refused.iter().map(|(name, why)| failed(source, Some(name), why)));
    let why = "the source has no such skill";
    rows.extend(missing.iter().map(|name| failed(source, Some(name), why)));
    let is_explained = !refused.is_empty() || !missing.is_empty();
    if *usable == 0 && !is_explained {
        writeln!(anstream::stderr(), "{} has no skill to install", printable(&source.to_string()))?;
    }
    Ok(*usable == 0 || is_explained)
}
