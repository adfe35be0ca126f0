//! `[price.NAME]`

use prowess_agent::cost::{ModelPrice, Price, PriceError};

use super::read::section;
use super::setting::{Amount, Setting, Wrong, text};

section! {
    /// What a model costs, in dollars for a million tokens. NAME is the model as `--model` names it, in quotes:
    /// `[price."openai:gpt-5.1"]`. A `*` at its end stands for all models whose names begin with the text before it.
    pub(crate) struct PriceSettings {
        /// Tokens that the model reads.
        User input: Price,
        /// Tokens that the model writes.
        User output: Price,
        /// Tokens that the model reads from its provider's cache. The default is the price of `input`.
        User cache_read: Option<Price>,
        /// Tokens that the provider puts into its cache. The default is the price of `input`.
        User cache_write: Option<Price>,
    }
}

impl From<PriceSettings> for ModelPrice {
    fn from(settings: PriceSettings) -> Self {
        let mut price = Self::new(settings.input, settings.output);
        (price.cache_read, price.cache_write) = (settings.cache_read, settings.cache_write);
        price
    }
}

impl Setting for Price {
    fn read(value: &serde_json::Value) -> Result<Self, Wrong> {
        // The shortest text for this number is what somebody wrote.
        let price = Amount::read(value)?.0.to_string().parse();
        price.map_err(|error: PriceError| Wrong::Because(error.to_string()))
    }
}

text!(
    /// The name of a model, or the beginning of names with a `*` after it.
    ModelPattern: |name| !name.strip_suffix('*').unwrap_or(name).contains('*'),
    "a `*` can only be the last character of a model's name"
);
