//! `prowess info NAME`

use std::io::Write as _;

use anyhow::{Result, anyhow};
use clap::Args;
use prowess_catalog::resource::ResourceKind;
use prowess_catalog::yaml::Value;
use prowess_catalog::{Diagnostic, OverviewOptions, Resource, Resources, Root, Skill, SkillEntry};
use prowess_skills::load::loaded_tokens;
use serde::Serialize;

use crate::chat::session_options;
use crate::commands::CommandOutcome;
use crate::config::Settings;
use crate::options::RootArgs;
use crate::skills::Skills;
use crate::terminal::{Style, Terminal, count, printable, size, styled, wrapped};
use crate::visibility::{ChatSkills, Visibility, chosen_mode};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The skill's name
    #[arg(add = crate::complete::skills())]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    root_args: RootArgs,
}

#[derive(Serialize)]
struct Info<'a> {
    #[serde(flatten)]
    skill: &'a Skill,
    source: Root,
    digest: String,
    model_visible: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip)]
    seen: Option<Visibility>,
    /// Why it is not trusted.
    #[serde(skip)]
    untrusted: Option<String>,
    tokens: Tokens,
    lines: usize,
    resources: &'a [Resource],
    resources_capped: bool,
    diagnostics: Vec<&'a Diagnostic>,
    shadows: Vec<&'a str>,
}

#[derive(Serialize)]
struct Tokens {
    overview: usize,
    instructions: usize,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let skills = options.root_args.discover()?;
    let entry = skills.find(&options.name)?;
    let text = entry.read_text().map_err(|error| anyhow!("{error}"))?;
    let alone = skills.catalog.view(|other| other.skill.name == entry.skill.name);
    let visible_skills = ChatSkills::of_or_warn(&skills, None)?;
    let seen = visible_skills.as_ref().map(|visible_skills| visible_skills.visibility(&entry));
    let behaviour = match &visible_skills {
        Some(visible_skills) => visible_skills.options().clone(),
        None => session_options(&Settings::built_in()?.skills),
    };
    let resources = entry.resources_with_sizes(behaviour.resource_depth);
    let visible = seen.as_ref().is_some_and(Visibility::is_visible);
    let overview = alone.overview(&OverviewOptions::default());
    let info = Info {
        skill: &text.skill,
        source: Root::clone(&entry.root).trust(entry.trust),
        digest: text.digest.to_string(),
        model_visible: visible,
        mode: visible_skills.as_ref().and_then(|visible_skills| chosen_mode(visible_skills.mode(&entry))),
        seen,
        untrusted: skills.trust_status.reason(skills.project.as_ref(), &entry),
        tokens: Tokens {
            overview: if visible { overview.tokens } else { 0 },
            instructions: loaded_tokens(&entry, &text, &resources, &behaviour)?,
        },
        lines: text.manifest().lines().count(),
        resources: &resources.files,
        resources_capped: resources.capped,
        diagnostics: entry.diagnostics().iter().chain(&resources.diagnostics).collect(),
        shadows: shadowed_by(&skills, &entry),
    };
    if options.json {
        terminal.json(&info)?;
    } else {
        print(&info, &resources, terminal)?;
        terminal.flush()?;
        skills.tell_links()?;
    }
    Ok(CommandOutcome::Done)
}

fn shadowed_by<'a>(skills: &'a Skills, entry: &SkillEntry) -> Vec<&'a str> {
    let by_this = |by: &SkillEntry| by.skill.location == entry.skill.location;
    let shadowed = skills.catalog.shadowed().iter().filter(|shadowed| by_this(&shadowed.by));
    shadowed.map(|shadowed| shadowed.entry.skill.location.as_str()).collect()
}

fn print(info: &Info<'_>, resources: &Resources, terminal: &mut Terminal) -> Result<()> {
    let skill = info.skill;
    writeln!(terminal, "{}", styled(skill.name.as_str(), Style::Name))?;
    let description = printable(&skill.description);
    let description =
        if terminal.is_screen() { wrapped(&description, terminal.width()) } else { description };
    writeln!(terminal, "{description}\n")?;
    for (label, value) in fields(info) {
        if let Some(value) = value {
            line(terminal, label, &value)?;
        }
    }
    for (heading, pairs) in [("metadata", &skill.metadata), ("other fields", &skill.extra)] {
        if !pairs.is_empty() {
            writeln!(terminal, "\n{}", styled(heading, Style::Heading))?;
        }
        for (key, value) in pairs {
            line(terminal, &printable(key), &flat(value))?;
        }
    }
    print_resources(info, resources, terminal)?;
    if !info.shadows.is_empty() {
        writeln!(terminal, "\n{}", styled("shadows", Style::Heading))?;
        info.shadows.iter().try_for_each(|location| writeln!(terminal, "  {}", printable(location)))?;
    }
    print_diagnostics(info, terminal)
}

