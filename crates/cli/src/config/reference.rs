//! The reference of all keys, from the types of the settings.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::environment::variable;
use super::read::{Chosen, SetBy, Table};
use super::settings::tables;

/// The reference of all keys, as Markdown.
pub(crate) fn reference() -> String {
    // A table that has nothing but tables needs no section.
    tables().into_iter().filter(|table| !table.keys.is_empty()).map(section).collect::<String>() + OTHERS
}

const OTHERS: &str = "\
## `[permission]` and `[agent.NAME.permission]`

The rules that allow, ask or deny, for all agents and for one agent. The agent of `prowess chat` is called `chat`. See
[permissions](permissions.md). A project's rules come after yours.

## `[hooks]`

Commands, texts and agents that prowess calls when something happens. See [hooks](hooks.md). `[[hooks.PreToolUse]]`
begins a group. A project's hooks come after yours.
";

fn section(table: Table) -> String {
    let name = table.name();
    let Table { chosen, about, keys, .. } = table;
    let heading = if chosen == Chosen::Tables { format!("{name}.NAME") } else { name.clone() };
    let is_users = keys.iter().all(|key| key.by == SetBy::User);
    let mut page = format!("## `[{heading}]`\n\n{}\n", joined(about));
    if is_users {
        page.push_str("\nA project's file cannot set this table.\n");
    }
    page.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
    for key in &keys {
        let mut text = joined(key.text);
        if !is_users && key.by == SetBy::User {
            text.push_str(" A project's file cannot set it.");
        }
        if key.by == SetBy::Narrow {
            text.push_str(" A project's file can only narrow it.");
        }
        let value = key.expected.split(", such as").next().unwrap_or_default();
        let default = key.default.as_ref().map_or_else(String::new, |value| format!("`{}`", written(value)));
        // Writing to a text cannot fail.
        let _ = writeln!(page, "| `{}` | {value} | {default} | {text} |", key.name);
    }
    if chosen == Chosen::Nothing || name == "provider" {
        let key = format!("{heading}.{}", keys[0].name);
        let variable = variable(&key);
        let _ = match keys.len() {
            1 => writeln!(page, "\nEnvironment variable: `{variable}`."),
            _ => writeln!(page, "\nEnvironment variables: `{variable}` and so on."),
        };
    }
    page + "\n"
}

fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// A value as it is written in a file.
pub(crate) fn written(value: &Json) -> String {
    match value {
        Json::Array(list) => format!("[{}]", list.iter().map(written).collect::<Vec<_>>().join(", ")),
        value => value.to_string(),
    }
}
