//! Models that speak Anthropic's Messages format.

mod request;
mod response;
mod thinking;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use prowess_agent::model::{ModelLimits, ModelStream};
use prowess_agent::{Model, ModelError, ModelRequest};
use secrecy::SecretString;

pub(crate) use self::response::MessagesDecoder;
pub use self::thinking::Thinking;
use crate::http::{Endpoint, EndpointBuilder, Format, Http, SetupError, endpoint_settings};

/// The address of Anthropic's own API.
pub const ANTHROPIC_BASE_URL: &str = "https://api.anthropic.com";

/// The version of the wire format.
const VERSION: &str = "2023-06-01";

/// The longest response if neither the request nor the model's limits say, in tokens. The format requires a number.
const DEFAULT_MAX_OUTPUT: u64 = 16_384;

/// How long the provider caches the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptCache {
    /// For five minutes after its last use.
    #[default]
    FiveMinutes,
    /// For an hour. Writing to the cache costs more.
    OneHour,
    /// Not at all.
    Off,
}

/// A model that speaks Anthropic's Messages.
///
/// Requests mark what the provider should cache: the tools, the stable sections of the system prompt, and the conversation
/// up to the last two messages of the user.
///
/// ```
/// use prowess_agent::model::ModelLimits;
/// use prowess_agent::Model;
/// use prowess_models::Anthropic;
///
/// # fn main() -> Result<(), prowess_models::SetupError> {
/// let model = Anthropic::builder("claude-sonnet-4-6")
///     .key("sk-ant-0123".into())
///     .limits(ModelLimits::new(200_000, 64_000))
///     .build()?;
/// assert_eq!(model.name(), "anthropic:claude-sonnet-4-6");
/// assert!(!format!("{model:?}").contains("0123"), "the key stays secret");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    settings: Settings,
    /// Whether the provider rejected a request to count. Gateways often lack this endpoint.
    cannot_count: Arc<AtomicBool>,
}

/// Settings in which models differ.
#[derive(Clone, Debug, Default)]
struct Settings {
    model: String,
    thinking: Thinking,
    cache: PromptCache,
}

/// Builds an [`Anthropic`].
///
/// ```
/// use prowess_agent::Model as _;
/// use prowess_models::{Anthropic, PromptCache, Thinking};
///
/// let model = Anthropic::builder("claude-3-5-haiku")
///     .key("sk-ant-0123".into())
///     .thinking(Thinking::Off) // it does not reason
///     .cache(PromptCache::OneHour)
///     .build()?;
/// assert_eq!(model.name(), "anthropic:claude-3-5-haiku");
/// # Ok::<(), prowess_models::SetupError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct AnthropicBuilder {
    endpoint: EndpointBuilder,
    settings: Settings,
}

impl Anthropic {
    /// Starts to build a model of this name. Without a base URL it is Anthropic's.
    pub fn builder(model: impl Into<String>) -> AnthropicBuilder {
        AnthropicBuilder {
            endpoint: EndpointBuilder::new(ANTHROPIC_BASE_URL),
            settings: Settings { model: model.into(), ..Settings::default() },
        }
    }
}

impl AnthropicBuilder {
    endpoint_settings!("/v1/messages", "The key.", "anthropic");

    /// How a request says how much to reason.
    pub fn thinking(mut self, thinking: Thinking) -> Self {
        self.settings.thinking = thinking;
        self
    }

    /// How long the provider caches the prompt.
    pub fn cache(mut self, cache: PromptCache) -> Self {
        self.settings.cache = cache;
        self
    }

    /// Builds the model.
    ///
    /// # Errors
    ///
    /// The address, the key or a header is invalid.
    pub fn build(mut self) -> Result<Anthropic, SetupError> {
        const FORMAT: Format = Format { provider: "anthropic", path: "/v1/messages", key: ("x-api-key", "") };
        self.endpoint.fixed.push(("anthropic-version", VERSION));
        // Every request names a longest response, and the provider counts it as a part of the window.
        self.endpoint.limits.output = self.endpoint.limits.output.or(Some(DEFAULT_MAX_OUTPUT));
        let endpoint = self.endpoint.build(&self.settings.model, FORMAT)?;
        Ok(Anthropic { endpoint, settings: self.settings, cannot_count: Arc::default() })
    }
}

#[async_trait]
impl Model for Anthropic {
    fn name(&self) -> &str {
        self.endpoint.name()
    }

    fn limits(&self) -> ModelLimits {
        self.endpoint.limits()
    }

    async fn count_request(&self, request: &ModelRequest) -> Result<Option<u64>, ModelError> {
        if self.cannot_count.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let body = request::body(request, &self.settings, self.limits())
            .map_err(|failure| self.endpoint.error(failure))?;
        match self.endpoint.ask_below("count_tokens", &request::counted(body)).await {
            Ok(answer) => Ok(answer["input_tokens"].as_u64()),
            Err(error) => {
                if !error.is_passing() {
                    self.cannot_count.store(true, Ordering::Relaxed);
                }
                Err(error)
            }
        }
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let body = request::body(&request, &self.settings, self.limits())
            .map_err(|failure| self.endpoint.error(failure))?;
        self.endpoint.converse(&body, MessagesDecoder::default).await
    }
}
