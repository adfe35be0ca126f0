//! Any endpoint that speaks OpenAI's embeddings.

use async_trait::async_trait;
use prowess_skills::embeddings::{EmbeddingError, EmbeddingModel};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

use super::OPENAI_BASE_URL;
use crate::http::{Endpoint, EndpointBuilder, Failure, Format, Http, SetupError};

/// The longest response, in bytes: 64 vectors of 4,096 numbers with 24 digits each, and more.
const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;

/// An embedding model behind any endpoint that speaks OpenAI's `/embeddings`.
///
/// ```
/// use std::sync::Arc;
/// use prowess_models::OpenAiEmbeddings;
/// use prowess_skills::embeddings::{EmbeddingModel, Embeddings};
///
/// let model = OpenAiEmbeddings::builder("nomic-embed-text").base_url("http://localhost:11434/v1").build()?;
/// assert_eq!(model.name(), "nomic-embed-text at http://localhost:11434/v1");
/// let embeddings = Arc::new(Embeddings::new(Arc::new(model)));
/// # Ok::<(), prowess_models::SetupError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenAiEmbeddings {
    endpoint: Endpoint,
    model: String,
    name: String,
}

/// Builds an [`OpenAiEmbeddings`].
///
/// ```
/// use prowess_models::OpenAiEmbeddings;
///
/// let builder = OpenAiEmbeddings::builder("text-embedding-3-small");
/// assert!(builder.clone().key("sk-secret".into()).build().is_ok());
/// assert!(builder.key("sk-secret\n".into()).build().is_err(), "no header can have a line break");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct OpenAiEmbeddingsBuilder {
    endpoint: EndpointBuilder,
    model: String,
}

impl OpenAiEmbeddings {
    /// Starts to build an embedding model of this name. Without a base URL it is OpenAI's.
    pub fn builder(model: impl Into<String>) -> OpenAiEmbeddingsBuilder {
        OpenAiEmbeddingsBuilder { endpoint: EndpointBuilder::new(OPENAI_BASE_URL), model: model.into() }
    }
}

impl OpenAiEmbeddingsBuilder {
    /// The endpoint's address, without `/embeddings`.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint.base_url = url.into();
        self
    }

    /// The key, sent as a bearer token.
    pub fn key(mut self, key: SecretString) -> Self {
        self.endpoint.key = Some(key);
        self
    }

    /// A client to share with models. By default the model has its own.
    pub fn http(mut self, http: Http) -> Self {
        self.endpoint.http = Some(http);
        self
    }

    /// Builds the model.
    ///
    /// # Errors
    ///
    /// The address or the key is invalid.
    pub fn build(self) -> Result<OpenAiEmbeddings, SetupError> {
        const FORMAT: Format =
            Format { provider: "openai", path: "/embeddings", key: ("authorization", "Bearer ") };
        let endpoint = self.endpoint.build(&self.model, FORMAT)?;
        // The query of an address may contain a secret.
        let name = format!("{} at {}", self.model, endpoint.base());
        Ok(OpenAiEmbeddings { endpoint, model: self.model, name })
    }
}

/// What an endpoint answers.
#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[async_trait]
impl EmbeddingModel for OpenAiEmbeddings {
    fn name(&self) -> &str {
        &self.name
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let body = json!({"model": self.model, "input": texts, "encoding_format": "float"});
        let failed = |error: prowess_agent::ModelError| {
            EmbeddingError::new(format!("{}: {}", error.kind, error.message))
        };
        let answer = self.endpoint.ask(&body, MAX_RESPONSE_BYTES).await.map_err(failed)?;
        let malformed = |why: String| failed(self.endpoint.error(Failure::malformed(why)));
        let mut answer: Answer = serde_json::from_slice(&answer)
            .map_err(|error| malformed(format!("the response has no vectors: {error}")))?;
        // Most endpoints keep the order; the numbers count.
        answer.data.sort_by_key(|item| item.index);
        let is_numbered = |(at, item): (usize, &Item)| item.index.is_none_or(|index| index == at);
        if !answer.data.iter().enumerate().all(is_numbered) {
            return Err(malformed("the vectors are not numbered in order".to_owned()));
        }
        Ok(answer.data.into_iter().map(|item| item.embedding).collect())
    }
}