/// The fields of a skill, in the order in which they are printed.
fn fields(info: &Info<'_>) -> [(&'static str, Option<String>); 21] {
    let (skill, extensions) = (info.skill, &info.skill.extensions);
    let words = |words: &[String]| Some(words.join(", ")).filter(|text| !text.is_empty());
    let trust = if info.source.trust == prowess_catalog::Trust::Untrusted { " (untrusted)" } else { "" };
    let source = format!("{} ({}){trust}", info.source.path.display(), info.source.kind.as_str());
    let is_forked = extensions.context == prowess_catalog::skill::SkillContext::Fork;
    let explain = |seen: &Visibility| seen.explain(info.untrusted.as_deref());
    let visibility = info.seen.as_ref().map_or_else(|| "unknown".to_owned(), explain);
    let tokens =
        format!("about {} in the overview, {} loaded", info.tokens.overview, info.tokens.instructions);
    [
        ("location", Some(skill.location.to_string())),
        ("source", Some(source)),
        ("license", skill.license.clone()),
        ("compatibility", skill.compatibility.clone()),
        ("allowed tools", words(&skill.allowed_tools)),
        ("when to use", extensions.when_to_use.clone()),
        ("argument hint", extensions.argument_hint.clone()),
        ("arguments", words(&extensions.arguments)),
        ("model", extensions.model.clone()),
        ("effort", extensions.effort.clone()),
        ("context", is_forked.then(|| "fork".to_owned())),
        ("agent", extensions.agent.clone()),
        ("paths", words(&extensions.paths)),
        ("shell", extensions.shell.clone()),
        ("hooks", extensions.hooks.as_ref().map(flat)),
        ("invocation", invocation(skill)),
        ("model sees it", Some(visibility)),
        ("mode", info.mode.map(ToOwned::to_owned)),
        ("tokens", Some(tokens)),
        ("lines", Some(info.lines.to_string())),
        ("digest", Some(info.digest.clone())),
    ]
}

/// Prints errors and warnings; notes are only counted.
fn print_diagnostics(info: &Info<'_>, terminal: &mut Terminal) -> Result<()> {
    if info.diagnostics.is_empty() {
        return Ok(());
    }
    writeln!(terminal, "\n{}", styled("diagnostics", Style::Heading))?;
    let (notes, matter): (Vec<&Diagnostic>, Vec<&Diagnostic>) =
        info.diagnostics.iter().copied().partition(|found| found.severity == prowess_catalog::Severity::Info);
    matter.iter().try_for_each(|found| writeln!(terminal, "  {}", printable(&found.to_string())))?;
    if !notes.is_empty() {
        let directory = printable(info.skill.location.directory());
        writeln!(terminal, "  {}: `prowess check {directory}` shows them", count(notes.len(), "note"))?;
    }
    Ok(())
}

fn line(terminal: &mut Terminal, label: &str, value: &str) -> Result<()> {
    writeln!(terminal, "  {} {}", styled(format!("{label:<14}"), Style::Faint), printable(value))?;
    Ok(())
}

fn invocation(skill: &Skill) -> Option<String> {
    match (skill.is_model_invocable(), skill.extensions.user_invocable) {
        (true, true) => None,
        (true, false) => Some("by models only".to_owned()),
        (false, true) => Some("by people only".to_owned()),
        (false, false) => Some("by nobody: both are turned off".to_owned()),
    }
}

fn print_resources(info: &Info<'_>, resources: &Resources, terminal: &mut Terminal) -> Result<()> {
    if info.resources.is_empty() {
        return Ok(());
    }
    writeln!(terminal, "\n{} {}", styled("resources", Style::Heading), resources.counts())?;
    for kind in [ResourceKind::Script, ResourceKind::Reference, ResourceKind::Asset, ResourceKind::Other] {
        for file in info.resources.iter().filter(|file| file.kind == kind) {
            writeln!(
                terminal,
                "  {:<10} {:>10}  {}",
                kind.as_str(),
                size(file.size.unwrap_or_default()),
                printable(&file.path)
            )?;
        }
    }
    if info.resources_capped {
        writeln!(
            terminal,
            "  … and more: only the first {} are listed",
            prowess_catalog::resource::MAX_RESOURCES
        )?;
    }
    Ok(())
}

/// A value on one line.
fn flat(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}
