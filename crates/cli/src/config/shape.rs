//! The shape of the configuration, from the schema of its types.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::settings::Settings;

/// What a key stands for.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) form: Form,
    /// What it is for.
    pub(crate) text: String,
    /// Only the user may set it.
    pub(crate) user_only: bool,
    /// What counts when nobody sets it.
    pub(crate) default: Option<Value>,
}

/// What is below a key.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// Keys that are known.
    Section(Vec<(String, Entry)>),
    /// Names that the user chooses, each with the same below it.
    Named(Box<Entry>),
    /// A value.
    Value(Kind),
}

/// What a value must be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Text,
    Texts,
    /// A whole number, of this or more.
    Whole(u64),
    /// A number, of zero or more.
    Number,
    OneOf(Vec<String>),
}

impl Kind {
    /// What to write.
    pub(crate) fn expected(&self) -> String {
        match self {
            Self::Text => "a text in quotes".to_owned(),
            Self::Texts => "a list of texts, such as [\"a\", \"b\"]".to_owned(),
            Self::Whole(least) => format!("a whole number of {least} or more"),
            Self::Number => "a number of 0 or more".to_owned(),
            Self::OneOf(words) => alternatives(words.iter().map(String::as_str)),
        }
    }
}

/// `a, b or c`
pub(crate) fn alternatives<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.join(""),
    }
}

/// The whole configuration, but for rules and hooks.
pub(crate) fn whole() -> &'static Entry {
    static WHOLE: LazyLock<Entry> = LazyLock::new(|| {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let schema = settings.into_generator().into_root_schema_for::<Settings>();
        schema.as_object().map_or_else(|| entry(&Map::new(), false), |schema| entry(schema, false))
    });
    &WHOLE
}

fn entry(schema: &Map<String, Value>, user_only: bool) -> Entry {
    let user_only = user_only || schema.get("x-user-only").is_some();
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    Entry {
        form: form(schema, user_only),
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        user_only,
        default: schema.get("default").filter(|value| !value.is_null()).cloned(),
    }
}

fn form(schema: &Map<String, Value>, user_only: bool) -> Form {
    let below = |value: &Value| value.as_object().map(|schema| entry(schema, user_only));
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let entries = properties.iter().filter_map(|(key, value)| Some((key.clone(), below(value)?)));
        return Form::Section(entries.collect());
    }
    if let Some(each) = schema.get("additionalProperties").and_then(below) {
        return Form::Named(Box::new(each));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words = words.iter().filter_map(Value::as_str).map(ToOwned::to_owned);
        return Form::Value(Kind::OneOf(words.collect()));
    }
    let types = schema.get("type");
    let is = |name: &str| match types {
        Some(Value::String(word)) => word == name,
        Some(Value::Array(words)) => words.iter().any(|word| word == name),
        _ => false,
    };
    Form::Value(if is("array") {
        Kind::Texts
    } else if is("integer") {
        Kind::Whole(schema.get("minimum").and_then(Value::as_u64).unwrap_or(0))
    } else if is("number") {
        Kind::Number
    } else {
        Kind::Text
    })
}

impl Entry {
    /// The entry for `path`, names included.
    pub(crate) fn at(&self, path: &[String]) -> Option<&Self> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        match &self.form {
            Form::Section(entries) => {
                entries.iter().find(|(key, _)| key == first).and_then(|(_, entry)| entry.at(rest))
            }
            Form::Named(each) => each.at(rest),
            Form::Value(_) => None,
        }
    }

    /// The keys below it.
    pub(crate) fn keys(&self) -> Vec<&str> {
        match &self.form {
            Form::Section(entries) => entries.iter().map(|(key, _)| key.as_str()).collect(),
            Form::Named(_) | Form::Value(_) => Vec::new(),
        }
    }

    /// Every value below it without names of the user's choice, with its path.
    pub(crate) fn values(&self) -> Vec<(Vec<String>, &Self, &Kind)> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect<'a>(&'a self, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, &'a Self, &'a Kind)>) {
        match &self.form {
            Form::Section(entries) => {
                for (key, entry) in entries {
                    path.push(key.clone());
                    entry.collect(path, found);
                    path.pop();
                }
            }
            Form::Named(_) => {}
            Form::Value(kind) => found.push((path.clone(), self, kind)),
        }
    }
}
