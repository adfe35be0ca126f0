//! The model that a skill names: aliases, families of models, and models of the thread's provider.
//!
//! A conversation stays with the provider that the person chose. So a skill can only choose another model of it.

use prowess_agent::middleware::{SkillModel, SkillModels};

use super::model;
use crate::config::{ModelName, ModelSettings, Settings, is_family};
use crate::terminal::printable;

/// The providers whose models are known by how their names begin.
const KNOWN: [(&str, &[&str]); 3] = [
    ("anthropic", &["claude"]),
    ("openai", &["gpt-", "chatgpt-", "codex-", "o1", "o3", "o4"]),
    ("google", &["gemini-"]),
];

/// How skills for Claude Code ask for a longer context window. prowess uses the window that the model has.
const LONG_CONTEXT: &str = "[1m]";

/// The models that skills can choose in a conversation with these settings.
pub(super) fn models(settings: &Settings) -> SkillModels {
    let settings = settings.clone();
    SkillModels::new(move |name| find(&settings, name))
}

/// The model that a skill names.
pub(super) fn find(settings: &Settings, name: &str) -> SkillModel {
    let wanted = match meaning(settings, name) {
        Ok(Some(wanted)) => wanted,
        Ok(None) => return SkillModel::Own,
        Err(reason) => return SkillModel::Unavailable { reason },
    };
    let mut settings = settings.clone();
    // Settings of one model may be wrong for another.
    settings.model =
        ModelSettings { name: wanted, effort: None, context_window: None, max_output_tokens: None };
    match model::configured(&settings) {
        Ok(model) => SkillModel::Use(model),
        Err(error) => SkillModel::Unavailable { reason: format!("{error:#}") },
    }
}

/// The model that a name means: `None` for the thread's own. Fails with a reason if it means none that can be used.
fn meaning(settings: &Settings, name: &str) -> Result<Option<ModelName>, String> {
    let ModelName::Of { provider, model: own } = &settings.model.name else {
        return Err("the offline model has no provider".to_owned());
    };
    let other = |whose: &str| {
        let (whose, provider) = (printable(whose), printable(provider));
        format!("{whose} has that model, and this conversation is with {provider}")
    };
    let of_provider = |model: &str| ModelName::Of { provider: provider.clone(), model: model.to_owned() };
    let word = name.strip_suffix(LONG_CONTEXT).unwrap_or(name);
    if word == "default" || word == own || *name == settings.model.name.to_string() {
        return Ok(None);
    }
    if let Some(alias) = settings.alias.get(word) {
        let ModelName::Of { provider: whose, model } = &alias.model else {
            return Err("its alias is offline".to_owned());
        };
        let family = is_family(word, &alias.model);
        return match (whose == provider, family) {
            // A conversation with a model of the family stays with it.
            (_, true) if own.contains("claude") && own.contains(word) => Ok(None),
            (true, _) => Ok(Some(alias.model.clone())),
            // Another provider may have these models too, under the same names.
            (false, true) if own.starts_with("claude-") => Ok(Some(of_provider(model))),
            (false, true) => Err(format!("{} (to choose another, add [alias.{word}])", other(whose))),
            (false, false) => Err(other(whose)),
        };
    }
    if word.is_empty() || word.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("that is no name of a model".to_owned());
    }
    // `openai:gpt-5`, and `openai/gpt-5` as other agents write it.
    if let Some((whose, model)) =
        word.split_once(':').filter(|(whose, _)| settings.provider.contains_key(*whose))
    {
        return if whose == provider { Ok(Some(of_provider(model))) } else { Err(other(whose)) };
    }
    if let Some(model) = word.strip_prefix(provider.as_str()).and_then(|rest| rest.strip_prefix('/')) {
        return Ok(Some(of_provider(model)));
    }
    match foreign(provider, word) {
        Some(whose) => Err(other(whose)),
        None => Ok(Some(of_provider(word))),
    }
}

/// The other provider that this model is of, if that is known. A provider with another name may have any model.
fn foreign(provider: &str, model: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| *known == provider)?;
    let (whose, _) = KNOWN.iter().find(|(whose, families)| {
        families.iter().any(|family| model.starts_with(family)) || model.starts_with(&format!("{whose}/"))
    })?;
    (*whose != provider).then_some(*whose)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `wanted` means in a conversation with `own`.
    fn told(own: &str, wanted: &str) -> String {
        let mut settings = Settings::built_in().unwrap();
        settings.model.name = own.parse().unwrap();
        match meaning(&settings, wanted) {
            Ok(Some(model)) => model.to_string(),
            Ok(None) => "own".to_owned(),
            Err(reason) => format!("no: {reason}"),
        }
    }

    #[test]
    fn families_are_models_of_their_provider() {
        for (own, wanted, expected) in [
            ("anthropic:claude-opus-4-8", "sonnet", "anthropic:claude-sonnet-5-5"),
            ("anthropic:claude-opus-4-8", "sonnet[1m]", "anthropic:claude-sonnet-5-5"),
            ("anthropic:claude-opus-4-8", "opus", "own"),
            ("gateway:claude-opus-4-8", "haiku", "gateway:claude-haiku-5-5"),
            ("router:anthropic/claude-sonnet-4.5", "sonnet", "own"),
            ("openai:gpt-5.1", "default", "own"),
            ("openai:gpt-5.1", "gpt-5.1", "own"),
            ("openai:gpt-5.1", "openai:gpt-5.1", "own"),
        ] {
            assert_eq!(told(own, wanted), expected, "{own} {wanted}");
        }
        for own in ["openai:gpt-5.1", "local:m", "router:anthropic/claude-opus-4.5"] {
            let provider = own.split(':').next().unwrap();
            let expected = format!(
                "no: anthropic has that model, and this conversation is with {provider} \
                 (to choose another, add [alias.sonnet])"
            );
            assert_eq!(told(own, "sonnet"), expected);
        }
    }

    #[test]
    fn no_name_leads_to_another_provider() {
        for (own, wanted, expected) in [
            ("openai:gpt-5.1", "gpt-5.1-mini", "openai:gpt-5.1-mini"),
            ("openai:gpt-5.1", "openai/gpt-5.1-mini", "openai:gpt-5.1-mini"),
            ("local:m", "llama3:8b", "local:llama3:8b"),
            ("local:m", "gpt-oss:20b", "local:gpt-oss:20b"),
            ("router:x", "anthropic/claude-sonnet-4.5", "router:anthropic/claude-sonnet-4.5"),
        ] {
            assert_eq!(told(own, wanted), expected, "{own} {wanted}");
        }
        for (own, wanted) in [
            ("openai:gpt-5.1", "anthropic:claude-opus-4-8"),
            ("openai:gpt-5.1", "claude-opus-4-8"),
            ("openai:gpt-5.1", "anthropic/claude-opus-4-8"),
            ("anthropic:claude-opus-4-8", "openai:gpt-5.1"),
            ("anthropic:claude-opus-4-8", "o3"),
            ("anthropic:claude-opus-4-8", "gemini-3-pro"),
            ("local:m", "openai:gpt-5.1"),
        ] {
            let told = told(own, wanted);
            assert!(told.starts_with("no: ") && told.contains(" has that model, "), "{own} {wanted}: {told}");
        }
        assert_eq!(told("local:m", "two words"), "no: that is no name of a model");
        assert_eq!(told("offline", "sonnet"), "no: the offline model has no provider");
    }
}
