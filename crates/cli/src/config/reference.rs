//! The reference, from the types.

use std::fmt::Write as _;

use serde_json::Value;

use super::environment::variable;
use super::shape::{self, Entry, Form, Kind};

/// The reference of all keys, as Markdown.
pub(crate) fn reference() -> String {
    let mut page = String::new();
    if let Form::Section(sections) = &shape::whole().form {
        for (name, entry) in sections {
            section(name, entry, &mut page);
        }
    }
    page.push_str(OTHERS);
    page
}

const OTHERS: &str = "\
## `[permission]` and `[agent.NAME.permission]`

What is allowed, asked about and denied, for everybody and for one agent; the agent of `prowess chat` is called `chat`.
See [permissions](permissions.md). A project's rules stand after yours.

## `[hooks]`

Commands, texts and agents that have a say when something happens: see [hooks](hooks.md). `[[hooks.PreToolUse]]` begins a
group. A project's hooks come after yours.
";

fn section(name: &str, entry: &Entry, page: &mut String) {
    let (heading, values, variables) = match &entry.form {
        Form::Named(each) => (format!("{name}.NAME"), &each.form, name == "provider"),
        form => (name.to_owned(), form, true),
    };
    // Writing to a text cannot fail.
    let _ = writeln!(page, "## `[{heading}]`\n\n{}", entry.text);
    if entry.user_only {
        let _ = writeln!(page, "\nOnly in your own file.");
    }
    let _ = writeln!(page, "\n| key | takes | default | |\n|---|---|---|---|");
    let Form::Section(entries) = values else { return };
    for (key, value) in entries {
        let Form::Value(kind) = &value.form else { continue };
        let default =
            value.default.as_ref().map_or_else(String::new, |value| format!("`{}`", written(value)));
        let mut text = value.text.replace('|', "\\|");
        if value.user_only && !entry.user_only {
            text.push_str(" Only in your own file.");
        }
        let _ = writeln!(page, "| `{key}` | {} | {default} | {text} |", takes(kind));
    }
    if variables && let Some((key, _)) = entries.first() {
        let path: Vec<String> = heading.split('.').chain([key.as_str()]).map(ToOwned::to_owned).collect();
        let _ = writeln!(page, "\nIn the environment: `{}` and so on.", variable(&path));
    }
    page.push('\n');
}

fn takes(kind: &Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Texts => "list of texts".to_owned(),
        Kind::Whole(_) => "whole number".to_owned(),
        Kind::Number => "number".to_owned(),
        Kind::OneOf(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
    }
}

/// A value as one writes it in a file.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(written).collect::<Vec<_>>().join(", ")),
        value => value.to_string(),
    }
}
