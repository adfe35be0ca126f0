//! What a project brings, for a person who is to trust it.

use std::fmt::Write as _;
use std::path::Path;

use prowess_catalog::{Catalog, ScanOptions, SkillEntry, Value};

use super::{Item, ItemKind, Standing, Survey};
use crate::config;
use crate::terminal::{Style, count, shown, shown_lines, size, start_of, styled};

/// How many files of a skill are named.
const MAX_NAMED: usize = 20;
/// How many lines of a configuration are shown.
const MAX_LINES: usize = 60;
/// How much of a description is shown.
const MAX_DESCRIPTION: usize = 200;

/// What is asked.
pub(crate) const QUESTION: &str = "Trust this project? Models then see its skills and may ask to run them, and its prowess.toml \
                                   and AGENTS.md count. It is asked again when any of it changes. [y/N] ";

impl Survey<'_> {
    /// Everything that the project brings: its skills with their files, its configuration and its memory.
    pub(crate) fn summary(&self) -> String {
        let catalog = Catalog::discover(self.project.roots(), &ScanOptions::default());
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{} brings:", shown(&self.project.top().display().to_string()));
        for (path, item) in &self.items {
            let mark = match self.before.as_ref().map(|before| (before.items.get(path), &item.digest)) {
                Some((None, _)) => " (new)",
                Some((Some(before), Ok(now))) if before != now => " (changed)",
                _ => "",
            };
            let name = styled(shown(path), Style::Name);
            let _ = writeln!(text, "\n  {name}{mark}: {}", of(item));
            if let Err(problem) = &item.digest {
                let _ =
                    writeln!(text, "    {}", styled(format!("cannot be trusted: it {problem}"), Style::Bad));
            }
            match item.kind {
                ItemKind::Skill => self.skills(path, item, &catalog, &mut text),
                ItemKind::Configuration => self.configuration(&mut text),
                ItemKind::Memory => {}
            }
        }
        if let Standing::Changed(changes) = self.standing() {
            let _ = writeln!(text, "\nSince it was trusted: {}.", super::listed(&changes));
        }
        text
    }

    fn skills(&self, path: &str, item: &Item, catalog: &Catalog, text: &mut String) {
        let directory = self.project.top().join(path);
        let all = catalog.entries().iter().chain(catalog.untrusted());
        let is_here =
            |entry: &SkillEntry| Path::new(entry.skill.location.directory()).starts_with(&directory);
        for entry in all.filter(|entry| is_here(entry)) {
            skill(entry, text);
        }
        if item.files.is_empty() || item.files.keys().all(String::is_empty) {
            return;
        }
        let mut files: Vec<String> = item
            .files
            .iter()
            .take(MAX_NAMED)
            .map(|(path, is_program)| {
                format!("{}{}", shown(path), if *is_program { " (program)" } else { "" })
            })
            .collect();
        if item.files.len() > MAX_NAMED {
            files.push(format!("{} more", item.files.len() - MAX_NAMED));
        }
        let _ = writeln!(text, "    files: {}", files.join(", "));
    }

    fn configuration(&self, text: &mut String) {
        let Ok(Some(source)) = self.project.configuration() else { return };
        if let Err(mistake) = config::check(source) {
            let _ = writeln!(text, "    {}", styled(shown(&format!("{mistake:#}")), Style::Bad));
        }
        let contents = String::from_utf8_lossy(&source.bytes);
        let contents = shown_lines(&contents);
        for line in contents.lines().take(MAX_LINES) {
            let _ = writeln!(text, "    {line}");
        }
        let more = contents.lines().count().saturating_sub(MAX_LINES);
        if more > 0 {
            let _ = writeln!(text, "    … {} more", count(more, "line"));
        }
    }
}

fn of(item: &Item) -> String {
    match item.kind {
        ItemKind::Skill => format!("{}, {}", count(item.files.len(), "file"), size(item.bytes)),
        ItemKind::Configuration => format!("settings, {}", size(item.bytes)),
        ItemKind::Memory => format!("told to the model, {}", size(item.bytes)),
    }
}

fn skill(entry: &SkillEntry, text: &mut String) {
    let skill = &entry.skill;
    let _ = writeln!(
        text,
        "    {}: {}",
        shown(skill.name.as_str()),
        start_of(&skill.description, MAX_DESCRIPTION)
    );
    if !skill.allowed_tools.is_empty() {
        let _ = writeln!(text, "    allowed-tools: {}", shown(&skill.allowed_tools.join(" ")));
    }
    if let Some(hooks) = &skill.extensions.hooks {
        let events = match hooks {
            Value::Map(events) => events.iter().map(|(event, _)| shown(event)).collect::<Vec<_>>().join(", "),
            _ => "yes".to_owned(),
        };
        let _ = writeln!(text, "    hooks: {events}");
    }
}
