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
/// The longest text that can be a number, in bytes.
const MAX_NUMBER: usize = 20;
/// Keys that somebody may have given a secret: no message shows their values.
const SECRET: [&str; 5] = ["key_env", "key_command", "token_env", "env", "client_secret_env"];

/// Who may set something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetBy {
    /// Every source, also a project's file.
    All,
    /// Every source except a project's file.
    User,
    /// Every source, but a project's file can only narrow what the others set. The type must be a
    /// [`Narrowed`](super::narrowed::Narrowed).
    Narrow,
}

/// Which names below a table the user chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// None: its keys are fixed.
    Nothing,
    /// The names of tables that have its keys, as in `[price.NAME]`.
    Tables,
    /// The names of its keys, as in `[skills.mode]`.
    Keys,
}

/// A table of the configuration, for the reference and for checks.
pub(crate) struct Table {
    /// Its name, in parts: `skills`, `overview`.
    pub(crate) path: Vec<&'static str>,
    pub(crate) chosen: Chosen,
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

impl Table {
    /// Its name, such as `skills.overview`.
    pub(crate) fn name(&self) -> String {
        self.path.join(".")
    }

    /// How many names stand before a key.
    fn depth(&self) -> usize {
        self.path.len() + usize::from(self.chosen == Chosen::Tables)
    }

    /// The key with this name.
    fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name || self.chosen == Chosen::Keys)
    }

    /// Whether the table with this path is this one, or has it around it.
    fn is_around(&self, path: &[String]) -> bool {
        path.len() >= self.path.len() && self.path.iter().zip(path).all(|(own, other)| own == other)
    }
}

