//! Reads the settings from the values of all sources. The first wrong value ends it, with its origin and its key.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use prowess_permission::nearest::nearest;
use serde_json::Value as Json;

use super::OTHER_TABLES;
use super::setting::{Parsed, Setting, Wrong};
use super::source::user_path;
use super::value::{Origin, Value, Values, key, with_name};
use crate::terminal::{printable, printable_start};

/// How much of a wrong key or value is shown.
const MAX_SHOWN: usize = 60;
/// Keys that somebody may have given a secret: no message shows their values.
const SECRET: [&str; 4] = ["key_env", "key_command", "token_env", "env"];

/// Who may set something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetBy {
    /// Every source, also a project's file.
    All,
    /// Every source except a project's file.
    User,
}

/// A table of the configuration, for the reference and for checks.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// How many names stand before a key: 2 if the user chooses names below the table.
    pub(crate) depth: usize,
    /// The lines of its doc comment.
    pub(crate) about: &'static [&'static str],
    pub(crate) keys: Vec<Key>,
}

/// A key of a table.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) by: SetBy,
    /// What to write in a file.
    pub(crate) expected: String,
    /// The default, as a file would have it.
    pub(crate) default: Option<Json>,
    /// The lines of its doc comment.
    pub(crate) text: &'static [&'static str],
}

/// The keys of a table. The macro [`section!`] makes one.
pub(crate) trait Section: Sized {
    /// The table with this name.
    fn table(name: &'static str) -> Table;
    /// Reads the table at this path.
    fn read(reader: &mut Reader<'_>, table: &[&str]) -> Result<Self>;
}

/// Declares a table of the configuration, with lines such as `All key: Type = default`. `All` and `User` are
/// [`SetBy`]. A default is written as in a file. The doc comments are the reference.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        pub(crate) struct $name:ident {
            $($(#[doc = $text:literal])+ $by:ident $key:ident: $type:ty $(= $default:expr)?,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $($(#[doc = $text])+ pub(crate) $key: $type,)+
        }

        impl $name {
            fn keys() -> [$crate::config::read::Key; [$(stringify!($key)),+].len()] {
                use $crate::config::{read::{Key, SetBy}, setting::expected};
                [$(Key {
                    name: stringify!($key),
                    by: SetBy::$by,
                    expected: expected::<$type>(),
                    default: None$(.or(Some(serde_json::json!($default))))?,
                    text: &[$($text),+],
                }),+]
            }
        }

        impl $crate::config::read::Section for $name {
            fn table(name: &'static str) -> $crate::config::read::Table {
                let (about, keys) = (&[$($about),+], Self::keys().into());
                $crate::config::read::Table { name, depth: 1, about, keys }
            }

            fn read(reader: &mut $crate::config::read::Reader<'_>, table: &[&str]) -> anyhow::Result<Self> {
                let [$($key),+] = Self::keys();
                Ok(Self { $($key: reader.value(table, $key)?),+ })
            }
        }
    };
}
pub(crate) use section;

/// The tables below one whose names the user chooses.
impl<K: FromStr<Err: fmt::Display> + Ord, S: Section> Section for BTreeMap<Parsed<K>, S> {
    fn table(name: &'static str) -> Table {
        Table { depth: 2, ..S::table(name) }
    }

    fn read(reader: &mut Reader<'_>, table: &[&str]) -> Result<Self> {
        let mut all = Self::new();
        for (path, value) in reader.sources.iter().flatten() {
            let [first, name] = path.as_slice() else { continue };
            if first != table[0] || all.contains_key(name.as_str()) {
                continue;
            }
            let label = name.parse();
            let label = label.map_err(|error| anyhow!("{}: `{}`: {error}", value.origin, shown(path)))?;
            all.insert(label, S::read(reader, &[first, name])?);
        }
        Ok(all)
    }
}

/// A key that was read, with its value, which may be null, and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) path: Vec<String>,
    pub(crate) value: Json,
    pub(crate) origin: Origin,
}

/// All sources, the strongest last, and every key that was read.
pub(crate) struct Reader<'a> {
    pub(crate) sources: &'a [Values],
    pub(crate) rows: Vec<Row>,
}

impl Reader<'_> {
    /// The value of a key: of the strongest source that sets it. Every source must have a value that can be used.
    pub(crate) fn value<T: Setting>(&mut self, table: &[&str], key: Key) -> Result<T> {
        let path: Vec<String> = table.iter().chain([&key.name]).map(ToString::to_string).collect();
        let mut found = None;
        for value in self.sources.iter().filter_map(|values| values.get(&path)) {
            let json = typed::<T>(value);
            let read = T::read(&json).map_err(|wrong| refusal(&path, value, &json, wrong))?;
            found = Some((read, json, value.origin.clone()));
        }
        // Of a table with a name of the user's choice, only keys that are set are shown.
        let is_shown = table.len() < 2 || found.is_some();
        let default = key.default.unwrap_or_default();
        let absent = || Some((T::read(&default).ok().or_else(T::absent)?, default, Origin::Default));
        let Some((value, json, origin)) = found.or_else(absent) else {
            let (place, about) = (self.origin(table), first_sentence(key.text));
            bail!("{place}: `{}` ({about}) is missing; add it: {}", shown(&path), key.expected);
        };
        if is_shown {
            self.rows.push(Row { path, value: json, origin });
        }
        Ok(value)
    }

    /// The origin of a key in the strongest source that has it. If none has it, the origin of its table.
    pub(crate) fn origin(&self, path: &[&str]) -> &Origin {
        let Some((_, table)) = path.split_last() else { return &Origin::Default };
        let path: Vec<String> = path.iter().map(ToString::to_string).collect();
        let found = self.sources.iter().rev().find_map(|values| values.get(&path));
        found.map_or_else(|| self.origin(table), |value| &value.origin)
    }
}

