//! The summary of a project's untrusted items, for the person who decides.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use prowess_base::text::cut;
use prowess_catalog::Skill;
use prowess_catalog::skill::{Location, MissingName};
use prowess_catalog::yaml::Value;
use prowess_install::script::is_script_path;

use super::review::TrustReview;
use super::status::{ItemStatus, stay_trusted};
use super::{FileKind, Item, ItemKind};
use crate::config;
use crate::rows::folded;
use crate::terminal::{Style, count, printable, printable_lines, printable_start, size, styled};

/// How many files of a skill are named. Programs and links are always named.
const MAX_NAMED: usize = 20;
/// How many lines of a configuration or of AGENTS.md are shown.
const MAX_LINES: usize = 400;
/// How many characters of such a line are shown.
const MAX_LINE_CHARS: usize = 2_000;
/// How many characters of a description are shown.
const MAX_DESCRIPTION: usize = 200;

impl TrustReview<'_> {
    /// All untrusted items: skills with their files, the configuration and AGENTS.md. Long lines are folded, so that no row
    /// of a stranger's text begins where the rows of prowess begin.
    pub(crate) fn summary(&self, width: usize) -> String {
        let rows = self.items_text().lines().flat_map(|line| folded(line, width)).collect::<Vec<_>>();
        rows.join("\n") + "\n"
    }

    fn items_text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let top = printable(&self.project.top().display().to_string());
        let trusted = self.trusted();
        let of_part = match (trusted, self.is_first()) {
            (_, true) => "",
            (0, false) => ", besides what you said no to",
            (_, false) => ", besides what you trust",
        };
        let _ = writeln!(text, "{top} contains{of_part}:");
        for (path, item) in &self.items {
            let Some(judged) = self.statuses.get(path).filter(|judged| !self.is_settled(&judged.status))
            else {
                continue;
            };
            let mark = match judged.status {
                ItemStatus::New if !self.is_first() => " (new)",
                ItemStatus::Changed => " (changed)",
                ItemStatus::Refused => " (you said no)",
                _ => "",
            };
            let name = styled(printable(path), Style::Name);
            let _ = writeln!(text, "\n  {name}{mark}: {}", of(item));
            match &judged.status {
                ItemStatus::Unfit(problem) => {
                    let problem = format!("cannot be trusted: it {}", printable(problem));
                    let _ = writeln!(text, "    {}", styled(problem, Style::Bad));
                }
                ItemStatus::LeadsTo(_) => {
                    let _ = writeln!(text, "    has not changed, but {}", judged.status.about("it"));
                    continue;
                }
                _ => {}
            }
            match item.kind {
                ItemKind::Skill => self.skills(path, item, &mut text),
                ItemKind::Directory => {}
                ItemKind::Configuration => self.configuration(&mut text),
                ItemKind::Memory | ItemKind::Agent => self.texts(path, item, &mut text),
            }
        }
        if trusted > 0 {
            let _ = writeln!(text, "\nThe {}.", stay_trusted(trusted));
        }
        text
    }

    /// The question about these items: what will be used if the reply is yes.
    pub(super) fn question(&self) -> String {
        let number = |kind| self.asked().filter(|(path, _)| self.items[*path].kind == kind).count();
        let (ask, its, end) = if self.is_first() {
            ("Trust this project?", "its", "You will be asked again about anything new or changed.")
        } else {
            ("Trust these?", "these", "The rest stays as it is.")
        };
        let mut parts = vec![ask.to_owned()];
        match number(ItemKind::Skill) {
            0 => {}
            1 => parts.push("Models will see the skill and can ask to run its commands.".to_owned()),
            _ => parts.push(format!("Models will see {its} skills and can ask to run their commands.")),
        }
        match number(ItemKind::Agent) {
            0 => {}
            1 => parts.push("Models can give tasks to the sub-agent.".to_owned()),
            _ => parts.push(format!("Models can give tasks to {its} sub-agents.")),
        }
        let of_kind = |kind| {
            let paths = self.asked().filter(move |(path, _)| self.items[*path].kind == kind);
            paths.map(|(path, _)| printable(path))
        };
        let files = of_kind(ItemKind::Configuration).chain(of_kind(ItemKind::Memory));
        let files: Vec<String> = files.collect();
        if !files.is_empty() {
            parts.push(format!("The project's {} will be used.", files.join(" and ")));
        }
        parts.push(end.to_owned());
        parts.join(" ")
    }

    /// The mistake in the project's prowess.toml, if it has one.
    pub(crate) fn mistake(&self) -> Option<String> {
        let source = self.project.configuration().ok()??;
        config::check(source).err().map(|mistake| printable(&format!("{mistake:#}")))
    }

    fn skills(&self, path: &str, item: &Item, text: &mut String) {
        let directory = self.project.top().join(path);
        for (below, manifest) in &item.texts {
            let location = Location::new(directory.join(below).to_string_lossy());
            // An entry that is not a skill has only files.
            if let Some(found) = Skill::parse_with(manifest, &location, MissingName::UseDirectory).skill {
                skill_text(&found, text);
            }
        }
        if item.files.is_empty() || item.files.keys().all(String::is_empty) {
            return;
        }
        let of_kind = |wanted: FileKind| {
            let kind_of = |path: &str, kind: &FileKind| match kind {
                FileKind::Plain if is_script_path(path) => FileKind::Program,
                kind => kind.clone(),
            };
            let files = item.files.iter().filter(move |(path, kind)| kind_of(path, kind) == wanted);
            files.map(|(path, _)| printable(path))
        };
        let mut files: Vec<String> = of_kind(FileKind::Plain).take(MAX_NAMED).collect();
        let more = of_kind(FileKind::Plain).count().saturating_sub(MAX_NAMED);
        if more > 0 {
            files.push(format!("{more} more"));
        }
        let links = links(&item.files);
        for (what, names) in
            [("programs", of_kind(FileKind::Program).collect()), ("links", links), ("files", files)]
        {
            if !names.is_empty() {
                let _ = writeln!(text, "    {what}: {}", names.join(", "));
            }
        }
    }

    /// The text for the model.
    fn texts(&self, path: &str, item: &Item, text: &mut String) {
        for (below, contents) in &item.texts {
            let file = self.project.top().join(path);
            let file = if below.is_empty() { file } else { file.join(below) };
            if item.texts.len() > 1 || !below.is_empty() {
                let _ = writeln!(text, "    {}:", printable(below));
            }
            lines(&String::from_utf8_lossy(contents), &file, text);
        }
    }

    fn configuration(&self, text: &mut String) {
        let Ok(Some(source)) = self.project.configuration() else { return };
        if let Some(mistake) = self.mistake() {
            let _ = writeln!(text, "    {}", styled(format!("error: {mistake}"), Style::Bad));
        }
        lines(&String::from_utf8_lossy(&source.bytes), &self.project.top().join(config::FILE_NAME), text);
    }
}

