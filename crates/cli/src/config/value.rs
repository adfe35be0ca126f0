//! The values of one source, each with its origin.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value as Json};
use toml::de::{DeTable, DeValue};

/// The values of one source by their paths, such as `["model", "name"]`. A table is an empty object at its own path.
pub(crate) type Values = BTreeMap<Vec<String>, Value>;

/// A value and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) json: Json,
    pub(crate) origin: Origin,
    /// The name under which the source has it, if the key was renamed.
    pub(crate) old_name: Option<&'static str>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Built in.
    Default,
    /// A line of the user's file.
    User(PathBuf, usize),
    /// A line of the project's file.
    Project(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// An option of the command.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(path, line) | Self::Project(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A path of keys as it is written in a file: `provider.local.api`.
pub(crate) fn key<S: AsRef<str>>(path: &[S]) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let parts = path.iter().map(|part| match part.as_ref() {
        part if !part.is_empty() && part.bytes().all(is_bare) => part.to_owned(),
        part => format!("{part:?}"),
    });
    parts.collect::<Vec<_>>().join(".")
}

/// The path of another key in the same table.
pub(crate) fn with_name(path: &[String], name: &str) -> Vec<String> {
    path.iter().take(path.len() - 1).cloned().chain([name.to_owned()]).collect()
}

/// Puts a value and the tables around it into `values`.
pub(crate) fn put(values: &mut Values, path: &[&str], json: Json, origin: &Origin) {
    let path: Vec<String> = path.iter().map(ToString::to_string).collect();
    let value = |json| Value { json, origin: origin.clone(), old_name: None };
    for length in 1..path.len() {
        values.entry(path[..length].to_vec()).or_insert_with(|| value(Json::Object(Map::new())));
    }
    values.insert(path, value(json));
}

/// Puts the table of a file at `path` into `values`. `origin` gives the origin of the value at an offset.
pub(crate) fn put_table(
    values: &mut Values,
    path: &[&str],
    table: &DeTable<'_>,
    origin: &impl Fn(usize) -> Origin,
) {
    for (name, value) in table {
        let path = [path, &[name.get_ref()]].concat();
        match value.get_ref() {
            // No key has more than three parts.
            DeValue::Table(below) if path.len() < 3 => {
                put(values, &path, Json::Object(Map::new()), &origin(name.span().start));
                put_table(values, &path, below, origin);
            }
            value => put(values, &path, json(value), &origin(name.span().start)),
        }
    }
}

/// A value of TOML as JSON. A number that is too large is null.
pub(crate) fn json(value: &DeValue<'_>) -> Json {
    match value {
        DeValue::String(text) => Json::String(text.to_string()),
        DeValue::Boolean(flag) => Json::Bool(*flag),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            i64::from_str_radix(&digits, number.radix()).map_or(Json::Null, Json::from)
        }
        DeValue::Float(number) => {
            number.as_str().replace('_', "").parse::<f64>().map_or(Json::Null, Json::from)
        }
        DeValue::Datetime(time) => Json::String(time.to_string()),
        DeValue::Array(list) => list.iter().map(|value| json(value.get_ref())).collect(),
        DeValue::Table(table) => {
            table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref()))).collect()
        }
    }
}
