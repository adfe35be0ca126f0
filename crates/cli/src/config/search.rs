//! `[search]`

use std::time::Duration;

use super::model::ModelName;
use super::read::{quoted, section};
use super::setting::{Setting, Whole, Wrong, text_of};

section! {
    /// How skills are searched. See [search by meaning](many-skills.md#search-by-meaning).
    pub(crate) struct SearchSettings {
        /// An embedding model of a provider with the `api` `openai`, such as `openai:text-embedding-3-small`. With it, skills
        /// are also found by meaning. prowess then sends names and descriptions of skills, and each query, to that provider.
        /// Without it, prowess searches by words alone and sends nothing.
        User embeddings: Option<EmbeddingModel>,
        /// How many seconds a search of a model waits for the embedding model. After that, it uses words alone.
        User timeout: Whole<1, 600> = 10,
    }
}

/// The name of an embedding model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmbeddingModel {
    pub(crate) provider: String,
    /// The provider's name for the model.
    pub(crate) model: String,
}

impl Setting for EmbeddingModel {
    fn read(value: &serde_json::Value) -> Result<Self, Wrong> {
        let text = text_of(value)?;
        match text.parse() {
            Ok(ModelName::Of { provider, model }) => Ok(Self { provider, model }),
            // `offline` has no embeddings.
            Ok(ModelName::Offline) | Err(_) => Err(Wrong::Because(format!(
                "write PROVIDER:NAME, such as openai:text-embedding-3-small, not `{}`",
                quoted(text)
            ))),
        }
    }
}

impl SearchSettings {
    /// How long to wait.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout.0)
    }
}
