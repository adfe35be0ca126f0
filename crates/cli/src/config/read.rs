//! Reads the settings from the values of all sources. The first wrong value ends it, with its origin and its key.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use prowess_permission::nearest::nearest;
use serde_json::Value as Json;

use super::origin::{Origin, key};
use super::setting::{Parsed, Setting, Wrong};
use super::source::user_path;
use super::tree::{Node, Value};
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

/// A key of a table, for the reference.
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

/// A table of the configuration. The macro [`section!`] makes one.
pub(crate) trait Section: Sized {
    /// The lines of the table's doc comment.
    const ABOUT: &'static [&'static str];
    /// The names of the keys.
    const NAMES: &'static [&'static str];
    fn keys() -> Vec<Key>;
    fn read(tables: &Tables<'_>, rows: &mut Vec<Row>) -> Result<Self>;
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

        impl $crate::config::read::Section for $name {
            const ABOUT: &'static [&'static str] = &[$($about),+];
            const NAMES: &'static [&'static str] = &[$(stringify!($key)),+];

            fn keys() -> Vec<$crate::config::read::Key> {
                use $crate::config::{read::{Key, SetBy}, setting::Setting as _};
                vec![$(Key {
                    name: stringify!($key),
                    by: SetBy::$by,
                    expected: <$type>::expected(),
                    default: <$type>::absent().map(|(_, value)| value)$(.or(Some($default.into())))?
                        .filter(|value| !value.is_null()),
                    text: &[$($text),+],
                }),+]
            }

            fn read(
                tables: &$crate::config::read::Tables<'_>,
                rows: &mut Vec<$crate::config::read::Row>,
            ) -> anyhow::Result<Self> {
                use $crate::config::read::SetBy;
                Ok(Self { $($key: tables.value(stringify!($key), SetBy::$by, rows)?),+ })
            }
        }
    };
}
pub(crate) use section;

/// A key that was read, with its value, which may be null, and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) path: Vec<String>,
    pub(crate) value: Json,
    pub(crate) origin: Origin,
}

/// The same table in every source that has it, the strongest last.
#[derive(Clone)]
pub(crate) struct Tables<'a> {
    path: Vec<&'a str>,
    tables: Vec<&'a Node>,
}

impl<'a> Tables<'a> {
    /// The whole of each source.
    pub(crate) fn top(sources: &'a [Node]) -> Self {
        Self { path: Vec::new(), tables: sources.iter().collect() }
    }

    /// Refuses keys that are not known.
    pub(crate) fn check_keys(&self, known: &[&str]) -> Result<()> {
        for (name, node) in self.tables.iter().flat_map(|table| table.entries()) {
            if !known.contains(&name.as_str()) {
                let hint = match nearest(name, known.iter().copied()) {
                    Some(near) => format!("did you mean `{}`?", self.key(near)),
                    None => format!("use {}", alternatives(known)),
                };
                bail!("{}: there is no key `{}`; {hint}", node.origin, self.key(name));
            }
        }
        Ok(())
    }

    /// The value of a key: of the strongest source that sets it. Every source must have a value that can be used.
    pub(crate) fn value<T: Setting>(&self, name: &str, by: SetBy, rows: &mut Vec<Row>) -> Result<T> {
        let mut found = T::absent().map(|(value, written)| (value, written, None));
        for node in self.nodes(name) {
            if by == SetBy::User && matches!(node.origin, Origin::Project(..)) {
                let own = user_path().map_or_else(String::new, |path| format!(" ({})", path.display()));
                bail!("{}: only your own file{own} may set `{}`; move it there", node.origin, self.key(name));
            }
            let written = match &node.value {
                Value::Table(_) => Json::Object(serde_json::Map::new()),
                Value::Typed(value) => value.clone(),
                Value::Text(text) => typed::<T>(text),
            };
            let value = T::read(&written).map_err(|wrong| self.refusal::<T>(name, node, &written, wrong))?;
            found = Some((value, written, Some(&node.origin)));
        }
        let Some((value, written, origin)) = found else {
            let place = self.tables.last().map_or_else(String::new, |table| format!("{}: ", table.origin));
            bail!("{place}`{}` is missing; add it: {}", self.key(name), T::expected());
        };
        // Of a table with a name of the user's choice, only keys that are set are shown.
        if self.path.len() < 2 || origin.is_some() {
            let path = self.path.iter().copied().chain([name]).map(ToOwned::to_owned).collect();
            rows.push(Row { path, value: written, origin: origin.unwrap_or(&Origin::Default).clone() });
        }
        Ok(value)
    }

