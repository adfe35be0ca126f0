//! A file's values, each with its line.

use anyhow::{Result, anyhow};
use prowess_agent::middleware::HookSet;
use prowess_catalog::untrusted::one_line;
use prowess_permission::nearest::nearest;
use prowess_permission::{Decision, PathBase, PermissionConfig};
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::check;
use super::origin::{Origin, key};
use super::shape::{Entry, Form, alternatives};
use super::source::{Owner, Source, user_path};
use super::{path_base, path_base_of};
use crate::terminal::{printable, printable_start};

/// Tables that have their own readers.
const OTHERS: [&str; 3] = ["permission", "agent", "hooks"];
/// How much of a wrong value is shown.
const MAX_SHOWN: usize = 60;

/// One value.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) path: Vec<String>,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// What a file says.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) leaves: Vec<Leaf>,
    pub(crate) permissions: PermissionConfig,
    /// The hooks as they were written, which can be read.
    pub(crate) hooks: Option<Map<String, Value>>,
}

impl Document {
    /// What `source` says; the first thing that is wrong with it otherwise. Paths in its rules are looked up.
    pub(crate) fn parse(source: &Source, whole: &Entry) -> Result<Self> {
        let base = match (source.owner, source.path.parent()) {
            (Owner::Project, Some(top)) => path_base_of(top),
            _ => path_base(),
        };
        Self::read(source, whole, Some(&base))
    }

    /// What is left of it without settings, and without rules that allow something.
    pub(crate) fn restrictions(mut self) -> Self {
        self.leaves.clear();
        self.permissions.warnings.clear();
        let agents = self.permissions.agents.values_mut();
        for rules in agents.chain([&mut self.permissions.rules]) {
            rules.retain(|rule| rule.decision != Decision::Allow);
        }
        self
    }

    /// The same for a file that nobody trusts yet: none of its paths is looked up.
    pub(crate) fn parse_untrusted(source: &Source, whole: &Entry) -> Result<Self> {
        Self::read(source, whole, None)
    }

    fn read(source: &Source, whole: &Entry, base: Option<&PathBase>) -> Result<Self> {
        let text = source.text()?;
        let mut reader = Reader { source, text, leaves: Vec::new(), problems: Vec::new() };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            reader.told(at, &one_line(error.message()))
        })?;
        let table = table.get_ref();
        reader.section(whole, &mut Vec::new(), table);
        let hooks = table.get("hooks").and_then(|hooks| reader.hooks(hooks));
        // Tables are not kept in the order of the file; the first problem in it is the one to mend first.
        if let Some((at, problem)) = reader.problems.iter().min_by_key(|(at, _)| *at) {
            return Err(reader.told(*at, problem));
        }
        let known: Vec<&str> = whole.keys().into_iter().chain(["hooks"]).collect();
        let name = source.path.display().to_string();
        let permissions = match base {
            Some(base) => PermissionConfig::located(text, &name, &known, base),
            None => PermissionConfig::from_document(text, &name, &known),
        };
        let permissions = permissions.map_err(|error| anyhow!("{error}"))?;
        Ok(Self { leaves: reader.leaves, permissions, hooks })
    }
}

/// Walks the file and gathers what is wrong with it.
struct Reader<'a> {
    source: &'a Source,
    text: &'a str,
    leaves: Vec<Leaf>,
    problems: Vec<(usize, String)>,
}

