//! What all HTTP providers share: the client, timeouts, retries, limits and typed errors.

mod client;
mod endpoint;
mod failure;
mod provider_error;
mod response;
mod retry;

pub use self::client::{Http, HttpOptions, Proxies, SetupError};
pub(crate) use self::endpoint::{Endpoint, EndpointBuilder, Format};
pub(crate) use self::failure::Failure;
pub(crate) use self::provider_error::ProviderError;

use std::collections::VecDeque;

use prowess_agent::ModelDelta;
use prowess_agent::json::MODEL_JSON;
pub(crate) use prowess_base::sse::SseEvent;
use serde_json::Value;

/// The most tool calls in one response.
pub(crate) const MAX_CALLS: usize = 128;

/// Parses the JSON of an event, if it does not take too much memory.
pub(crate) fn parse_event(data: &str) -> Result<Value, Failure> {
    let costly = |costly| Failure::malformed(format!("an event takes too much memory: {costly}")).lasting();
    MODEL_JSON.check(data.as_bytes()).map_err(costly)?;
    serde_json::from_str(data).map_err(|error| Failure::malformed(format!("an event is not JSON: {error}")))
}

/// Decodes the events of one response, in one provider's format.
pub(crate) trait Decoder: Send + 'static {
    /// Decodes the next event.
    fn read(&mut self, event: &SseEvent, deltas: &mut VecDeque<ModelDelta>) -> Result<Progress, Failure>;

    /// Called after the last event.
    ///
    /// # Errors
    ///
    /// The response is not complete.
    fn end(&mut self, deltas: &mut VecDeque<ModelDelta>) -> Result<(), Failure>;
}

/// Whether a response continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More events may come.
    More,
    /// The response is complete.
    Done,
}

/// The methods that the builders of all providers share. The builder's `endpoint` must be an [`EndpointBuilder`].
macro_rules! endpoint_settings {
    ($path:literal, $key:literal, $provider:literal) => {
        #[doc = concat!("The endpoint's address, without `", $path, "`.")]
        pub fn base_url(mut self, url: impl Into<String>) -> Self {
            self.endpoint.base_url = url.into();
            self
        }

        #[doc = $key]
        pub fn key(mut self, key: SecretString) -> Self {
            self.endpoint.key = Some(key);
            self
        }

        /// Adds a header to every request. Its value is a secret.
        pub fn header(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
            self.endpoint.headers.push((name.into(), value.into()));
            self
        }

        #[doc = concat!("The model's name in the agent. Default: `", $provider, ":` and the model's own name.")]
        pub fn name(mut self, name: impl Into<String>) -> Self {
            self.endpoint.name = Some(name.into());
            self
        }

        /// How many tokens the model can read and write.
        pub fn limits(mut self, limits: ModelLimits) -> Self {
            self.endpoint.limits = limits;
            self
        }

        /// A client to share with other models. By default the model has its own.
        pub fn http(mut self, http: Http) -> Self {
            self.endpoint.http = Some(http);
            self
        }
    };
}
pub(crate) use endpoint_settings;