/// Refuses keys of one of these sources that are not known, that should be tables, or that it may not set.
pub(crate) fn check_keys(values: &Values, sources: &[Values], tables: &[Table]) -> Result<()> {
    for (path, value) in values {
        let Some(table) = tables.iter().find(|table| table.name == path[0]) else {
            return unknown(path, value, tables.iter().map(|table| table.name).chain(OTHER_TABLES));
        };
        let (origin, is_users) = (&value.origin, |key: &Key| key.by == SetBy::User);
        let forbidden = if path.len() > table.depth + 1 {
            None
        } else if path.len() > table.depth {
            let Some(key) = table.keys.iter().find(|key| key.name == path[table.depth]) else {
                return unknown(path, value, table.keys.iter().map(|key| key.name));
            };
            is_users(key).then(|| format!("set {}", name_of(path, value)))
        } else if value.json.is_object() {
            // A key in the table gives a better message.
            let mut below =
                values.range(path.clone()..).skip(1).take_while(|(next, _)| next.starts_with(path));
            // An empty table adds nothing to one that another source has.
            let is_known =
                sources.iter().any(|other| !std::ptr::eq(other, values) && other.contains_key(path));
            let is_forbidden =
                path.len() == 2 && !is_known && below.next().is_none() && table.keys.iter().all(is_users);
            is_forbidden.then(|| format!("have the table [{}]", shown(path)))
        } else {
            let (key, found) = (shown(path), found(&value.json));
            bail!("{origin}: `{key}` must be a table, written as [{key}], not {found}");
        };
        if let (Some(forbidden), Origin::Project(..)) = (forbidden, origin) {
            let own = user_path().map_or_else(String::new, |path| format!(" ({})", path.display()));
            bail!("{origin}: only your own file{own} may {forbidden}; move it there");
        }
    }
    Ok(())
}

/// The message about a key that is not known.
fn unknown(path: &[String], value: &Value, known: impl Iterator<Item = &'static str>) -> Result<()> {
    let known: Vec<&str> = known.collect();
    let hint = match nearest(&path[path.len() - 1], known.iter().copied()) {
        Some(near) => format!("did you mean `{}`?", shown(&with_name(path, near))),
        None => format!("use {}", alternatives(&known)),
    };
    bail!("{}: there is no key `{}`; {hint}", value.origin, shown(path))
}

/// The message about a value that cannot be used.
fn refusal(path: &[String], value: &Value, json: &Json, wrong: Wrong) -> anyhow::Error {
    let (name, origin) = (name_of(path, value), &value.origin);
    // An option says enough by its name.
    let name = match origin {
        Origin::Flag(option) => (*option).to_owned(),
        _ => format!("{origin}: {name}"),
    };
    match (wrong, path.last()) {
        (Wrong::Because(reason), _) => anyhow!("{name}: {}", printable(&reason)),
        (Wrong::Form(form), Some(last)) if SECRET.contains(&last.as_str()) => {
            anyhow!("{name} must be {form}")
        }
        (Wrong::Form(form), _) => anyhow!("{name} must be {form}, not {}", found(json)),
    }
}

/// The first sentence of a doc comment, as a part of another sentence.
fn first_sentence(lines: &[&str]) -> String {
    let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let sentence = text.split(". ").next().unwrap_or_default().trim_end_matches('.');
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// The name under which a source has a value, in backticks, and its new name if it was renamed.
fn name_of(path: &[String], value: &Value) -> String {
    match value.old_name {
        Some(old) => format!("`{}` (now called `{}`)", shown(&with_name(path, old)), shown(path)),
        None => format!("`{}`", shown(path)),
    }
}

/// A value as a file would have it. The text of a variable or an option becomes a number or a list if the key takes one.
fn typed<T: Setting>(value: &Value) -> Json {
    let (Json::String(text), Origin::Environment(_) | Origin::Flag(_)) = (&value.json, &value.origin) else {
        return value.json.clone();
    };
    let number = serde_json::from_str(text).ok().filter(Json::is_number);
    let list = text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Json::from).collect();
    let mut forms = [Some(value.json.clone()), number, Some(list)].into_iter().flatten();
    forms.find(|form| !matches!(T::read(form), Err(Wrong::Form(_)))).unwrap_or_else(|| value.json.clone())
}

/// `a`, `b` or `c`
pub(crate) fn alternatives(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.join(""),
    }
}

/// A value that somebody wrote. A text with an `@` may hold a password, and a list may hold anything.
fn found(value: &Json) -> String {
    match value {
        Json::String(text) if text.contains('@') => "this text".to_owned(),
        Json::String(text) => format!("`{}`", quoted(text)),
        Json::Null => "a number that is too large".to_owned(),
        Json::Object(_) => "a table".to_owned(),
        Json::Array(list) if list.iter().any(|item| !item.is_number()) => "this list".to_owned(),
        other => quoted(&other.to_string()),
    }
}

/// The beginning of the full name of a key.
fn shown<S: AsRef<str>>(path: &[S]) -> String {
    quoted(&key(path))
}

/// The beginning of a text that somebody wrote, for a message.
pub(crate) fn quoted(text: &str) -> String {
    printable_start(text, MAX_SHOWN)
}
