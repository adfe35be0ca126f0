//! The configuration: defaults, the user's file, the project's, the environment and options, each over those before it.

mod check;
mod document;
mod environment;
mod guards;
mod origin;
mod reference;
mod secret;
mod settings;
mod shape;
mod source;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use prowess_agent::Prices;
use prowess_agent::cost::{ModelPrice, Price};
use prowess_agent::middleware::HookSet;
use prowess_catalog::Environment;
use prowess_models::{ANTHROPIC_BASE_URL, OPENAI_BASE_URL};
use prowess_permission::{PathBase, Policy, RuleSource};
use serde_json::{Map, Value};

use self::document::{Document, Leaf};
pub(crate) use self::environment::{Flag, MCP_TOKEN};
pub(crate) use self::guards::guards;
pub(crate) use self::origin::{Origin, key};
pub(crate) use self::reference::{reference, written};
pub(crate) use self::settings::{
    Api, ExecutorWord, InheritedWord, McpSettings, ModelName, ModelSettings, OutputLimitWord,
    ProviderSettings, SandboxSettings, ScopeWord, Settings, SkillSettings, ThinkingWord,
};
pub(crate) use self::source::{FILE_NAME, OfProject, Source, user_path};
use crate::terminal::printable;
use crate::workspace_dir::WorkspaceDir;

/// The providers that nobody has to set up.
const BUILT_IN: [(&str, [(&str, &str); 3]); 2] = [
    ("openai", [("api", "openai"), ("base_url", OPENAI_BASE_URL), ("key_env", "OPENAI_API_KEY")]),
    ("anthropic", [("api", "anthropic"), ("base_url", ANTHROPIC_BASE_URL), ("key_env", "ANTHROPIC_API_KEY")]),
];

/// What is set, and by whom.
pub(crate) struct Config {
    pub(crate) settings: Settings,
    values: BTreeMap<Vec<String>, (Value, Origin)>,
    user: Option<Document>,
    project: Option<Document>,
}

impl Settings {
    /// What models cost; the one that needs no network costs nothing.
    pub(crate) fn prices(&self) -> Result<Prices> {
        let mut prices = self.price.clone();
        prices.entry("offline".to_owned()).or_insert(ModelPrice::new(Price::default(), Price::default()));
        Prices::try_from(prices).map_err(|error| anyhow!("{error}"))
    }
}

impl Config {
    /// The configuration with what counts of a project's, under options of the command.
    pub(crate) fn load(project: &OfProject, flags: &[Flag]) -> Result<Self> {
        let variables = environment::variables()?;
        let user = Source::of_user()?;
        Self::layered(user.as_ref(), project, variables, flags)
    }

    fn layered(
        user: Option<&Source>,
        project: &OfProject,
        variables: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
    ) -> Result<Self> {
        let whole = shape::whole();
        let user = user.map(|source| Document::parse(source, whole)).transpose()?;
        let project = match project {
            OfProject::Nothing => None,
            OfProject::Whole(source) => Some(Document::parse(source, whole)?),
            OfProject::Restrictions(source) => Some(Document::parse(source, whole)?.restrictions()),
        };
        let mut values: BTreeMap<Vec<String>, (Value, Origin)> = defaults(whole);
        let of_files =
            [&user, &project].into_iter().flatten().flat_map(|document| document.leaves.iter().cloned());
        let of_others =
            environment::values(variables, whole)?.into_iter().chain(environment::flags(flags, whole)?);
        for Leaf { path, value, origin } in of_files.chain(of_others) {
            values.insert(path, (value, origin));
        }
        complete(&mut values, whole)?;
        let mut settings: Settings = serde_json::from_value(nested(&values)).map_err(|error| {
            anyhow!("the configuration cannot be used: {}", printable(&error.to_string()))
        })?;
        for (name, provider) in &mut settings.provider {
            provider.name.clone_from(name);
        }
        if let Some(home) = home() {
            let directories = settings.mcp.values_mut().filter_map(|server| server.directory.as_mut());
            let socket = settings.sandbox.engine_socket.as_mut();
            for path in settings.skills.roots.iter_mut().chain(directories).chain(socket) {
                if let Ok(below) = path.strip_prefix("~") {
                    *path = home.join(below);
                }
            }
        }
        let config = Self { settings, values, user, project };
        config.check_model()?;
        Ok(config)
    }

