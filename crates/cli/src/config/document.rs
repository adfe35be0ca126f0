//! One configuration file: its settings, its rules and its hooks.

use anyhow::{Result, anyhow};
use prowess_agent::middleware::HookSet;
use prowess_permission::{Decision, PermissionConfig};
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::agent::AgentSettings;
use super::source::{Owner, Source};
use super::value::{Origin, Values, json, put_table};
use super::{OTHER_TABLES, permission};
use crate::terminal::printable;

/// The settings of a file, not yet checked.
pub(crate) fn settings(source: &Source) -> Result<Values> {
    let (mut table, origin) = parse(source)?;
    let mut values = Values::new();
    OTHER_TABLES.iter().for_each(|name| drop(table.remove(*name)));
    put_table(&mut values, &[], &table, &origin);
    remove_rules_of_agents(&mut values);
    Ok(values)
}

/// Leaves the definitions of sub-agents in `[agent.NAME]`. Whoever reads the rules checks the other keys.
fn remove_rules_of_agents(values: &mut Values) {
    let is_of_agent = |path: &[String]| path.first().is_some_and(|table| table == "agent");
    values.retain(|path, _| {
        !is_of_agent(path) || path.get(2).is_none_or(|key| AgentSettings::KEYS.contains(&key.as_str()))
    });
    // An agent that has only rules is not defined here.
    for length in [2, 1] {
        let tables = values
            .iter()
            .filter(|(path, value)| is_of_agent(path) && path.len() == length && value.json.is_object());
        let has_keys = |path: &Vec<String>| {
            values.keys().any(|other| other.len() > path.len() && other.starts_with(path))
        };
        let empty: Vec<Vec<String>> =
            tables.map(|(path, _)| path.clone()).filter(|path| !has_keys(path)).collect();
        empty.iter().for_each(|path| drop(values.remove(path)));
    }
}

/// The rules and hooks of a file. Unless the file is trusted, this looks up no paths.
pub(crate) fn rules(source: &Source, trusted: bool) -> Result<Rules> {
    let (table, origin) = parse(source)?;
    let hooks = table.get("hooks").map(|table| hooks(table, &origin)).transpose()?;
    Ok(Rules { hooks, permissions: permission::rules(source, trusted)? })
}

/// The tables of a file, and the origin of the value at an offset.
fn parse(source: &Source) -> Result<(DeTable<'_>, impl Fn(usize) -> Origin)> {
    let text = source.text()?;
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let origin = move |at: usize| {
        let line = ends.partition_point(|end| *end < at) + 1;
        match source.owner {
            Owner::User => Origin::User(source.path.clone(), line),
            Owner::Project => Origin::Project(source.path.clone(), line),
        }
    };
    match DeTable::parse(text) {
        Ok(table) => Ok((table.into_inner(), origin)),
        Err(error) => {
            let place = origin(error.span().map_or(0, |span| span.start));
            Err(anyhow!("{place}: {}", printable(error.message())))
        }
    }
}

/// The rules and hooks of a file.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) permissions: PermissionConfig,
    /// The hooks as they are written; they can be read.
    pub(crate) hooks: Option<Value>,
}

impl Rules {
    /// Whether there is neither a rule nor a hook.
    pub(crate) fn is_empty(&self) -> bool {
        let mut rules = self.permissions.agents.values().chain([&self.permissions.rules]);
        rules.all(Vec::is_empty) && self.hooks.is_none()
    }

    /// Without the rules that allow something.
    pub(crate) fn restricted(mut self) -> Self {
        self.permissions.warnings.clear();
        let agents = self.permissions.agents.values_mut();
        for rules in agents.chain([&mut self.permissions.rules]) {
            rules.retain(|rule| rule.decision != Decision::Allow);
        }
        self
    }
}

/// The hooks in a table, as JSON, if they can be read.
fn hooks(table: &Spanned<DeValue<'_>>, origin: &impl Fn(usize) -> Origin) -> Result<Value> {
    let hooks = json(table.get_ref());
    match HookSet::parse(&hooks) {
        Ok(_) => Ok(hooks),
        Err(error) => {
            let place = if error.place == "hooks" { String::new() } else { format!(".{}", error.place) };
            let origin = origin(offset_of(table, &error.place));
            Err(anyhow!("{origin}: `hooks{}`: {}", printable(&place), error.problem))
        }
    }
}

/// The offset of something like `PreToolUse[0].hooks[1]`, as near as it is known.
fn offset_of(table: &Spanned<DeValue<'_>>, place: &str) -> usize {
    let (mut at, mut value) = (table.span().start, table.get_ref());
    for step in place.split(['.', '[']).map(|step| step.trim_end_matches(']')) {
        let found = match value {
            DeValue::Table(table) => table.get_key_value(step).map(|(key, value)| (key.span().start, value)),
            DeValue::Array(list) => {
                let item = step.parse().ok().and_then(|index: usize| list.get(index));
                item.map(|value| (value.span().start, value))
            }
            _ => None,
        };
        let Some((start, below)) = found else { break };
        (at, value) = (start, below.get_ref());
    }
    at
}
