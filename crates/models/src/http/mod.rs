//! What providers over HTTP share: one client, timeouts, retries, bounds and typed errors.

mod answer;
mod client;
mod complaint;
mod endpoint;
mod failure;
mod retry;

pub use self::client::{Http, HttpOptions, Proxies, SetupError};
pub(crate) use self::complaint::Complaint;
pub(crate) use self::endpoint::{Endpoint, EndpointBuilder, Format};
pub(crate) use self::failure::Failure;

use std::collections::VecDeque;

use prowess_agent::ModelDelta;
use prowess_agent::json::MODEL_JSON;
pub(crate) use prowess_base::sse::SseEvent;
use serde_json::Value;

/// How many calls an answer may have.
pub(crate) const MAX_CALLS: usize = 128;

/// The JSON of an event, if there is room for it.
pub(crate) fn parsed(data: &str) -> Result<Value, Failure> {
    let costly = |costly| Failure::malformed(format!("an event takes too much memory: {costly}")).lasting();
    MODEL_JSON.check(data.as_bytes()).map_err(costly)?;
    serde_json::from_str(data).map_err(|error| Failure::malformed(format!("an event is no JSON: {error}")))
}

/// Reads one provider's events. It sees one answer, from its beginning.
pub(crate) trait Decoder: Send + 'static {
    /// Takes the next event.
    fn read(&mut self, event: &SseEvent, deltas: &mut VecDeque<ModelDelta>) -> Result<Progress, Failure>;

    /// No event comes any more.
    ///
    /// # Errors
    ///
    /// The answer was not complete.
    fn end(&mut self, deltas: &mut VecDeque<ModelDelta>) -> Result<(), Failure>;
}

/// Whether an answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More may come.
    More,
    /// The provider has said that this was all.
    Done,
}

/// What the builders of all providers have in common, for one whose `endpoint` is an [`EndpointBuilder`].
macro_rules! endpoint_settings {
    ($path:literal, $key:literal, $provider:literal) => {
        #[doc = concat!("Where the endpoint is, without `", $path, "`.")]
        pub fn base_url(mut self, url: impl Into<String>) -> Self {
            self.endpoint.base_url = url.into();
            self
        }

        #[doc = $key]
        pub fn key(mut self, key: SecretString) -> Self {
            self.endpoint.key = Some(key);
            self
        }

        /// A header that is sent with every request. Its value is kept secret.
        pub fn header(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
            self.endpoint.headers.push((name.into(), value.into()));
            self
        }

        #[doc = concat!("What the model is called in an agent; `", $provider, ":` and its own name otherwise.")]
        pub fn name(mut self, name: impl Into<String>) -> Self {
            self.endpoint.name = Some(name.into());
            self
        }

        /// How much the model can read and say.
        pub fn limits(mut self, limits: ModelLimits) -> Self {
            self.endpoint.limits = limits;
            self
        }

        /// A client that is shared with other models; one of its own otherwise.
        pub fn http(mut self, http: Http) -> Self {
            self.endpoint.http = Some(http);
            self
        }
    };
}
pub(crate) use endpoint_settings;