/// The lines of a file. If there are too many, says where the rest is.
fn lines(contents: &str, file: &Path, text: &mut String) {
    let contents = printable_lines(contents);
    for line in contents.lines().take(MAX_LINES) {
        let _ = writeln!(text, "    {}", cut(line, MAX_LINE_CHARS));
    }
    let file = printable(&file.display().to_string());
    if contents.lines().take(MAX_LINES).any(|line| line.chars().nth(MAX_LINE_CHARS).is_some()) {
        let _ = writeln!(text, "    … long lines are cut here: read {file} before you reply");
    }
    let more = contents.lines().count().saturating_sub(MAX_LINES);
    if more > 0 {
        let _ = writeln!(text, "    … {} more: read {file} before you reply", count(more, "line"));
    }
}

fn of(item: &Item) -> String {
    if let Some(FileKind::Link(target)) = item.files.get("") {
        if item.kind == ItemKind::Memory {
            return format!("a link to {}, text for the model, {}", printable(target), size(item.bytes));
        }
        return format!("a link to {}", printable(target));
    }
    match item.kind {
        ItemKind::Directory => "a skill directory".to_owned(),
        ItemKind::Skill => format!("{}, {}", count(item.files.len(), "file"), size(item.bytes)),
        ItemKind::Configuration => format!("settings, {}", size(item.bytes)),
        ItemKind::Agent if item.files.len() > 1 => {
            format!("sub-agents, {}, {}", count(item.files.len(), "file"), size(item.bytes))
        }
        ItemKind::Agent => format!("a sub-agent, {}", size(item.bytes)),
        ItemKind::Memory => format!("text for the model, {}", size(item.bytes)),
    }
}

/// Links with their targets.
fn links(files: &BTreeMap<String, FileKind>) -> Vec<String> {
    let link = |(path, kind): (&String, &FileKind)| match kind {
        FileKind::Link(target) => Some(format!("{} -> {}", printable(path), printable(target))),
        _ => None,
    };
    files.iter().filter_map(link).collect()
}

/// What a skill says about itself: its description, tools and hooks.
pub(crate) fn skill_text(skill: &Skill, text: &mut String) {
    let _ = writeln!(
        text,
        "    {}: {}",
        printable(skill.name.as_str()),
        printable_start(&skill.description, MAX_DESCRIPTION)
    );
    if !skill.allowed_tools.is_empty() {
        let _ = writeln!(text, "    allowed-tools: {}", printable(&skill.allowed_tools.join(" ")));
    }
    match hooks(skill) {
        Some(hooks) => {
            for (event, does) in hooks {
                let does: Vec<String> = does.iter().map(|text| printable(text)).collect();
                let _ = writeln!(text, "    hook {}: {}", printable(&event), does.join(" "));
            }
        }
        None => {
            let _ = writeln!(text, "    hooks: in an unknown form");
        }
    }
}

/// The hooks of a skill: each event, and all texts of what happens then, such as commands and prompts. `None` if they are in
/// an unknown form.
pub(crate) fn hooks(skill: &Skill) -> Option<Vec<(String, Vec<String>)>> {
    match &skill.extensions.hooks {
        None => Some(Vec::new()),
        Some(Value::Map(events)) => {
            let of_event = |(event, groups): &(_, Value)| {
                let mut does = Vec::new();
                texts(groups, &mut does);
                (String::clone(event), does)
            };
            Some(events.iter().map(of_event).collect())
        }
        Some(_) => None,
    }
}

/// All texts in a value, such as commands and prompts.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Map(fields) => fields.iter().for_each(|(_, value)| texts(value, found)),
        Value::List(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Text(text) => found.push(text.clone()),
        _ => {}
    }
}
