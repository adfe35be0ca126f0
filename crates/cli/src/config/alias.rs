//! `[alias.NAME]`

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::model::ModelName;
use super::read::section;
use super::setting::{Parsed, text};
use super::settings::Settings;
use super::value::Values;

section! {
    /// A short name for a model: in `model.name`, `--model` and `/model`, and in the field `model` of skills. `sonnet`,
    /// `opus`, `haiku` and `fable` are built in. They are models of `anthropic`, and you can change them.
    pub(crate) struct AliasSettings {
        /// The provider and the model, such as `openai:gpt-5.1`. A skill gets it only in a conversation with the same
        /// provider.
        User model: ModelName,
    }
}

text!(
    /// The name of an alias.
    AliasName: |name| !name.is_empty() && !RESERVED.contains(&name)
        && name.chars().all(|c| c.is_ascii_graphic() && c != ':'),
    "an alias has no blanks and no `:`, and is not `offline`, `inherit` or `default`"
);

/// Words that have another meaning.
const RESERVED: [&str; 3] = ["offline", "inherit", "default"];

/// The aliases that are built in: families of models, and their newest members.
pub(super) const BUILT_IN: [(&str, &str); 4] = [
    ("sonnet", "anthropic:claude-sonnet-5-5"),
    ("opus", "anthropic:claude-opus-5-5"),
    ("haiku", "anthropic:claude-haiku-5-5"),
    ("fable", "anthropic:claude-fable-5-1"),
];

/// All aliases.
pub(crate) type Aliases = BTreeMap<Parsed<AliasName>, AliasSettings>;

/// Whether an alias has its built-in meaning: a family of models.
pub(crate) fn is_family(name: &str, model: &ModelName) -> bool {
    BUILT_IN.iter().any(|(family, built_in)| *family == name && *built_in == model.to_string())
}

/// Replaces an alias in `model.name` by its model, in all sources.
pub(super) fn resolve(sources: &mut [Values]) {
    let name = ["model", "name"].map(ToOwned::to_owned).to_vec();
    for at in 0..sources.len() {
        let Some(Json::String(word)) = sources[at].get(&name).map(|value| value.json.clone()) else {
            continue;
        };
        let path = ["alias", &word, "model"].map(ToOwned::to_owned).to_vec();
        let model = sources.iter().rev().find_map(|values| values.get(&path)).map(|value| value.json.clone());
        if let (Some(model), Some(value)) = (model, sources[at].get_mut(&name)) {
            value.json = model;
        }
    }
}

impl Settings {
    /// The model with this name or alias.
    pub(crate) fn model_named(&self, text: &str) -> Result<ModelName, String> {
        match self.alias.get(text) {
            Some(alias) => Ok(alias.model.clone()),
            None => text.parse(),
        }
    }
}
