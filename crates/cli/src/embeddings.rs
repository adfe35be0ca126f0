//! The embedding model of the configuration, which searches skills by meaning.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use prowess_models::{Http, HttpOptions, OpenAiEmbeddings};
use prowess_skills::embeddings::Embeddings;

use crate::config::{EmbeddingModel, Settings};
use crate::directories;
use crate::terminal::printable;

/// How often a request that failed is sent again. A search must not wait for long.
const RETRIES: u32 = 1;

/// How long a search waits for vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Until the vectors of all skills are made: a person waits, and sees that something happens.
    ForAll,
    /// At most `search.timeout`: a model waits.
    AtMost,
}

/// The configured embedding model; `None` if there is none. `tell` gets messages for a person: why it cannot be used now.
pub(crate) fn configured(
    settings: &Settings,
    wait: Wait,
    tell: impl Fn(&str) + Send + Sync + 'static,
) -> Option<Arc<Embeddings>> {
    let name = settings.search.embeddings.as_ref()?;
    let model = match model(settings, name) {
        Ok(model) => model,
        Err(error) => {
            tell(&format!("search uses words alone: {}", printable(&format!("{error:#}"))));
            return None;
        }
    };
    let mut embeddings = Embeddings::new(Arc::new(model)).tell(move |message| tell(&printable(message)));
    if let Some(directory) = directories::vectors() {
        embeddings = embeddings.directory(directory);
    }
    if wait == Wait::AtMost {
        embeddings = embeddings.patience(settings.search.patience());
    }
    Some(Arc::new(embeddings))
}

fn model(settings: &Settings, name: &EmbeddingModel) -> Result<OpenAiEmbeddings> {
    let EmbeddingModel { provider, model } = name;
    let found = settings.provider.get_key_value(provider.as_str());
    let (name, provider) = found.ok_or_else(|| anyhow!(settings.unknown_provider(provider)))?;
    let failed = |error| anyhow!("provider.{}: {error}", printable(name));
    let mut options = HttpOptions::default();
    (options.retries, options.response_timeout) = (RETRIES, settings.search.patience());
    let http = Http::new(options).map_err(failed)?;
    let mut builder = OpenAiEmbeddings::builder(model).base_url(&*provider.base_url).http(http);
    if let Some(key) = provider.key(name)? {
        builder = builder.key(key);
    }
    builder.build().map_err(failed)
}
