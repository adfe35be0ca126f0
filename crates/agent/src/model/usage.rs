//! The tokens that models read and wrote.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The tokens of one or more model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// The tokens that the model read, including cached ones.
    pub input: u64,
    /// The tokens that the model wrote.
    pub output: u64,
    /// How many of the input tokens came from the provider's cache.
    pub cache_read: u64,
    /// How many of the input tokens the provider wrote into its cache.
    pub cache_written: u64,
}

impl Usage {
    /// This many input and output tokens, none of them from or into a cache.
    #[must_use]
    pub const fn new(input: u64, output: u64) -> Self {
        Self { input, output, cache_read: 0, cache_written: 0 }
    }

    /// Sets how many of the input tokens came from the provider's cache.
    #[must_use]
    pub const fn cache_read(mut self, tokens: u64) -> Self {
        self.cache_read = tokens;
        self
    }

    /// Sets how many of the input tokens the provider wrote into its cache.
    #[must_use]
    pub const fn cache_written(mut self, tokens: u64) -> Self {
        self.cache_written = tokens;
        self
    }

    /// Input and output together.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_written = self.cache_written.saturating_add(other.cache_written);
    }
}

/// The tokens of each model.
///
/// ```
/// use prowess_agent::model::ModelUsage;
/// use prowess_agent::Usage;
///
/// let mut spent = ModelUsage::on("openai:gpt-5.1", Usage::new(1_000, 200));
/// spent += &ModelUsage::on("offline", Usage::new(10, 0));
/// assert_eq!(spent.total().total(), 1_210);
/// assert_eq!(spent.iter().count(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelUsage(BTreeMap<String, Usage>);

impl ModelUsage {
    /// The tokens of one model.
    pub fn on(model: impl Into<String>, usage: Usage) -> Self {
        Self(BTreeMap::from([(model.into(), usage)]))
    }

    /// Whether no model was called.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tokens of each model, by its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Usage)> {
        self.0.iter().map(|(model, usage)| (model.as_str(), *usage))
    }

    /// The tokens of all models together.
    pub fn total(&self) -> Usage {
        let mut total = Usage::default();
        for usage in self.0.values() {
            total += *usage;
        }
        total
    }
}

impl std::ops::AddAssign<&Self> for ModelUsage {
    fn add_assign(&mut self, other: &Self) {
        for (model, usage) in &other.0 {
            *self.0.entry(model.clone()).or_default() += *usage;
        }
    }
}
