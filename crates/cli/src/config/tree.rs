//! The values of one source, each with its origin.

use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

use super::origin::Origin;

/// A value and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Table(Vec<(String, Node)>),
    /// A value of a file.
    Typed(Json),
    /// Text from a variable or an option. It becomes a number or a list if the key takes one.
    Text(String),
}

impl Node {
    /// A table of a file. `origin` gives the origin of the value at an offset.
    pub(crate) fn from_toml(table: &DeTable<'_>, at: usize, origin: &impl Fn(usize) -> Origin) -> Self {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let entries = entries.into_iter().map(|(name, value)| {
            let at = name.span().start;
            let node = match value.get_ref() {
                DeValue::Table(table) => Self::from_toml(table, at, origin),
                value => Self { value: Value::Typed(json(value)), origin: origin(at) },
            };
            (name.get_ref().to_string(), node)
        });
        Self { value: Value::Table(entries.collect()), origin: origin(at) }
    }

    /// A table without keys.
    pub(crate) fn empty() -> Self {
        Self { value: Value::Table(Vec::new()), origin: Origin::Default }
    }

    /// The entries, if this is a table.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &(String, Self)> {
        if let Value::Table(entries) = &self.value { entries.as_slice() } else { &[] }.iter()
    }

    /// The entries to change, if this is a table.
    pub(crate) fn entries_mut(&mut self) -> Option<&mut Vec<(String, Self)>> {
        if let Value::Table(entries) = &mut self.value { Some(entries) } else { None }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// Puts a value at a path of keys.
    pub(crate) fn put<S: AsRef<str>>(&mut self, path: &[S], value: Value, origin: &Origin) {
        let Some((first, rest)) = path.split_first() else {
            (self.value, self.origin) = (value, origin.clone());
            return;
        };
        let Some(entries) = self.entries_mut() else { return };
        let found = entries.iter().position(|(name, _)| name == first.as_ref());
        let index = found.unwrap_or_else(|| {
            entries.push((first.as_ref().to_owned(), Self { origin: origin.clone(), ..Self::empty() }));
            entries.len() - 1
        });
        entries[index].1.put(rest, value, origin);
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
            let pairs = table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())));
            Json::Object(pairs.collect())
        }
    }
}