    /// A table in this table.
    pub(crate) fn section<S: Section>(&self, name: &'a str, rows: &mut Vec<Row>) -> Result<S> {
        let below = self.tables(name)?;
        below.check_keys(S::NAMES)?;
        S::read(&below, rows)
    }

    /// The tables in this table whose names the user chooses.
    pub(crate) fn named<K, S>(&self, name: &'a str, rows: &mut Vec<Row>) -> Result<BTreeMap<Parsed<K>, S>>
    where
        K: FromStr<Err: fmt::Display> + Ord,
        S: Section,
    {
        let (below, mut all) = (self.tables(name)?, BTreeMap::new());
        for (name, node) in below.tables.iter().flat_map(|table| table.entries()) {
            let label = name.parse::<Parsed<K>>();
            let label = label.map_err(|error| anyhow!("{}: `{}`: {error}", node.origin, below.key(name)))?;
            if let Entry::Vacant(place) = all.entry(label) {
                place.insert(below.section(name, rows)?);
            }
        }
        Ok(all)
    }

    /// What each source has under a name, which must be a table.
    fn tables(&self, name: &'a str) -> Result<Self> {
        let tables: Vec<&Node> = self.nodes(name).collect();
        for node in &tables {
            if let Value::Typed(value) = &node.value {
                let (key, found) = (self.key(name), found(value));
                bail!("{}: `{key}` must be a table, written as [{key}], not {found}", node.origin);
            }
        }
        Ok(Self { path: self.path.iter().copied().chain([name]).collect(), tables })
    }

    /// What each source has under a name.
    fn nodes(&self, name: &str) -> impl Iterator<Item = &'a Node> {
        self.tables.iter().filter_map(move |table| table.get(name))
    }

    fn refusal<T: Setting>(&self, name: &str, node: &Node, value: &Json, wrong: Wrong) -> anyhow::Error {
        let (key, origin) = (self.key(name), &node.origin);
        match wrong {
            Wrong::Because(reason) => anyhow!("{origin}: `{key}`: {}", printable(&reason)),
            Wrong::Form if SECRET.contains(&name) => anyhow!("{origin}: `{key}` must be {}", T::expected()),
            Wrong::Form => anyhow!("{origin}: `{key}` must be {}, not {}", T::expected(), found(value)),
        }
    }

    /// The beginning of the full name of a key.
    fn key(&self, name: &str) -> String {
        quoted(&key(&self.path.iter().copied().chain([name]).collect::<Vec<_>>()))
    }
}

/// The text of a variable or an option as a file would have it: a text, a number or a list.
fn typed<T: Setting>(text: &str) -> Json {
    let number = serde_json::from_str(text).ok().filter(Json::is_number);
    let list = text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Json::from).collect();
    let mut forms = [Some(Json::from(text)), number, Some(list)].into_iter().flatten();
    forms.find(|form| !matches!(T::read(form), Err(Wrong::Form))).unwrap_or_else(|| text.into())
}

/// `a`, `b` or `c`
pub(crate) fn alternatives(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.join(""),
    }
}

/// A value that somebody wrote. A text with an `@` may hold a password.
fn found(value: &Json) -> String {
    match value {
        Json::String(text) if text.contains('@') => "this text".to_owned(),
        Json::String(text) => format!("`{}`", quoted(text)),
        Json::Null => "a number that is too large".to_owned(),
        Json::Object(_) => "a table".to_owned(),
        other => quoted(&other.to_string()),
    }
}

/// The beginning of a text that somebody wrote, for a message.
pub(crate) fn quoted(text: &str) -> String {
    printable_start(text, MAX_SHOWN)
}
