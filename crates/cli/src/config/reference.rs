//! The reference of all keys, from the types of the settings.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::artifacts::ArtifactSettings;
use super::environment::variable;
use super::limits::LimitSettings;
use super::mcp::McpSettings;
use super::model::ModelSettings;
use super::price::PriceSettings;
use super::provider::ProviderSettings;
use super::read::{Key, Section, SetBy};
use super::sandbox::SandboxSettings;
use super::settings::TABLES;
use super::skills::SkillSettings;
use super::telemetry::TelemetrySettings;

/// A table: its name, with `.NAME` if the user chooses names below it, its doc comment and its keys.
type Table = (&'static str, &'static [&'static str], Vec<Key>);

pub(super) fn tables() -> [Table; TABLES.len()] {
    fn table<S: Section>(heading: &'static str) -> Table {
        (heading, S::ABOUT, S::keys())
    }
    [
        table::<ModelSettings>("model"),
        table::<ProviderSettings>("provider.NAME"),
        table::<SkillSettings>("skills"),
        table::<SandboxSettings>("sandbox"),
        table::<ArtifactSettings>("artifacts"),
        table::<LimitSettings>("limits"),
        table::<McpSettings>("mcp.NAME"),
        table::<PriceSettings>("price.NAME"),
        table::<TelemetrySettings>("telemetry"),
    ]
}

/// The paths of all keys, except in tables whose names the user chooses, with their defaults.
pub(super) fn keys() -> impl Iterator<Item = ([&'static str; 2], Option<Json>)> {
    let plain = tables().into_iter().filter(|(heading, ..)| !heading.contains('.'));
    plain.flat_map(|(table, _, keys)| keys.into_iter().map(move |key| ([table, key.name], key.default)))
}

/// The reference of all keys, as Markdown.
pub(crate) fn reference() -> String {
    tables().into_iter().map(section).collect::<String>() + OTHERS
}

const OTHERS: &str = "\
## `[permission]` and `[agent.NAME.permission]`

The rules that allow, ask or deny, for all agents and for one agent. The agent of `prowess chat` is called `chat`. See
[permissions](permissions.md). A project's rules come after yours.

## `[hooks]`

Commands, texts and agents that prowess calls when something happens. See [hooks](hooks.md). `[[hooks.PreToolUse]]`
begins a group. A project's hooks come after yours.
";

fn section((heading, about, keys): Table) -> String {
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
        let value = key.expected.split(", such as").next().unwrap_or_default();
        let default = key.default.as_ref().map_or_else(String::new, |value| format!("`{}`", written(value)));
        // Writing to a text cannot fail.
        let _ = writeln!(page, "| `{}` | {value} | {default} | {text} |", key.name);
    }
    let has_variables = !heading.contains('.') || heading.starts_with("provider");
    if let Some(key) = keys.first().filter(|_| has_variables) {
        let path: Vec<&str> = heading.split('.').chain([key.name]).collect();
        let _ = writeln!(page, "\nEnvironment variables: `{}` and so on.", variable(&path));
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
