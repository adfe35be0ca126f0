//! Suggests models, kits and servers from the configuration. No provider is asked.

use super::Suggestion;
use crate::config::{Config, NO_KIT, OfProject, Settings};

/// Well-known models of the built-in providers.
const WELL_KNOWN: [&str; 6] = [
    "openai:gpt-5.1",
    "openai:gpt-5.1-mini",
    "openai:gpt-5.1-codex",
    "anthropic:claude-sonnet-4-5",
    "anthropic:claude-opus-4-5",
    "anthropic:claude-haiku-4-5",
];

/// The configured model, aliases, models with a price, well-known models, and the prefixes of all providers.
pub(super) fn names() -> Option<Vec<Suggestion>> {
    let settings = settings()?;
    let mut names = vec!["offline".to_owned(), settings.model.name.to_string()];
    names.extend(settings.alias.keys().map(ToString::to_string));
    // A price can be for a pattern, and a model needs a provider.
    let priced = settings.price.keys().filter(|name| !name.ends_with('*') && name.contains(':'));
    names.extend(priced.map(ToString::to_string));
    let is_known = |name: &&str| {
        name.split_once(':').is_some_and(|(provider, _)| settings.provider.contains_key(provider))
    };
    names.extend(WELL_KNOWN.iter().filter(|name| is_known(name)).map(|name| (*name).to_owned()));
    let is_covered = |provider: &str| names.iter().any(|name| name.starts_with(&format!("{provider}:")));
    let bare = settings.provider.keys().filter(|provider| !is_covered(provider));
    let bare: Vec<String> = bare.map(|provider| format!("{provider}:")).collect();
    names.extend(bare);
    names.sort();
    names.dedup();
    Some(names.into_iter().map(|name| (name, None)).collect())
}

/// The labels of MCP servers.
pub(super) fn servers() -> Option<Vec<Suggestion>> {
    let settings = settings()?;
    let offers = settings.mcp.iter().map(|(label, server)| {
        let by = server.url.as_deref().map(crate::url::without_secrets);
        (label.to_string(), by)
    });
    Some(offers.collect())
}

/// The kits, and the word for none.
pub(super) fn kits() -> Option<Vec<Suggestion>> {
    let settings = settings()?;
    let names = settings.skills.kit_names().chain([NO_KIT]);
    Some(names.map(|name| (name.to_owned(), None)).collect())
}

/// The user's own configuration. Projects do not influence suggestions.
fn settings() -> Option<Settings> {
    Some(Config::load(&OfProject::Nothing, &[]).ok()?.settings)
}
