//! The configuration: built-in values, the user's file, the project's file, environment variables and options. Each
//! overrides those before it, key by key.
//!
//! Each source becomes a map of [values](value) with their origins. [`read`] makes the [`Settings`] of them, and each type of
//! a value checks itself ([`setting`]). One file holds the keys of one table: those of `[model]` are in `model.rs`.

mod agent;
mod alias;
mod artifacts;
mod compaction;
mod document;
mod environment;
mod limits;
mod mcp;
mod memory;
mod model;
mod narrowed;
mod overview;
mod permission;
mod price;
mod provider;
mod read;
mod reference;
mod renamed;
mod run;
mod sandbox;
mod search;
mod serve;
mod setting;
mod settings;
mod skill_modes;
mod skills;
mod source;
mod telemetry;
mod value;
mod web_source;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use prowess_agent::middleware::{AgentName, HookSet};
use prowess_permission::{Policy, Rule, RuleSource};
use serde_json::{Map, Value};

pub(crate) use self::agent::SubAgentName;
pub(crate) use self::alias::is_family;
pub(crate) use self::artifacts::ScopeWord;
use self::document::Rules;
pub(crate) use self::environment::{Flag, MCP_TOKEN};
pub(crate) use self::mcp::McpSettings;
pub(crate) use self::memory::{AGENTS, MemoryPath, MemorySettings};
pub(crate) use self::model::{ModelName, ModelSettings};
pub(crate) use self::overview::LEAST_OVERVIEW;
pub(crate) use self::permission::{guards, path_base};
pub(crate) use self::provider::{Api, ProviderSettings};
pub(crate) use self::read::Row;
pub(crate) use self::reference::{reference, written};
pub(crate) use self::sandbox::{ExecutorWord, SandboxSettings};
pub(crate) use self::search::EmbeddingModel;
pub(crate) use self::serve::OidcSettings;
#[cfg(feature = "oidc")]
pub(crate) use self::serve::OidcUsers;
pub(crate) use self::setting::{Amount, CommandLine};
pub(crate) use self::settings::Settings;
pub(crate) use self::skill_modes::NO_KIT;
pub(crate) use self::skills::{Inherited, SkillSettings};
pub(crate) use self::source::{FILE_NAME, OfProject, Source, user_path};
pub(crate) use self::telemetry::TelemetrySettings;
pub(crate) use self::value::{Origin, key};
pub(crate) use self::web_source::SourceSettings;
use crate::terminal::printable;
use crate::workspace_dir::WorkspaceDir;

/// The tables that are not settings.
const OTHER_TABLES: [&str; 2] = ["permission", "hooks"];

/// Every key, such as `model.name`.
#[cfg(test)]
pub(crate) fn keys() -> Vec<String> {
    let keys = settings::tables().into_iter().flat_map(|table| {
        let name = table.name();
        table.keys.into_iter().map(move |key| format!("{name}.{}", key.name))
    });
    keys.collect()
}

/// All settings, with the origin of each.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) settings: Settings,
    /// Every key, with its value and its origin.
    pub(crate) rows: Vec<Row>,
    /// The rules and hooks of the user's file, then of the project's.
    files: Vec<(RuleSource, Rules)>,
    notices: Vec<String>,
}

impl Config {
    /// Loads the configuration and prints notices about it, each once per process. `project` says how much of the
    /// project's file counts.
    pub(crate) fn load(project: &OfProject, flags: &[Flag]) -> Result<Self> {
        static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let config = Self::load_silently(project, flags)?;
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        for notice in &config.notices {
            if !crate::complete::is_asked() && told.insert(notice.clone()) {
                // Nobody can be told about an error stream that is closed.
                let _ = writeln!(anstream::stderr(), "notice: {notice}");
            }
        }
        Ok(config)
    }

    /// Loads the configuration and prints nothing.
    pub(crate) fn load_silently(project: &OfProject, flags: &[Flag]) -> Result<Self> {
        Self::from_sources(Source::of_user()?.as_ref(), project, environment::variables()?, flags)
    }

