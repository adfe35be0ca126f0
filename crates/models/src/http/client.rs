//! The client, and how patient it is.

use std::time::Duration;

use reqwest::redirect;

use super::failure::described;

/// How a provider is asked.
///
/// ```
/// use std::time::Duration;
/// use prowess_models::{Http, HttpOptions, OpenAi};
///
/// let mut options = HttpOptions::default();
/// options.retries = 1;
/// options.answer_timeout = Duration::from_secs(60);
/// let model = OpenAi::builder("gpt-5.1").http(Http::new(options)?).build()?;
/// # Ok::<(), prowess_models::SetupError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpOptions {
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long the provider may take until it begins to answer.
    pub first_byte_timeout: Duration,
    /// How long the model may take until it says or thinks something, whatever else the provider sends meanwhile to
    /// keep the connection.
    pub first_piece_timeout: Duration,
    /// How long the provider may be silent once it has begun.
    pub idle_timeout: Duration,
    /// How long an answer may take in all, with the times that it was asked for again.
    pub answer_timeout: Duration,
    /// How often it is asked again after a failure that may pass. Once it has said anything it is not.
    pub retries: u32,
    /// How long is waited before it is asked again for the first time. Each time after, it is twice as long.
    pub first_wait: Duration,
    /// The longest wait. A provider that wants to be left alone for longer is not asked again.
    pub longest_wait: Duration,
    /// The longest answer, in bytes as they come.
    pub max_answer_bytes: u64,
    /// Whose proxies are used.
    pub proxies: Proxies,
}

/// Whose proxies are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proxies {
    /// Those that `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` name.
    #[default]
    Environment,
    /// None.
    Ignored,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(15),
            first_byte_timeout: Duration::from_secs(120),
            first_piece_timeout: Duration::from_secs(10 * 60),
            idle_timeout: Duration::from_secs(120),
            answer_timeout: Duration::from_secs(60 * 60),
            retries: 4,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(60),
            max_answer_bytes: 64 * 1024 * 1024,
            proxies: Proxies::default(),
        }
    }
}

/// A client that any number of models share, with its connections. Cloning it is cheap.
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
    /// The address is none.
    #[error("the base URL is not usable: {0}")]
    BaseUrl(String),
    /// A header cannot be sent.
    #[error("the header `{0}` is not usable: it has characters that no header may have")]
    Header(String),
    /// The key cannot be sent.
    #[error("the key is not usable: it has characters that no header may have, such as a line's end")]
    Key,
    /// The client cannot be made.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

impl Http {
    /// A client.
    ///
    /// # Errors
    ///
    /// This machine cannot speak TLS, as when it has no certificates to trust.
    pub fn new(options: HttpOptions) -> Result<Self, SetupError> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("prowess/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(options.connect_timeout)
            // A redirect would take the conversation and the key to wherever it points.
            .redirect(redirect::Policy::none());
        if options.proxies == Proxies::Ignored {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| SetupError::Client(described(error)))?;
        Ok(Self { client, options })
    }
}
