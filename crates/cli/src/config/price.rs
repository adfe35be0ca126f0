//! `[price.NAME]`

use std::str::FromStr;

use prowess_agent::cost::{ModelPrice, Price, PriceError};

use super::read::section;
use super::setting::{Amount, Setting, Wrong};

section! {
    /// What a model costs, in dollars for a million tokens. NAME is the name of the model. A `*` at its end stands for all
    /// models whose names begin with the text before it.
    pub(crate) struct PriceSettings {
        /// Tokens that the model reads.
        User input: Dollars,
        /// Tokens that the model writes.
        User output: Dollars,
        /// Tokens that the model reads from its provider's cache. The default is the price of `input`.
        User cache_read: Option<Dollars>,
        /// Tokens that the provider puts into its cache. The default is the price of `input`.
        User cache_write: Option<Dollars>,
    }
}

impl From<PriceSettings> for ModelPrice {
    fn from(settings: PriceSettings) -> Self {
        let mut price = Self::new(settings.input.0, settings.output.0);
        price.cache_read = settings.cache_read.map(|price| price.0);
        price.cache_write = settings.cache_write.map(|price| price.0);
        price
    }
}

/// Dollars for a million tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dollars(Price);

impl Setting for Dollars {
    fn expected() -> String {
        Amount::expected()
    }

    fn read(value: &serde_json::Value) -> Result<Self, Wrong> {
        // The shortest text for this number is what somebody wrote.
        let price = Amount::read(value)?.0.to_string().parse();
        price.map(Self).map_err(|error: PriceError| Wrong::Because(error.to_string()))
    }
}

/// The name of a model, or the beginning of names with a `*` after it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModelPattern;

impl FromStr for ModelPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text.strip_suffix('*').unwrap_or(text).contains('*') {
            return Err("a `*` can only be the last character of a model's name");
        }
        Ok(Self)
    }
}