/// The keys of a table. The macro [`section!`] makes one.
pub(crate) trait Section: Sized {
    /// The table with this path, and the tables in it.
    fn tables(path: &[&'static str]) -> Vec<Table>;
    /// Reads the table at this path.
    fn read(reader: &mut Reader<'_>, table: &[&str]) -> Result<Self>;
}

/// Declares a table of the configuration, with lines such as `All key: Type = default`. `All`, `User` and `Narrow` are
/// [`SetBy`]. A default is written as in a file. The doc comments are the reference. `tables` lists the tables in it.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        pub(crate) struct $name:ident {
            $($(#[doc = $text:literal])+ $by:ident $key:ident: $type:ty $(= $default:expr)?,)*
        }
        $(tables { $($table:ident: $section:ty,)+ })?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $($(#[doc = $text])+ pub(crate) $key: $type,)*
            $($(pub(crate) $table: $section,)+)?
        }

        impl $name {
            fn keys() -> [$crate::config::read::Key; <[&str]>::len(&[$(stringify!($key)),*])] {
                #[allow(unused_imports, reason = "a table may have nothing but tables")]
                use $crate::config::{read::{Key, SetBy}, setting::expected};
                [$(Key {
                    name: stringify!($key),
                    by: SetBy::$by,
                    expected: expected::<$type>(),
                    default: None$(.or(Some(serde_json::json!($default))))?,
                    text: &[$($text),+],
                }),*]
            }
        }

        impl $crate::config::read::Section for $name {
            fn tables(path: &[&'static str]) -> Vec<$crate::config::read::Table> {
                use $crate::config::read::{Chosen, Table};
                let (about, keys) = (&[$($about),+], Self::keys().into());
                let own = Table { path: path.to_vec(), chosen: Chosen::Nothing, about, keys };
                let inner: Vec<Vec<Table>> =
                    vec![$($(<$section>::tables(&[path, &[stringify!($table)]].concat())),+)?];
                std::iter::once(own).chain(inner.into_iter().flatten()).collect()
            }

            fn read(reader: &mut $crate::config::read::Reader<'_>, table: &[&str]) -> anyhow::Result<Self> {
                let [$($key),*] = Self::keys();
                Ok(Self {
                    $($key: reader.value(table, $key)?,)*
                    $($($table: $crate::config::read::Section::read(
                        reader,
                        &[table, &[stringify!($table)]].concat(),
                    )?,)+)?
                })
            }
        }
    };
}
pub(crate) use section;

/// Declares a table whose keys have names that the user chooses: the kind of the names, and the type of the values. The doc
/// comments are the reference.
macro_rules! chosen_keys {
    (
        $(#[doc = $about:literal])+
        pub(crate) struct $name:ident {
            $(#[doc = $text:literal])+ $by:ident $kind:ty: $type:ty
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        pub(crate) struct $name(
            pub(crate) std::collections::BTreeMap<$crate::config::setting::Parsed<$kind>, $type>,
        );

        impl $name {
            fn key() -> $crate::config::read::Key {
                use $crate::config::{read::{CHOSEN_NAME, Key, SetBy}, setting::expected};
                let (name, by, expected) = (CHOSEN_NAME, SetBy::$by, expected::<$type>());
                Key { name, by, expected, default: None, text: &[$($text),+] }
            }
        }

        impl $crate::config::read::Section for $name {
            fn tables(path: &[&'static str]) -> Vec<$crate::config::read::Table> {
                use $crate::config::read::{Chosen, Table};
                let (path, chosen) = (path.to_vec(), Chosen::Keys);
                vec![Table { path, chosen, about: &[$($about),+], keys: vec![Self::key()] }]
            }

            fn read(reader: &mut $crate::config::read::Reader<'_>, table: &[&str]) -> anyhow::Result<Self> {
                reader.chosen_values(table, &Self::key()).map(Self)
            }
        }
    };
}
pub(crate) use chosen_keys;

/// What the reference calls a name that the user chooses.
pub(crate) const CHOSEN_NAME: &str = "NAME";
/// The most keys of a table whose names the user chooses. Each is compared with the name of every skill.
const MAX_CHOSEN: usize = 1_000;

/// The tables below one whose names the user chooses.
impl<K: FromStr<Err: fmt::Display> + Ord, S: Section> Section for BTreeMap<Parsed<K>, S> {
    fn tables(path: &[&'static str]) -> Vec<Table> {
        let tables = S::tables(path).into_iter();
        tables.map(|table| Table { chosen: Chosen::Tables, ..table }).collect()
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
            reader.is_chosen = true;
            let read = S::read(reader, &[first, name]);
            reader.is_chosen = false;
            all.insert(label, read?);
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
    /// Whether the table that is read has a name of the user's choice.
    is_chosen: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(sources: &'a [Values]) -> Self {
        Self { sources, rows: Vec::new(), is_chosen: false }
    }

    /// The value of a key: of the strongest source that sets it. Every source must have a value that can be used.
    pub(crate) fn value<T: Setting>(&mut self, table: &[&str], key: Key) -> Result<T> {
        let path: Vec<String> = table.iter().chain([&key.name]).map(ToString::to_string).collect();
        if let Some(value) = self.set_value(&path)? {
            return Ok(value);
        }
        let default = key.default.unwrap_or_default();
        let Some(value) = T::read(&default).ok().or_else(T::absent) else {
            let (place, about) = (self.origin(table), first_sentence(key.text));
            bail!("{place}: `{}` ({about}) is missing; add it: {}", shown(&path), key.expected);
        };
        // Of a table with a name of the user's choice, only keys that are set are shown.
        if !self.is_chosen {
            self.rows.push(Row { path, value: default, origin: Origin::Default });
        }
        Ok(value)
    }

    /// The value of a key that a source sets.
    fn set_value<T: Setting>(&mut self, path: &[String]) -> Result<Option<T>> {
        let (mut found, mut rows): (Option<T>, Vec<Row>) = (None, Vec::new());
        for value in self.sources.iter().filter_map(|values| values.get(path)) {
            let json = typed::<T>(value);
            let read = T::read(&json).map_err(|wrong| refusal(path, value, &json, wrong))?;
            // The value of a project's file that narrows another one is shown beside that.
            let narrows = |origin: &Origin| T::NARROWS && matches!(origin, Origin::Project(..));
            rows.retain(|row| narrows(&row.origin) != narrows(&value.origin));
            rows.push(Row { path: path.to_vec(), value: json, origin: value.origin.clone() });
            found = Some(read.over(found, &value.origin));
        }
        self.rows.append(&mut rows);
        Ok(found)
    }

    /// The values of a table whose keys have names that the user chooses.
    pub(crate) fn chosen_values<K: FromStr<Err: fmt::Display> + Ord, T: Setting>(
        &mut self,
        table: &[&str],
        key: &Key,
    ) -> Result<BTreeMap<Parsed<K>, T>> {
        let mut all = BTreeMap::new();
        let below = |path: &&Vec<String>| {
            path.len() == table.len() + 1 && table.iter().zip(*path).all(|(own, other)| own == other)
        };
        for (path, value) in self.sources.iter().flatten().filter(|(path, _)| below(path)) {
            let name = &path[table.len()];
            if all.contains_key(name.as_str()) {
                continue;
            }
            let (origin, place) = (&value.origin, shown(path));
            if all.len() == MAX_CHOSEN {
                bail!("{origin}: `{place}`: [{}] can have {MAX_CHOSEN} keys at most", table.join("."));
            }
            let name = name.parse().map_err(|error| anyhow!("{origin}: `{place}`: {error}"))?;
            let Some(read) = self.set_value(path)? else {
                bail!("{origin}: `{place}` must be {}", key.expected);
            };
            all.insert(name, read);
        }
        Ok(all)
    }

    /// The origin of a key in the strongest source that has it. If none has it, the origin of its table.
    pub(crate) fn origin(&self, path: &[&str]) -> &Origin {
        let Some((_, table)) = path.split_last() else { return &Origin::Default };
        let path: Vec<String> = path.iter().map(ToString::to_string).collect();
        let found = self.sources.iter().rev().find_map(|values| values.get(&path));
        found.map_or_else(|| self.origin(table), |value| &value.origin)
    }
}

impl Reader<'_> {
    /// The origin of a key in the project's file.
    pub(crate) fn project_origin(&self, path: &[&str]) -> &Origin {
        self.origin_where(path, |origin| matches!(origin, Origin::Project(..)))
    }

    /// The origin of a key in the strongest source that is not the project's file.
    pub(crate) fn own_origin(&self, path: &[&str]) -> &Origin {
        self.origin_where(path, |origin| !matches!(origin, Origin::Project(..)))
    }

    fn origin_where(&self, path: &[&str], accepts: impl Fn(&Origin) -> bool) -> &Origin {
        let path: Vec<String> = path.iter().map(ToString::to_string).collect();
        let mut found = self.sources.iter().rev().filter_map(|values| Some(&values.get(&path)?.origin));
        found.find(|origin| accepts(origin)).unwrap_or(&Origin::Default)
    }
}

/// Refuses keys of one of these sources that are not known, that should be tables, or that it may not set.
pub(crate) fn check_keys(values: &Values, sources: &[Values], tables: &[Table]) -> Result<()> {
    for (path, value) in values {
        let around = tables.iter().filter(|table| table.is_around(path));
        let Some(table) = around.max_by_key(|table| table.path.len()) else {
            let top = tables.iter().filter(|table| table.path.len() == 1).map(|table| table.path[0]);
            return unknown(path, value, top.chain(OTHER_TABLES));
        };
        let depth = table.depth();
        let (origin, is_users) = (&value.origin, |key: &Key| key.by == SetBy::User);
        let forbidden = if path.len() > depth + 1 {
            None
        } else if path.len() > depth {
            let Some(key) = table.key(&path[depth]) else {
                let inner = tables.iter().filter(|other| other.path.len() == depth + 1);
                let inner = inner.filter(|other| other.path.starts_with(&table.path));
                let known = table.keys.iter().map(|key| key.name);
                return unknown(path, value, known.chain(inner.map(|other| other.path[depth])));
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
        // An environment variable or an option has no quotes.
        (Wrong::Form(form), _)
            if is_number_in_quotes(json) && matches!(origin, Origin::User(..) | Origin::Project(..)) =>
        {
            anyhow!("{name} must be {form}: write {} without quotes", json.as_str().unwrap_or_default())
        }
        (Wrong::Form(form), _) => anyhow!("{name} must be {form}, not {}", found(json)),
    }
}

fn is_number_in_quotes(json: &Json) -> bool {
    json.as_str()
        .is_some_and(|text| text.len() <= MAX_NUMBER && text.parse::<f64>().is_ok_and(f64::is_finite))
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
