//! `prowess list`

use std::collections::BTreeSet;
use std::io::Write as _;

use anyhow::Result;
use clap::Args;
use prowess_catalog::overview::SkillMode;
use prowess_catalog::resource::ResourceCounts;
use prowess_catalog::{Catalog, Code, Diagnostic, Root, Severity, SkillEntry};
use serde::Serialize;

use crate::commands::CommandOutcome;
use crate::installing::{Origin, origins};
use crate::options::{KitArgs, RootArgs};
use crate::skills::Skills;
use crate::terminal::{Style, Terminal, count, printable, styled};
use crate::visibility::{ChatSkills, Visibility, chosen_mode};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Also list shadowed skills, which another skill of the same name replaces
    #[arg(long)]
    all: bool,
    /// Also show problems and what was skipped
    #[arg(long)]
    diagnostics: bool,
    /// Count each skill's scripts, references and assets
    #[arg(long)]
    resources: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kits: KitArgs,
    #[command(flatten)]
    root_args: RootArgs,
}

/// One skill of the list.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    description: &'a str,
    status: Status,
    source: Root,
    location: &'a str,
    model_visible: bool,
    /// The mode that the configuration gives to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip)]
    is_manual: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<ResourceCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadowed_by: Option<&'a str>,
    /// Where it was installed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    installed: Option<Origin>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Active,
    /// A rule hides it from the model.
    Denied,
    /// Its mode hides it from the model and from people.
    Off,
    Untrusted,
    Shadowed,
}

#[derive(Serialize)]
struct SkillList<'a> {
    skills: Vec<Row<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostics: Option<Vec<&'a Diagnostic>>,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let skills = options.root_args.discover()?;
    let visible_skills = ChatSkills::of_or_warn(&skills, Some(&options.kits))?;
    let mut rows = rows(&skills, visible_skills.as_ref(), options);
    let all = rows.len();
    if let Some(visible_skills) = &visible_skills {
        rows.retain(|row| !visible_skills.is_outside_kits(row.name));
    }
    let outside_kits = all - rows.len();
    if options.json {
        let diagnostics = options.diagnostics.then(|| skills.catalog.diagnostics().collect());
        terminal.json(&SkillList { skills: rows, diagnostics })?;
        return Ok(CommandOutcome::Done);
    }
    if rows.is_empty() && outside_kits == 0 {
        writeln!(
            terminal,
            "No skills were found. `prowess add OWNER/REPO` installs some; `prowess new NAME` creates one here; --root DIR looks \
             elsewhere."
        )?;
    } else if !rows.is_empty() {
        print(&rows, options, terminal)?;
    }
    if options.diagnostics {
        print_diagnostics(&skills.catalog, terminal)?;
    } else {
        terminal.flush()?;
        if let Some(visible_skills) = visible_skills.as_ref().filter(|_| outside_kits > 0) {
            let (are, kits) = (if outside_kits == 1 { "is" } else { "are" }, visible_skills.kits());
            let skills = count(outside_kits, "skill");
            writeln!(
                anstream::stderr(),
                "{skills} {are} in none of the kits in use ({kits}); `--kit off` shows all"
            )?;
        }
        for notice in visible_skills.iter().flat_map(ChatSkills::notices) {
            writeln!(anstream::stderr(), "notice: {notice}")?;
        }
        summarise(&skills)?;
        skills.tell_links()?;
    }
    Ok(CommandOutcome::Done)
}