    /// A model needs somebody who has it.
    fn check_model(&self) -> Result<()> {
        let ModelName::Of { provider, .. } = &self.settings.model.name else { return Ok(()) };
        if !self.settings.provider.contains_key(provider) {
            let known: Vec<&str> = self.settings.provider.keys().map(String::as_str).collect();
            let hint = prowess_permission::nearest::nearest(provider, known.iter().copied()).map_or_else(
                || format!("there is {}; [provider.NAME] adds one", known.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            bail!(
                "{}: `model.name` is of the provider `{}`, which is not there; {hint}",
                self.origin("model.name"),
                printable(provider)
            );
        }
        Ok(())
    }

    /// Where the value of a key came from.
    pub(crate) fn origin(&self, wanted: &str) -> Origin {
        let found = self.values.iter().find(|(path, _)| key(path) == wanted);
        found.map_or(Origin::Default, |(_, (_, origin))| origin.clone())
    }

    /// Every value that is there, with its key and where it came from.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&[String], &Value, &Origin)> {
        self.values.iter().map(|(path, (value, origin))| (path.as_slice(), value, origin))
    }

    /// What models cost.
    pub(crate) fn prices(&self) -> Result<Prices> {
        self.settings.prices()
    }

    /// The rules for an agent whose files are kept there.
    pub(crate) fn policy(&self, agent: &str, workspace_dir: &WorkspaceDir) -> Policy {
        let mut policy = Policy::new().with(RuleSource::Defaults, guards::guards(workspace_dir));
        for (layer, document) in [(RuleSource::User, &self.user), (RuleSource::Project, &self.project)] {
            let Some(document) = document else { continue };
            let config = &document.permissions;
            policy = policy.with(layer, config.rules.iter().cloned());
            policy = policy.with(RuleSource::Agent, config.agents.get(agent).cloned().unwrap_or_default());
        }
        policy
    }

    /// How many rules each file has for all agents and for single ones.
    pub(crate) fn rules(&self) -> usize {
        let of = |document: &Document| {
            document.permissions.rules.len()
                + document.permissions.agents.values().map(Vec::len).sum::<usize>()
        };
        self.documents().map(of).sum()
    }

    /// The hooks: the user's, then the project's.
    pub(crate) fn hooks(&self) -> Result<HookSet> {
        let mut events: Map<String, Value> = Map::new();
        for (event, groups) in self.documents().filter_map(|document| document.hooks.as_ref()).flatten() {
            let all = events.entry(event.clone()).or_insert_with(|| Value::Array(Vec::new()));
            if let (Value::Array(all), Value::Array(groups)) = (all, groups) {
                all.extend(groups.iter().cloned());
            }
        }
        HookSet::parse(&Value::Object(events))
            .map_err(|error| anyhow!("hooks: {}", printable(&error.to_string())))
    }

    /// What is probably a mistake in the files, and none that keeps them from being used.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        self.documents()
            .flat_map(|document| &document.permissions.warnings)
            .map(|warning| printable(&warning.to_string()))
    }

    fn documents(&self) -> impl Iterator<Item = &Document> {
        [&self.user, &self.project].into_iter().flatten()
    }
}

/// What counts when nobody sets anything.
fn defaults(whole: &shape::Entry) -> BTreeMap<Vec<String>, (Value, Origin)> {
    let mut values = BTreeMap::new();
    for (path, entry, _) in whole.values() {
        if let Some(default) = &entry.default {
            values.insert(path, (default.clone(), Origin::Default));
        }
    }
    for (name, settings) in BUILT_IN {
        for (key, value) in settings {
            let path = ["provider", name, key].map(ToOwned::to_owned).to_vec();
            values.insert(path, (Value::from(value), Origin::Default));
        }
    }
    values
}

