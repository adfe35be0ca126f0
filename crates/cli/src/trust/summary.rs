//! What a project brings, for a person who is to trust it.

use std::fmt::Write as _;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use prowess_catalog::{Catalog, ScanOptions, SkillEntry, Value};

use rustix::fs::OFlags;

use super::{Item, ItemKind, Standing, Survey};
use crate::config;
use crate::terminal::{Style, count, shown, shown_lines, size, start_of, styled};

/// How many files of a skill are named, beside its programs, which are all named.
const MAX_NAMED: usize = 20;
/// How many lines of a configuration or of a memory are shown.
const MAX_LINES: usize = 400;
/// How much of a memory is read for it, in bytes.
const MAX_SHOWN: u64 = 64 * 1024;
/// How much of a description is shown.
const MAX_DESCRIPTION: usize = 200;

/// What is asked.
pub(crate) const QUESTION: &str = "Trust this project? Models then see its skills and may ask to run them, and its prowess.toml \
                                   and AGENTS.md count. It is asked again when any of it changes. [y/N]";

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
                ItemKind::Memory if item.digest.is_ok() => self.memory(path, &mut text),
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
        let programs = item.files.iter().filter(|(_, is_program)| **is_program);
        let programs: Vec<String> = programs.map(|(path, _)| shown(path)).collect();
        if !programs.is_empty() {
            let _ = writeln!(text, "    programs: {}", programs.join(", "));
        }
        let others = item.files.iter().filter(|(_, is_program)| !**is_program);
        let mut files: Vec<String> = others.clone().take(MAX_NAMED).map(|(path, _)| shown(path)).collect();
        let more = others.count().saturating_sub(MAX_NAMED);
        if more > 0 {
            files.push(format!("{more} more"));
        }
        if !files.is_empty() {
            let _ = writeln!(text, "    files: {}", files.join(", "));
        }
    }

    /// What the model would be told.
    fn memory(&self, path: &str, text: &mut String) {
        let file = self.project.top().join(path);
        // What is asked about is what was hashed; this is for a person's eyes.
        let mut options = std::fs::File::options();
        let opened = options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&file);
        let read = opened.and_then(|file| {
            let mut contents = Vec::new();
            file.take(MAX_SHOWN).read_to_end(&mut contents)?;
            Ok(contents)
        });
        match read {
            Ok(contents) => lines(&String::from_utf8_lossy(&contents), &file, text),
            Err(_) => {
                let _ = writeln!(text, "    read it before you answer");
            }
        }
    }

    fn configuration(&self, text: &mut String) {
        let Ok(Some(source)) = self.project.configuration() else { return };
        if let Err(mistake) = config::check(source) {
            let _ = writeln!(text, "    {}", styled(shown(&format!("{mistake:#}")), Style::Bad));
        }
        lines(&String::from_utf8_lossy(&source.bytes), &self.project.top().join(config::FILE_NAME), text);
    }
}

/// The lines of a file, or the first of them and where the rest is.
fn lines(contents: &str, file: &Path, text: &mut String) {
    let contents = shown_lines(contents);
    for line in contents.lines().take(MAX_LINES) {
        let _ = writeln!(text, "    {line}");
    }
    let more = contents.lines().count().saturating_sub(MAX_LINES);
    if more > 0 {
        let file = shown(&file.display().to_string());
        let _ = writeln!(text, "    … {} more: read {file} before you answer", count(more, "line"));
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
        match hooks {
            Value::Map(events) => {
                for (event, groups) in events {
                    let mut does = Vec::new();
                    texts(groups, &mut does);
                    let _ = writeln!(text, "    hook {}: {}", shown(event), does.join(" "));
                }
            }
            _ => {
                let _ = writeln!(text, "    hooks: in a form that is not understood");
            }
        }
    }
}

/// All texts within a value: commands, prompts, and what they are for.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Map(fields) => fields.iter().for_each(|(_, value)| texts(value, found)),
        Value::List(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Text(text) => found.push(shown(text)),
        _ => {}
    }
}