fn rows<'a>(skills: &'a Skills, visible_skills: Option<&ChatSkills>, options: &Options) -> Vec<Row<'a>> {
    let depth = visible_skills.map_or(1, |visible_skills| visible_skills.options().resource_depth);
    let origins = origins();
    let row = |entry: &'a SkillEntry, status, shadowed_by| Row {
        name: entry.skill.name.as_str(),
        description: &entry.skill.description,
        status,
        // The source is shown with the trust of the skill.
        source: Root::clone(&entry.root).trust(entry.trust),
        location: entry.skill.location.as_str(),
        model_visible: status == Status::Active
            && visible_skills.is_some_and(|visible_skills| visible_skills.visibility(entry).is_visible()),
        mode: visible_skills.and_then(|visible_skills| chosen_mode(visible_skills.mode(entry))),
        is_manual: !entry.skill.is_model_invocable()
            || visible_skills.is_some_and(|visible_skills| visible_skills.mode(entry) == SkillMode::Manual),
        resources: options.resources.then(|| entry.resources(depth).counts()),
        shadowed_by,
        installed: origins.get(entry.skill.location.as_str()).cloned(),
    };
    let catalog = &skills.catalog;
    let status =
        |entry: &SkillEntry| match visible_skills.map(|visible_skills| visible_skills.visibility(entry)) {
            Some(Visibility::Denied(_)) => Status::Denied,
            Some(Visibility::Off) => Status::Off,
            _ => Status::Active,
        };
    let mut rows: Vec<Row<'_>> =
        catalog.entries().iter().map(|entry| row(entry, status(entry), None)).collect();
    rows.extend(catalog.untrusted().iter().map(|entry| row(entry, Status::Untrusted, None)));
    if options.all {
        rows.extend(catalog.shadowed().iter().map(|shadowed| {
            row(&shadowed.entry, Status::Shadowed, Some(shadowed.by.skill.location.as_str()))
        }));
    }
    rows.sort_by_key(|row| row.name);
    rows
}

fn print(rows: &[Row<'_>], options: &Options, terminal: &mut Terminal) -> Result<()> {
    let mut heading = vec!["NAME", "SOURCE"];
    if options.resources {
        heading.push("RESOURCES");
    }
    heading.push("DESCRIPTION");
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut cells = vec![printable(row.name), source(row)];
            cells.extend(row.resources.as_ref().map(ToString::to_string));
            cells.push(printable(row.description));
            cells
        })
        .collect();
    terminal.table(&heading, &cells)?;
    if terminal.is_screen() {
        writeln!(terminal, "\n{}", styled(count(rows.len(), "skill"), Style::Faint))?;
    }
    Ok(())
}

fn source(row: &Row<'_>) -> String {
    let mut source = row.source.kind.as_str().to_owned();
    if !source.eq_ignore_ascii_case(&row.source.label) {
        source = format!("{source}: {}", printable(&row.source.label));
    }
    let source = match row.status {
        Status::Active if row.is_manual => source + " (manual only)",
        Status::Active => row.mode.map_or(source.clone(), |mode| format!("{source} ({mode})")),
        Status::Off => source + " (off)",
        Status::Denied => source + " (denied)",
        Status::Untrusted => source + " (untrusted)",
        Status::Shadowed => source + " (shadowed)",
    };
    match &row.installed {
        Some(origin) => format!("{source}, {}", origin.text()),
        None => source,
    }
}

fn print_diagnostics(catalog: &Catalog, terminal: &mut Terminal) -> Result<()> {
    let mut total = 0;
    for diagnostic in catalog.diagnostics() {
        total += 1;
        let style = match diagnostic.severity {
            Severity::Error => Style::Bad,
            Severity::Warning => Style::Name,
            Severity::Info => Style::Faint,
        };
        let mut text = printable(&diagnostic.to_string());
        if let Some(at) = text.find(": ") {
            let (place, message) = text.split_at(at + 2);
            text = format!("{place}{}", styled(message, style));
        }
        writeln!(terminal, "{}{text}", if total == 1 { "\n" } else { "" })?;
    }
    writeln!(terminal, "\n{}", count(total, "diagnostic"))?;
    Ok(())
}

/// Says on the error stream what the list does not show.
fn summarise(skills: &Skills) -> Result<()> {
    let catalog = &skills.catalog;
    let refused: BTreeSet<&str> = catalog
        .diagnostics()
        .filter(|found| found.severity == Severity::Error)
        .map(|found| &*found.file)
        .collect();
    let skipped = refused.len();
    let mut parts = Vec::new();
    if skipped > 0 {
        parts.push(format!("{} could not be loaded", count(skipped, "skill")));
    }
    let cut = catalog.diagnostics().filter(|found| found.code == Code::DescriptionTooLong).count();
    if cut > 0 {
        parts.push(format!("{} too long and cut in the overview", count(cut, "description")));
    }
    if !catalog.shadowed().is_empty() {
        parts.push(format!("{} shadowed", count(catalog.shadowed().len(), "skill")));
    }
    if !parts.is_empty() {
        writeln!(anstream::stderr(), "{}; see `prowess list --all --diagnostics`", parts.join(", "))?;
    }
    skills.tell_trust()
}
