//! Any endpoint that speaks OpenAI's chat completions.

mod embeddings;
mod request;
mod response;
mod tokenizer;
mod tool_calls;

use async_trait::async_trait;
use prowess_agent::model::{ModelLimits, ModelStream};
use prowess_agent::{Model, ModelError, ModelRequest};
use secrecy::SecretString;

pub use self::embeddings::{OpenAiEmbeddings, OpenAiEmbeddingsBuilder};
pub(crate) use self::response::ChatDecoder;
use self::tokenizer::ChosenTokenizer;
pub use self::tokenizer::Tokenizer;
use crate::http::{Endpoint, EndpointBuilder, Format, Http, SetupError, endpoint_settings};

/// The address of OpenAI's own API.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// The name of the field for the longest response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputLimitName {
    /// `max_completion_tokens`: OpenAI's models, and most others.
    #[default]
    MaxCompletionTokens,
    /// `max_tokens`: older servers.
    MaxTokens,
}

/// Whether a request says how much to reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffortField {
    /// As `reasoning_effort`. `high` is the maximum.
    #[default]
    ReasoningEffort,
    /// It does not: models that do not reason reject the field.
    Omitted,
}

/// A model behind any endpoint that speaks OpenAI's chat completions.
///
/// ```
/// use prowess_agent::model::ModelLimits;
/// use prowess_agent::Model;
/// use prowess_models::OpenAi;
///
/// # fn main() -> Result<(), prowess_models::SetupError> {
/// let model = OpenAi::builder("qwen3")
///     .base_url("http://localhost:11434/v1")
///     .limits(ModelLimits::new(32_768, 8_192))
///     .build()?;
/// assert_eq!(model.name(), "openai:qwen3");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    settings: Settings,
    tokenizer: ChosenTokenizer,
}

/// Settings in which endpoints differ.
#[derive(Clone, Debug, Default)]
struct Settings {
    model: String,
    output_limit: OutputLimitName,
    effort: EffortField,
    tokenizer: Tokenizer,
}

/// Builds an [`OpenAi`].
///
/// ```
/// use prowess_agent::Model as _;
/// use prowess_models::{EffortField, OpenAi, OutputLimitName};
///
/// let model = OpenAi::builder("llama3.2")
///     .base_url("http://localhost:8080/v1")
///     .output_limit_name(OutputLimitName::MaxTokens) // an older server
///     .effort_field(EffortField::Omitted)
///     .build()?;
/// assert_eq!(model.name(), "openai:llama3.2");
/// assert!(OpenAi::builder("llama3.2").base_url("localhost").build().is_err());
/// # Ok::<(), prowess_models::SetupError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct OpenAiBuilder {
    endpoint: EndpointBuilder,
    settings: Settings,
}

impl OpenAi {
    /// Starts to build a model of this name. Without a base URL it is OpenAI's.
    pub fn builder(model: impl Into<String>) -> OpenAiBuilder {
        OpenAiBuilder {
            endpoint: EndpointBuilder::new(OPENAI_BASE_URL),
            settings: Settings { model: model.into(), ..Settings::default() },
        }
    }
}

impl OpenAiBuilder {
    endpoint_settings!("/chat/completions", "The key, sent as a bearer token.", "openai");

    /// The endpoint's name of the field for the longest response.
    pub fn output_limit_name(mut self, name: OutputLimitName) -> Self {
        self.settings.output_limit = name;
        self
    }

    /// How a request says how much to reason.
    pub fn effort_field(mut self, field: EffortField) -> Self {
        self.settings.effort = field;
        self
    }

    /// How the tokens of texts are counted. By default the model and the endpoint decide.
    pub fn tokenizer(mut self, tokenizer: Tokenizer) -> Self {
        self.settings.tokenizer = tokenizer;
        self
    }

    /// Builds the model.
    ///
    /// # Errors
    ///
    /// The address, the key or a header is invalid.
    pub fn build(self) -> Result<OpenAi, SetupError> {
        const FORMAT: Format =
            Format { provider: "openai", path: "/chat/completions", key: ("authorization", "Bearer ") };
        let endpoint = self.endpoint.build(&self.settings.model, FORMAT)?;
        let tokenizer = self.settings.tokenizer.chosen(&self.settings.model, endpoint.url());
        Ok(OpenAi { endpoint, settings: self.settings, tokenizer })
    }
}

#[async_trait]
impl Model for OpenAi {
    fn name(&self) -> &str {
        self.endpoint.name()
    }

    fn limits(&self) -> ModelLimits {
        self.endpoint.limits()
    }

    fn count_tokens(&self, text: &str) -> u64 {
        self.tokenizer.count(text)
    }

    fn tokenizer(&self) -> Option<&str> {
        self.tokenizer.name()
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let body = request::body(&request, &self.settings, self.limits())
            .map_err(|failure| self.endpoint.error(failure))?;
        self.endpoint.converse(&body, ChatDecoder::default).await
    }
}