/// Puts right what belongs together, and says what is missing.
fn complete(values: &mut BTreeMap<Vec<String>, (Value, Origin)>, whole: &shape::Entry) -> Result<()> {
    let named = |section: &str| {
        let of = values.keys().filter(|path| path.len() == 3 && path[0] == section);
        of.map(|path| path[1].clone()).collect::<std::collections::BTreeSet<_>>()
    };
    let (providers, prices) = (named("provider"), named("price"));
    let needed =
        [("provider", providers.clone(), ["api", "base_url"]), ("price", prices, ["input", "output"])];
    for (section, names, keys) in needed {
        for name in names {
            let path = |key: &str| [section, &name, key].map(ToOwned::to_owned).to_vec();
            let Some(missing) = keys.into_iter().find(|key| !values.contains_key(&path(key))) else {
                continue;
            };
            let above = &path(missing)[..2];
            let first =
                values.iter().find(|(path, _)| path.starts_with(above)).map(|(_, (_, origin))| origin);
            let place = first.map_or_else(String::new, |origin| format!("{origin}: "));
            let what = match whole.at(&path(missing)).map(|entry| &entry.form) {
                Some(shape::Form::Value(kind)) => kind.expected(),
                _ => "a value".to_owned(),
            };
            bail!("{place}`{}` is missing; add it: {what}", printable(&key(&path(missing))));
        }
    }
    for name in named("mcp") {
        let origin = |key: &str| {
            let path = ["mcp", &name, key].map(ToOwned::to_owned).to_vec();
            values.get(&path).map(|(_, origin)| origin)
        };
        match (origin("command"), origin("url")) {
            (Some(command), Some(url)) => bail!(
                "{command}: `mcp.{name}` is a program here, and elsewhere at {url}; take `command` or `url` out"
            ),
            (None, None) => {
                let above = ["mcp".to_owned(), name.clone()];
                let first = values.iter().find(|(path, _)| path.starts_with(&above));
                let place = first.map_or_else(String::new, |(_, (_, origin))| format!("{origin}: "));
                bail!("{place}`mcp.{name}` needs `command`, a program, or `url`, where the server is")
            }
            _ => {}
        }
    }
    for name in providers {
        let path = |key: &str| ["provider", &name, key].map(ToOwned::to_owned).to_vec();
        let is = |key: &str, word: &str| {
            values.get(&path(key)).filter(|(value, _)| value == word).map(|(_, origin)| origin)
        };
        if let (Some(origin), Some(_)) = (is("thinking", "tokens"), is("api", "openai")) {
            bail!("{origin}: `provider.{name}.thinking` can be `tokens` only with the api `anthropic`");
        }
        if let (Some((_, origin)), Some(_)) = (values.get(&path("output_limit")), is("api", "anthropic")) {
            bail!("{origin}: `provider.{name}.output_limit` is only for the api `openai`; take it out");
        }
        let Some((_, of_command)) = values.get(&path("key_command")).cloned() else { continue };
        match values.get(&path("key_env")) {
            Some((_, Origin::Default)) => {
                values.remove(&path("key_env"));
            }
            Some((_, of_variable)) => bail!(
                "{of_command}: the key of `provider.{name}` comes from key_command here, and from key_env at \
                 {of_variable}; take one of them out"
            ),
            None => {}
        }
    }
    Ok(())
}

fn nested(values: &BTreeMap<Vec<String>, (Value, Origin)>) -> Value {
    let mut whole = Map::new();
    for (path, (value, _)) in values {
        put(&mut whole, path, value);
    }
    Value::Object(whole)
}

fn put(table: &mut Map<String, Value>, path: &[String], value: &Value) {
    match path {
        [] => {}
        [last] => {
            table.insert(last.clone(), value.clone());
        }
        [first, rest @ ..] => {
            let below = table.entry(first.clone()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(below) = below {
                put(below, rest, value);
            }
        }
    }
}

/// Whether a file can be used, before anybody trusts it.
pub(crate) fn check(source: &Source) -> Result<()> {
    Document::parse_untrusted(source, shape::whole()).map(drop)
}

/// Every key that has no name of the user's choice in it.
pub(crate) fn all_keys() -> Vec<String> {
    shape::whole().values().iter().map(|(path, ..)| key(path)).collect()
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

/// What paths in rules are relative to: the working directory, and the home directory for `~`.
pub(crate) fn path_base() -> PathBase {
    // Who has no working directory has no file by a relative path.
    based_on(PathBase::new(working_directory()))
}

/// The same for a project's rules, which are relative to its top. What they deny is also denied from the working
/// directory.
fn path_base_of(project: &std::path::Path) -> PathBase {
    based_on(PathBase::new(project).also(working_directory()))
}

fn working_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

fn based_on(base: PathBase) -> PathBase {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    match home {
        Some(home) => base.home(home),
        None => base,
    }
}

pub(crate) fn home() -> Option<PathBuf> {
    Environment::of_process().ok()?.home
}

#[cfg(test)]
mod tests;
