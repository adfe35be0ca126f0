//! The configuration: built-in values, the user's file, the project's file, environment variables and options. Each
//! overrides those before it, key by key.
//!
//! Each source becomes a [tree] of values with their origins. [`read`] makes the [`Settings`] of them, and each type of
//! a value checks itself ([`setting`]). One file holds the keys of one table: those of `[model]` are in `model.rs`.

mod artifacts;
mod document;
mod environment;
mod limits;
mod mcp;
mod model;
mod origin;
mod permission;
mod price;
mod provider;
mod read;
mod reference;
mod renamed;
mod sandbox;
mod setting;
mod settings;
mod skills;
mod source;
mod telemetry;
mod tree;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use prowess_agent::Prices;
use prowess_agent::middleware::HookSet;
use prowess_catalog::Environment;
use prowess_permission::{Policy, RuleSource};
use serde_json::{Map, Value};

pub(crate) use self::artifacts::ScopeWord;
use self::document::{Document, Rules};
pub(crate) use self::environment::{Flag, MCP_TOKEN};
pub(crate) use self::mcp::McpSettings;
pub(crate) use self::model::{ModelName, ModelSettings};
pub(crate) use self::origin::{Origin, key};
pub(crate) use self::permission::{guards, path_base};
pub(crate) use self::provider::{Api, OutputLimitWord, ProviderSettings, ThinkingWord};
pub(crate) use self::read::Row;
pub(crate) use self::reference::{reference, written};
pub(crate) use self::sandbox::{ExecutorWord, SandboxSettings};
pub(crate) use self::setting::Amount;
pub(crate) use self::settings::Settings;
pub(crate) use self::skills::{Inherited, SkillSettings};
pub(crate) use self::source::{FILE_NAME, OfProject, Source, user_path};
use crate::terminal::printable;
use crate::workspace_dir::WorkspaceDir;

/// The tables that are not settings.
const OTHER_TABLES: [&str; 3] = ["permission", "agent", "hooks"];

/// All settings, with the origin of each.
pub(crate) struct Config {
    pub(crate) settings: Settings,
    /// Every key, with its value and its origin.
    pub(crate) rows: Vec<Row>,
    user: Option<Rules>,
    project: Option<Rules>,
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
        let (of_project, counts) = match project {
            OfProject::Nothing => (None, false),
            OfProject::Whole(source) => (Some(source), true),
            OfProject::Restrictions(source) => (Some(source), false),
        };
        let user = user.map(Document::parse).transpose()?;
        let project = of_project.map(Document::parse).transpose()?;
        let mut sources = vec![settings::built_in()];
        let mut notices = Vec::new();
        for document in user.iter().chain(project.as_ref().filter(|_| counts)) {
            sources.push(document.settings.clone());
            notices.extend(document.notices.iter().cloned());
        }
        for mut source in [environment::values(variables)?, environment::flags(flags)] {
            renamed::rename(&mut source, &mut notices);
            sources.push(source);
        }
        let mut rows = Vec::new();
        let settings = Settings::read(&sources, &mut rows)?;
        let user = user.map(|document| document.rules(true)).transpose()?;
        let mut project = project.map(|document| document.rules(true)).transpose()?;
        project.iter_mut().filter(|_| !counts).for_each(Rules::restrict);
        Ok(Self { settings, rows, user, project, notices })
    }

    /// What models cost.
    pub(crate) fn prices(&self) -> Result<Prices> {
        self.settings.prices()
    }

    /// The rules for an agent. `workspace_dir` says where its files are.
    pub(crate) fn policy(&self, agent: &str, workspace_dir: &WorkspaceDir) -> Policy {
        let mut policy = Policy::new().rules(RuleSource::Defaults, guards(workspace_dir));
        for (source, rules) in [(RuleSource::User, &self.user), (RuleSource::Project, &self.project)] {
            let Some(Rules { permissions: config, .. }) = rules else { continue };
            policy = policy.rules(source, config.rules.iter().cloned());
            policy = policy.rules(RuleSource::Agent, config.agents.get(agent).cloned().unwrap_or_default());
        }
        policy
    }

    /// The number of rules in all files, for all agents and for single ones.
    pub(crate) fn rules(&self) -> usize {
        let count = |rules: &Rules| {
            rules.permissions.rules.len() + rules.permissions.agents.values().map(Vec::len).sum::<usize>()
        };
        self.files().map(count).sum()
    }

    /// The hooks: the user's, then the project's.
    pub(crate) fn hooks(&self) -> Result<HookSet> {
        let mut events: Map<String, Value> = Map::new();
        let tables = self.files().filter_map(|rules| rules.hooks.as_ref()?.as_object());
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
        self.files()
            .flat_map(|rules| &rules.permissions.warnings)
            .map(|warning| printable(&warning.to_string()))
    }

    fn files(&self) -> impl Iterator<Item = &Rules> {
        [&self.user, &self.project].into_iter().flatten()
    }
}

/// Whether a file can be used, before anybody trusts it.
pub(crate) fn check(source: &Source) -> Result<()> {
    let document = Document::parse(source)?;
    Settings::read(&[settings::built_in(), document.settings.clone()], &mut Vec::new())?;
    document.rules(false).map(drop)
}

/// A URL without what stands before its host or after a `?`.
pub(crate) fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host =
        authority.rsplit_once('@').map_or_else(|| authority.to_owned(), |(_, host)| format!("…@{host}"));
    let path = path.split_once(['?', '#']).map_or_else(|| path.to_owned(), |(path, _)| format!("{path}?…"));
    format!("{scheme}://{host}{path}")
}

/// The user's home directory.
pub(crate) fn home() -> Option<PathBuf> {
    Environment::of_process().ok()?.home
}

#[cfg(test)]
mod tests;
