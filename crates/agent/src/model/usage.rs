//! What models were paid, in tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many tokens were paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Read, all of them.
    pub input: u64,
    /// Said.
    pub output: u64,
    /// Of those read: found in the provider's cache.
    pub cache_read: u64,
    /// Of those read: put into the provider's cache.
    pub cache_written: u64,
}

impl Usage {
    /// All that was read and said.
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

/// What was paid to each model.
///
/// ```
/// use prowess_agent::model::ModelUsage;
/// use prowess_agent::Usage;
///
/// let mut spent = ModelUsage::on("openai:gpt-5.1", Usage { input: 1_000, output: 200, ..Usage::default() });
/// spent += &ModelUsage::on("offline", Usage { input: 10, ..Usage::default() });
/// assert_eq!(spent.total().total(), 1_210);
/// assert_eq!(spent.iter().count(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelUsage(BTreeMap<String, Usage>);

impl ModelUsage {
    /// What was paid to one model.
    pub fn on(model: impl Into<String>, usage: Usage) -> Self {
        Self(BTreeMap::from([(model.into(), usage)]))
    }

    /// Whether no model was asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was paid to each, by its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Usage)> {
        self.0.iter().map(|(model, usage)| (model.as_str(), *usage))
    }

    /// What was paid to all.
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
