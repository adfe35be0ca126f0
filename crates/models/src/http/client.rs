//! The HTTP client, its timeouts and limits.

use std::time::Duration;

use reqwest::redirect;

use super::failure::describe;
use super::response::{
    DEFAULT_FIRST_BYTE_TIMEOUT, DEFAULT_FIRST_PIECE_TIMEOUT, DEFAULT_IDLE_TIMEOUT, DEFAULT_RESPONSE_BYTES,
    DEFAULT_RESPONSE_TIMEOUT,
};
use super::retry::{DEFAULT_FIRST_WAIT, DEFAULT_LONGEST_WAIT, DEFAULT_RETRIES};

/// How long connecting may take, by default.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Timeouts, retries and limits of requests to a provider.
///
/// ```
/// use std::time::Duration;
/// use prowess_models::{Http, HttpOptions, OpenAi};
///
/// let mut options = HttpOptions::default();
/// options.retries = 1;
/// options.response_timeout = Duration::from_secs(60);
/// let model = OpenAi::builder("gpt-5.1").http(Http::new(options)?).build()?;
/// # Ok::<(), prowess_models::SetupError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpOptions {
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the provider may take until the first byte of its response.
    pub first_byte_timeout: Duration,
    /// How long the model may take until its first text, reasoning or call, whatever the provider sends meanwhile to keep
    /// the connection open.
    pub first_piece_timeout: Duration,
    /// How long the provider may send nothing in the middle of a response.
    pub idle_timeout: Duration,
    /// How long a response may take in total, including retries.
    pub response_timeout: Duration,
    /// How often to retry after a failure that may pass. There are no retries once the model has begun to respond.
    pub retries: u32,
    /// The wait before the first retry. It doubles with each retry.
    pub first_wait: Duration,
    /// The longest wait. If the provider asks for a longer one, there is no retry.
    pub longest_wait: Duration,
    /// The longest response, in bytes on the wire.
    pub max_response_bytes: u64,
    /// Which proxies to use.
    pub proxies: Proxies,
}

/// Which proxies to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proxies {
    /// Those of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
    #[default]
    Environment,
    /// None.
    Ignored,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            first_byte_timeout: DEFAULT_FIRST_BYTE_TIMEOUT,
            first_piece_timeout: DEFAULT_FIRST_PIECE_TIMEOUT,
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
            response_timeout: DEFAULT_RESPONSE_TIMEOUT,
            retries: DEFAULT_RETRIES,
            first_wait: DEFAULT_FIRST_WAIT,
            longest_wait: DEFAULT_LONGEST_WAIT,
            max_response_bytes: DEFAULT_RESPONSE_BYTES,
            proxies: Proxies::default(),
        }
    }
}

/// An HTTP client. Models can share one, with its connections. Clones are handles to the same client.
///
/// ```
/// use prowess_models::{Anthropic, Http, HttpOptions, OpenAi};
///
/// let http = Http::new(HttpOptions::default())?;
/// let small = OpenAi::builder("gpt-5.1-mini").http(http.clone()).build()?;
/// let large = Anthropic::builder("claude-sonnet-4-6").http(http).build()?;
/// # Ok::<(), prowess_models::SetupError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Http {
    pub(super) client: reqwest::Client,
    pub(super) options: HttpOptions,
}

/// Why a model cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The base URL is invalid.
    #[error("the base URL is invalid: {0}")]
    BaseUrl(String),
    /// A header is invalid.
    #[error("the header `{0}` is invalid: it has characters that headers cannot have")]
    Header(String),
    /// The key is invalid.
    #[error("the key is invalid: it has characters that headers cannot have, such as a line break")]
    Key,
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

impl Http {
    /// Creates a client.
    ///
    /// # Errors
    ///
    /// TLS cannot be set up, for example because this machine has no root certificates.
    pub fn new(options: HttpOptions) -> Result<Self, SetupError> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("prowess/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(options.connect_timeout)
            // A redirect could send the conversation and the key anywhere.
            .redirect(redirect::Policy::none());
        if options.proxies == Proxies::Ignored {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| SetupError::Client(describe(error)))?;
        Ok(Self { client, options })
    }
}
