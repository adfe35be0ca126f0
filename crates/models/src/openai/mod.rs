//! Any endpoint that speaks OpenAI's chat completions.

mod answer;
mod calls;
mod request;

use async_trait::async_trait;
use prowess_agent::{Model, ModelError, ModelLimits, ModelRequest, ModelStream};
use secrecy::SecretString;

pub(crate) use self::answer::Answer;
use crate::http::{Endpoint, EndpointBuilder, Http, KeyHeader, SetupError};

/// Where OpenAI itself is.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// How the most that a model may say is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputLimitName {
    /// `max_completion_tokens`: OpenAI's models, and most others.
    #[default]
    MaxCompletionTokens,
    /// `max_tokens`: older servers.
    MaxTokens,
}

/// Whether a model is told how hard to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffortField {
    /// As `reasoning_effort`; `high` is the most there is.
    #[default]
    ReasoningEffort,
    /// It is not: models that do not think refuse the field.
    Omitted,
}

/// A model behind any endpoint that speaks OpenAI's chat completions.
///
/// ```
/// use prowess_agent::{Model, ModelLimits};
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
    limits: ModelLimits,
    settings: Settings,
}

/// What endpoints do not agree on.
#[derive(Clone, Debug, Default)]
struct Settings {
    model: String,
    output_limit: OutputLimitName,
    effort: EffortField,
}

/// Sets up an [`OpenAi`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct OpenAiBuilder {
    endpoint: EndpointBuilder,
    name: Option<String>,
    limits: ModelLimits,
    settings: Settings,
}

impl OpenAi {
    /// A model of this name, at OpenAI unless a base URL says otherwise.
    pub fn builder(model: impl Into<String>) -> OpenAiBuilder {
        OpenAiBuilder {
            endpoint: EndpointBuilder::new(OPENAI_BASE_URL),
            name: None,
            limits: ModelLimits::default(),
            settings: Settings { model: model.into(), ..Settings::default() },
        }
    }
}

impl OpenAiBuilder {
    /// Where the endpoint is, without `/chat/completions`.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint.base_url = url.into();
        self
    }

    /// The key, sent as a bearer token.
    pub fn key(mut self, key: SecretString) -> Self {
        self.endpoint.key = Some(key);
        self
    }

    /// A header that is sent with every request. Its value is kept secret.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        self.endpoint.headers.push((name.into(), value.into()));
        self
    }

    /// What the model is called in an agent; `openai:` and its own name otherwise.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How much the model can read and say.
    pub fn limits(mut self, limits: ModelLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How the endpoint calls the most that the model may say.
    pub fn output_limit_name(mut self, name: OutputLimitName) -> Self {
        self.settings.output_limit = name;
        self
    }

    /// How the endpoint is told how hard to think.
    pub fn effort_field(mut self, field: EffortField) -> Self {
        self.settings.effort = field;
        self
    }

    /// A client that is shared with other models; one of its own otherwise.
    pub fn http(mut self, http: Http) -> Self {
        self.endpoint.http = Some(http);
        self
    }

    /// The model.
    ///
    /// # Errors
    ///
    /// The address, the key or a header is not usable.
    pub fn build(self) -> Result<OpenAi, SetupError> {
        const KEY: KeyHeader = KeyHeader { name: "authorization", prefix: "Bearer " };
        let name = self.name.unwrap_or_else(|| format!("openai:{}", self.settings.model));
        let endpoint = self.endpoint.build(&name, "/chat/completions", KEY)?;
        Ok(OpenAi { endpoint, limits: self.limits, settings: self.settings })
    }
}

#[async_trait]
impl Model for OpenAi {
    fn name(&self) -> &str {
        self.endpoint.name()
    }

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    async fn ask(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let body = request::body(&request, &self.settings, self.limits)
            .map_err(|failure| self.endpoint.error(failure))?;
        self.endpoint.converse(&body, Answer::default).await
    }
}
