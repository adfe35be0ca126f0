//! `[model]`

use std::fmt;
use std::str::FromStr;

use prowess_agent::model::Effort;

use super::read::{quoted, section};
use super::setting::{Setting, Whole32, Wrong, text_of, words};

section! {
    /// The model that responds in `prowess chat`.
    pub(crate) struct ModelSettings {
        /// The provider and the model, such as `openai:gpt-5.1`, or an alias, such as `sonnet`. The model `offline`
        /// needs no API key and no network.
        All name: ModelName = "offline",
        /// How hard the model thinks. Without it, the provider decides.
        All effort: Option<Effort>,
        /// How many tokens fit into the model's context. Without it, prowess uses what it knows about the model.
        All context_window: Option<Whole32<1000>>,
        /// How many tokens one response may have. Without it, prowess uses what it knows about the model.
        All max_output_tokens: Option<Whole32>,
    }
}

/// The name of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModelName {
    /// The model that needs no API key and no network.
    Offline,
    /// A model of a provider: the name of the provider, and the provider's name for the model.
    Of { provider: String, model: String },
}

impl FromStr for ModelName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "offline" => Ok(Self::Offline),
            _ if text.chars().any(prowess_catalog::untrusted::is_unprintable) => {
                Err("write the name of a model without control characters".to_owned())
            }
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(Self::Of { provider: provider.to_owned(), model: model.to_owned() })
            }
            _ => Err(format!(
                "write PROVIDER:NAME, such as openai:gpt-5.1, or offline, not `{}`",
                quoted(text)
            )),
        }
    }
}

impl Setting for ModelName {
    fn read(value: &serde_json::Value) -> Result<Self, Wrong> {
        text_of(value)?.parse().map_err(Wrong::Because)
    }
}

words!(Effort { "low" = Low, "medium" = Medium, "high" = High, "max" = Max });

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offline => f.write_str("offline"),
            Self::Of { provider, model } => write!(f, "{provider}:{model}"),
        }
    }
}