impl Reader<'_> {
    fn section(&mut self, entry: &Entry, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (name, value) in table {
            let at = name.span().start;
            let word = name.get_ref().as_ref();
            if path.is_empty() && OTHERS.contains(&word) {
                continue;
            }
            path.push(word.to_owned());
            let below = match &entry.form {
                Form::Section(entries) => entries.iter().find(|(key, _)| key == word).map(|(_, entry)| entry),
                Form::Named(each) => Some(&**each),
                Form::Value(_) => None,
            };
            match below {
                None => self.problem(at, unknown(entry, path)),
                Some(below) if below.user_only && self.source.owner == Owner::Project => {
                    let own = user_path().map_or_else(String::new, |path| path.display().to_string());
                    let key = printable(&key(path));
                    self.problem(
                        at,
                        format!("`{key}` is for your own configuration alone: move it to {own}"),
                    );
                }
                Some(below) => self.entry(below, path, at, value),
            }
            path.pop();
        }
    }

    fn entry(&mut self, entry: &Entry, path: &mut Vec<String>, at: usize, value: &Spanned<DeValue<'_>>) {
        match (&entry.form, value.get_ref()) {
            (Form::Section(_) | Form::Named(_), DeValue::Table(table)) => {
                if let Err(problem) = check::name(path) {
                    self.problem(at, problem);
                }
                self.section(entry, path, table);
            }
            (Form::Section(_) | Form::Named(_), other) => {
                let key = printable(&key(path));
                let found = match other.type_str() {
                    noun if noun.starts_with(['a', 'i']) => format!("an {noun}"),
                    noun => format!("a {noun}"),
                };
                self.problem(at, format!("`{key}` must be a table, written as [{key}], and is {found}"));
            }
            (Form::Value(kind), _) => {
                let line = self.line(at);
                let found = json(value.get_ref());
                match check::value(path, kind, &found) {
                    Ok(()) => {
                        let file = self.source.path.clone();
                        let origin = match self.source.owner {
                            Owner::User => Origin::User(file, line),
                            Owner::Project => Origin::Project(file, line),
                        };
                        self.leaves.push(Leaf { path: path.clone(), value: found, origin });
                    }
                    Err(problem) => self.problem(value.span().start, problem),
                }
            }
        }
    }

    fn hooks(&mut self, hooks: &Spanned<DeValue<'_>>) -> Option<Map<String, Value>> {
        let found = json(hooks.get_ref());
        match HookSet::parse(&found) {
            Ok(_) => found.as_object().cloned(),
            Err(error) => {
                let at = place_of(hooks, &error.place);
                let place = if error.place == "hooks" { String::new() } else { format!(".{}", error.place) };
                self.problem(at, format!("`hooks{}`: {}", printable(&place), error.problem));
                None
            }
        }
    }

    fn problem(&mut self, at: usize, message: String) {
        self.problems.push((at, message));
    }

    fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
    }

    fn told(&self, at: usize, message: &str) -> anyhow::Error {
        anyhow!("{}:{}: {message}", self.source.path.display(), self.line(at))
    }
}

/// Where in the file something like `PreToolUse[0].hooks[1]` is, as near as it can be told.
fn place_of(hooks: &Spanned<DeValue<'_>>, place: &str) -> usize {
    let (mut at, mut value) = (hooks.span().start, hooks.get_ref());
    for step in place.split(['.', '[']) {
        let step = step.trim_end_matches(']');
        let found = match value {
            DeValue::Table(table) => table
                .iter()
                .find(|(key, _)| key.get_ref() == step)
                .map(|(key, value)| (key.span().start, value)),
            DeValue::Array(list) => step
                .parse::<usize>()
                .ok()
                .and_then(|index| list.get(index))
                .map(|value| (value.span().start, value)),
            _ => None,
        };
        let Some((start, below)) = found else { break };
        (at, value) = (start, below.get_ref());
    }
    at
}

/// A key that is not there, and the one that was probably meant.
fn unknown(entry: &Entry, path: &[String]) -> String {
    let (word, above) = path.split_last().map_or(("", path), |(word, above)| (word.as_str(), above));
    let mut known = entry.keys();
    if above.is_empty() {
        known.extend(OTHERS);
    }
    let full = |word: &str| key(&above.iter().cloned().chain([word.to_owned()]).collect::<Vec<_>>());
    let hint = match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{}`?", printable(&full(near))),
        None => format!("there is {}", alternatives(known).replace(" or ", " and ")),
    };
    format!("there is no key `{}`; {hint}", printable(&printable_start(&full(word), MAX_SHOWN)))
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            i64::from_str_radix(&digits, number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => {
            number.as_str().replace('_', "").parse::<f64>().map_or(Value::Null, Value::from)
        }
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(list) => list.iter().map(|value| json(value.get_ref())).collect(),
        DeValue::Table(table) => {
            let pairs = table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())));
            Value::Object(pairs.collect())
        }
    }
}