    fn from_sources(
        user: Option<&Source>,
        project: &OfProject,
        variables: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
    ) -> Result<Self> {
        let mut files: Vec<_> = user.map(|source| (RuleSource::User, source, true)).into_iter().collect();
        files.extend(match project {
            OfProject::Nothing => None,
            OfProject::Whole(source) => Some((RuleSource::Project, source, true)),
            OfProject::Restrictions(source) => Some((RuleSource::Project, source, false)),
        });
        let counting = files.iter().filter(|(.., counts)| *counts);
        let mut sources =
            counting.map(|(_, source, _)| document::settings(source)).collect::<Result<Vec<_>>>()?;
        let (values, mut notices) = environment::values(variables)?;
        sources.extend([values, environment::flags(flags)]);
        let (settings, rows, mut renamed) = Settings::read(sources)?;
        notices.append(&mut renamed);
        let rules = files.into_iter().map(|(kind, source, counts)| {
            let rules = document::rules(source, true)?;
            Ok((kind, if counts { rules } else { rules.restricted() }))
        });
        Ok(Self { settings, rows, files: rules.collect::<Result<_>>()?, notices })
    }

    /// The rules for an agent. `workspace_dir` says where its files are.
    pub(crate) fn policy(&self, agent: &str, workspace_dir: &WorkspaceDir) -> Policy {
        let mut policy = Policy::new().rules(RuleSource::Defaults, guards(workspace_dir));
        for (source, Rules { permissions: config, .. }) in &self.files {
            policy = policy.rules(*source, config.rules.iter().cloned());
            policy = policy.rules(RuleSource::Agent, config.agents.get(agent).cloned().unwrap_or_default());
        }
        policy
    }

    /// The rules for one agent in all files, the user's first. A name counts in every spelling that a definition can have.
    pub(crate) fn rules_of(&self, agent: &str) -> Vec<Rule> {
        let all = self.files.iter().flat_map(|(_, rules)| &rules.permissions.agents);
        let is_same = |name: &str| match name.parse::<AgentName>() {
            Ok(name) => name.as_str() == agent,
            Err(_) => name.eq_ignore_ascii_case(agent),
        };
        let own = all.filter(|(name, _)| is_same(name));
        own.flat_map(|(_, rules)| rules.iter().cloned()).collect()
    }

    /// The number of rules in all files, for all agents and for single ones.
    pub(crate) fn rules(&self) -> usize {
        let config = self.files.iter().map(|(_, rules)| &rules.permissions);
        config.flat_map(|config| config.agents.values().chain([&config.rules])).map(Vec::len).sum()
    }

    /// The hooks: the user's, then the project's.
    pub(crate) fn hooks(&self) -> Result<HookSet> {
        let mut events: Map<String, Value> = Map::new();
        let tables = self.files.iter().filter_map(|(_, rules)| rules.hooks.as_ref()?.as_object());
        for (event, groups) in tables.flatten() {
            let all = events.entry(event.clone()).or_insert_with(|| Value::Array(Vec::new()));
            if let (Value::Array(all), Value::Array(groups)) = (all, groups) {
                all.extend(groups.iter().cloned());
            }
        }
        HookSet::parse(&Value::Object(events))
            .map_err(|error| anyhow!("hooks: {}", printable(&error.to_string())))
    }

    /// Probable mistakes in the rules of the files.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let warnings = self.files.iter().flat_map(|(_, rules)| &rules.permissions.warnings);
        warnings.map(|warning| printable(&warning.to_string()))
    }
}

/// Whether a file has hooks, or rules that deny or ask.
pub(crate) fn restricts(source: &Source) -> bool {
    document::rules(source, false).is_ok_and(|rules| !rules.restricted().is_empty())
}

/// Whether a file can be used, before anybody trusts it.
pub(crate) fn check(source: &Source) -> Result<()> {
    Settings::read(vec![document::settings(source)?])?;
    document::rules(source, false).map(drop)
}

#[cfg(test)]
mod tests;
