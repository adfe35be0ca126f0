//! An endpoint: a model's address with its key and headers.

use std::fmt;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use prowess_agent::ModelError;
use prowess_agent::model::{ModelErrorKind, ModelLimits, ModelStream};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::{timeout, timeout_at};

use super::Decoder;
use super::client::{Http, HttpOptions, SetupError};
use super::failure::{Failure, describe, plain};
use super::provider_error::ProviderError;
use super::response::{Deadline, ResponseStream};
use super::retry::{RetryWaits, retry_after};

/// How much of an error's body is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The shortest part of a header or an address that is treated as a secret, in bytes.
const MIN_PART: usize = 4;

/// A shorter secret is hidden only as a whole word, because any word could contain it.
const LONG_SECRET: usize = 8;

/// What replaces a secret in a message.
const HIDDEN: &str = "[secret]";

/// Words at the beginning of authentication headers. They are no secrets.
const SCHEMES: [&str; 4] = ["basic", "bearer", "digest", "token"];

/// A model's address with its key and headers.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// The model's name in the agent.
    name: String,
    limits: ModelLimits,
    url: Url,
    headers: HeaderMap,
    /// What no message may contain, the longest first.
    secrets: Vec<SecretString>,
    http: Http,
}

/// Builds an [`Endpoint`].
#[derive(Clone, Default)]
pub(crate) struct EndpointBuilder {
    pub(crate) base_url: String,
    pub(crate) name: Option<String>,
    pub(crate) limits: ModelLimits,
    pub(crate) key: Option<SecretString>,
    /// Headers of the wire format, which are no secrets.
    pub(crate) fixed: Vec<(&'static str, &'static str)>,
    pub(crate) headers: Vec<(String, SecretString)>,
    pub(crate) http: Option<Http>,
}

/// The properties of a wire format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// The prefix of the default name of a model.
    pub(crate) provider: &'static str,
    /// The path below the base URL.
    pub(crate) path: &'static str,
    /// The header of the key, and the text before the key.
    pub(crate) key: (&'static str, &'static str),
}

impl EndpointBuilder {
    pub(crate) fn new(base_url: &str) -> Self {
        Self { base_url: base_url.to_owned(), ..Self::default() }
    }

    /// Builds the endpoint of a model.
    pub(crate) fn build(self, model: &str, format: Format) -> Result<Endpoint, SetupError> {
        let name = self.name.unwrap_or_else(|| format!("{}:{model}", format.provider));
        let url = address(&self.base_url, format.path)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in self.fixed {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let (mut secrets, mut parts) = (Vec::new(), Vec::new());
        if let Some(secret) = self.key {
            let (header, prefix) = format.key;
            let text = format!("{prefix}{}", secret.expose_secret());
            let mut value = HeaderValue::try_from(text).map_err(|_| SetupError::Key)?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(header), value);
            secrets.push(secret);
        }
        for (name, secret) in self.headers {
            let invalid = || SetupError::Header(name.clone());
            let header = HeaderName::try_from(&name).map_err(|_| invalid())?;
            let mut value = HeaderValue::try_from(secret.expose_secret()).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.insert(header, value);
            parts.extend(secret.expose_secret().split_whitespace().map(SecretString::from));
            parts.push(secret);
        }
        let is_open =
            url.scheme() == "http" && !(secrets.is_empty() && parts.is_empty()) && !is_loopback(&url);
        parts.extend(url.query_pairs().map(|(_, value)| SecretString::from(value.into_owned())));
        let raw = url.query().unwrap_or_default().split('&');
        parts.extend(raw.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value.into()));
        parts.retain(|part| {
            let part = part.expose_secret();
            part.len() >= MIN_PART && !SCHEMES.iter().any(|scheme| part.eq_ignore_ascii_case(scheme))
        });
        secrets.append(&mut parts);
        secrets.retain(|secret| !secret.expose_secret().is_empty());
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        let http = match self.http {
            Some(http) => http,
            None => Http::new(HttpOptions::default())?,
        };
        if is_open {
            tracing::warn!(model = name, "The key is sent over an unencrypted connection");
        }
        Ok(Endpoint { name, limits: self.limits, url, headers, secrets, http })
    }
}

/// The address of `path` below a base URL.
fn address(base_url: &str, path: &str) -> Result<Url, SetupError> {
    let invalid = |why: &str| SetupError::BaseUrl(why.to_owned());
    let base = Url::parse(base_url.trim()).map_err(|error| SetupError::BaseUrl(error.to_string()))?;
    if !matches!(base.scheme(), "http" | "https") {
        return Err(invalid("it must begin with https:// or http://"));
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err(invalid("it must not contain a user or a password: set the key or a header instead"));
    }
    let mut url = base.clone();
    // Some gateways need the query, such as a version.
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url.set_fragment(None);
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl Endpoint {
    /// The model's name in the agent.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its address without the last part of the path, the query and the fragment.
    pub(crate) fn base(&self) -> String {
        let mut base = self.url.clone();
        base.set_query(None);
        let base = String::from(base);
        base.rsplit_once('/').map_or(base.as_str(), |(base, _)| base).to_owned()
    }

    /// How many tokens the model can read and write.
    pub(crate) fn limits(&self) -> ModelLimits {
        self.limits
    }

    /// The address.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a request to a path below the endpoint's own, once, and returns its answer.
    ///
    /// # Errors
    ///
    /// The provider did not answer, or with an error, or with something else than short JSON.
    pub(crate) async fn ask_below(&self, path: &str, body: &Value) -> Result<Value, ModelError> {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/{path}", self.url.path()));
        let asked = async {
            let body = serde_json::to_vec(body)
                .map_err(|error| Failure::new(ModelErrorKind::Invalid, error.to_string()))?;
            let request = self.http.client.post(url).headers(self.headers.clone()).body(body);
            let unreachable = |error| Failure::new(ModelErrorKind::Unreachable, describe(error));
            let response = request.send().await.map_err(unreachable)?;
            let answer = self.read_whole(response, MAX_ERROR_BYTES).await?;
            super::parse_event(&String::from_utf8_lossy(&answer))
        };
        match timeout(self.http.options.first_byte_timeout, asked).await {
            Ok(answer) => answer.map_err(|failure| self.error(failure)),
            Err(_) => {
                Err(ModelError::new(&self.name, ModelErrorKind::TimedOut, "the provider did not answer"))
            }
        }
    }

    /// An error of this model, without any secret.
    pub(crate) fn error(&self, failure: Failure) -> ModelError {
        let mut message = failure.message;
        for secret in &self.secrets {
            message = hide(&message, secret.expose_secret());
        }
        let mut error = ModelError::new(&self.name, failure.kind, plain(&message));
        (error.retry_after, error.window, error.tokens) =
            (failure.retry_after, failure.window, failure.tokens);
        error
    }

    /// Sends a request, and retries after failures that may pass, until the model begins to respond.
    ///
    /// # Errors
    ///
    /// The model did not begin to respond.
    pub(crate) async fn converse<D: Decoder>(
        &self,
        body: &Value,
        decoder: impl Fn() -> D + Send,
    ) -> Result<ModelStream, ModelError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| ModelError::new(&self.name, ModelErrorKind::Invalid, error.to_string()))?;
        let body = Bytes::from(body);
        let mut waits = RetryWaits::new(&self.http.options);
        let until = Deadline::after(self.http.options.response_timeout);
        let begun = timeout_at(until.at, async {
            loop {
                let failure = match self.attempt(body.clone(), decoder(), until).await {
                    Ok(response) => return Ok(response),
                    Err(failure) => failure,
                };
                let Some(wait) = waits.after(&failure) else { return Err(failure) };
                tracing::debug!(model = self.name, kind = %failure.kind, ?wait, "Retrying the model call");
                tokio::time::sleep(wait).await;
            }
        });
        match begun.await.unwrap_or_else(|_| Err(until.missed())) {
            Ok(response) => Ok(self.clone().stream(response)),
            Err(failure) => Err(self.error(failure)),
        }
    }

    /// Sends a request whose response is one JSON value, and retries after failures that may pass.
    ///
    /// # Errors
    ///
    /// There is no response, or it has more than `most` bytes.
    pub(crate) async fn ask(&self, body: &Value, most: usize) -> Result<Vec<u8>, ModelError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| ModelError::new(&self.name, ModelErrorKind::Invalid, error.to_string()))?;
        let body = Bytes::from(body);
        let mut waits = RetryWaits::new(&self.http.options);
        let until = Deadline::after(self.http.options.response_timeout);
        let asked = timeout_at(until.at, async {
            loop {
                let attempt = async { self.read_whole(self.send(body.clone()).await?, most).await };
                let failure = match attempt.await {
                    Ok(response) => return Ok(response),
                    Err(failure) => failure,
                };
                let Some(wait) = waits.after(&failure) else { return Err(failure) };
                tokio::time::sleep(wait).await;
            }
        });
        asked.await.unwrap_or_else(|_| Err(until.missed())).map_err(|failure| self.error(failure))
    }

    /// Reads a whole response of at most this many bytes.
    async fn read_whole(&self, mut response: Response, most: usize) -> Result<Vec<u8>, Failure> {
        if !response.status().is_success() {
            return Err(self.read_error(response).await);
        }
        let mut whole = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if whole.len() + chunk.len() <= most => whole.extend_from_slice(&chunk),
                Ok(Some(_)) => {
                    let message = format!("the response is longer than {most} bytes");
                    return Err(Failure::malformed(message).lasting());
                }
                Ok(None) => return Ok(whole),
                Err(error) => return Err(Failure::new(ModelErrorKind::Unreachable, describe(error))),
            }
        }
    }

    /// Sends a request, and waits for the head of the response.
    async fn send(&self, body: Bytes) -> Result<Response, Failure> {
        let options = &self.http.options;
        let request = self.http.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let response = match timeout(options.first_byte_timeout, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_timeout() => {
                return Err(Failure::new(ModelErrorKind::TimedOut, describe(error)));
            }
            Ok(Err(error)) => return Err(Failure::new(ModelErrorKind::Unreachable, describe(error))),
            Err(_) => {
                let seconds = options.first_byte_timeout.as_secs_f32();
                let message = format!("the provider sent nothing within {seconds} seconds");
                return Err(Failure::new(ModelErrorKind::TimedOut, message));
            }
        };
        if response.status().is_redirection() { Err(redirected(&response)) } else { Ok(response) }
    }

    fn stream<D: Decoder>(self, response: ResponseStream<D>) -> ModelStream {
        let next = |(mut response, endpoint): (ResponseStream<D>, Self)| async move {
            let delta = response.next().await?.map_err(|failure| endpoint.error(failure));
            Some((delta, (response, endpoint)))
        };
        futures_util::stream::unfold((response, self), next).fuse().boxed()
    }

    async fn attempt<D: Decoder>(
        &self,
        body: Bytes,
        decoder: D,
        until: Deadline,
    ) -> Result<ResponseStream<D>, Failure> {
        let speaks_by = Deadline::after(self.http.options.first_piece_timeout);
        let options = &self.http.options;
        let response = self.send(body).await?;
        if !response.status().is_success() || !may_be_events(response.headers()) {
            return Err(self.read_error(response).await);
        }
        let mut response = ResponseStream::new(response.bytes_stream().boxed(), decoder, options, until);
        match timeout_at(speaks_by.at, response.begin()).await {
            Ok(begun) => begun.map(|()| response),
            Err(_) => {
                let seconds = options.first_piece_timeout.as_secs_f32();
                let message = format!("the model did not begin to respond within {seconds} seconds");
                Err(Failure::new(ModelErrorKind::TimedOut, message))
            }
        }
    }

    /// Reads an HTTP response that is no model response, and returns its error.
    async fn read_error(&self, mut response: Response) -> Failure {
        let (status, wait) = (response.status(), retry_after(response.headers(), SystemTime::now()));
        let mut body = BytesMut::new();
        let read = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                let room = MAX_ERROR_BYTES - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if body.len() == MAX_ERROR_BYTES {
                    break;
                }
            }
        };
        // A part of the body may be enough.
        let _ = timeout(self.http.options.idle_timeout, read).await;
        let mut failure = if status.is_success() {
            let error = serde_json::from_slice(&body).ok().filter(is_error);
            match error.as_ref().and_then(ProviderError::in_json) {
                Some(error) => error.into_failure(),
                None => {
                    let body = String::from_utf8_lossy(&body);
                    Failure::malformed(format!("the response is not a stream of events: {body}")).lasting()
                }
            }
        } else {
            ProviderError::in_response(status, &body).into_failure()
        };
        failure.retry_after = wait;
        failure
    }
}

/// Removes a secret from a message.
fn hide(message: &str, secret: &str) -> String {
    if secret.len() >= LONG_SECRET {
        return message.replace(secret, HIDDEN);
    }
    let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let (mut text, mut rest) = (String::with_capacity(message.len()), message);
    while let Some(at) = rest.find(secret) {
        let (before, after) = (&rest[..at], &rest[at + secret.len()..]);
        text.push_str(before);
        let stands_alone = is_apart(text.chars().next_back()) && is_apart(after.chars().next());
        text.push_str(if stands_alone { HIDDEN } else { secret });
        rest = after;
    }
    text + rest
}

/// Whether JSON with a successful status is an error.
fn is_error(value: &Value) -> bool {
    value.get("error").is_some_and(|error| !error.is_null())
}

/// Whether a body may be a stream of events: its type is none that servers send for errors.
fn may_be_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    !matches!(kind.as_str(), "application/json" | "text/html" | "application/problem+json")
}

fn redirected(response: &Response) -> Failure {
    let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let target = target.and_then(|target| response.url().join(target).ok());
    let host = target.as_ref().and_then(Url::host_str).unwrap_or("an unknown address");
    let message = format!(
        "HTTP {}: the server redirects to {host}, but prowess does not follow redirects: correct the base URL",
        response.status().as_u16()
    );
    Failure::new(ModelErrorKind::Invalid, message)
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.host_str().unwrap_or_default();
        f.debug_struct("Endpoint").field("name", &self.name).field("host", &host).finish_non_exhaustive()
    }
}

impl fmt::Debug for EndpointBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("EndpointBuilder").field("headers", &headers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { provider: "test", path: "/x", key: ("authorization", "Bearer ") };

    #[test]
    fn addresses() {
        let address = |base: &str| address(base, "/chat/completions").map(String::from);
        assert_eq!(address("https://a.test/v1/").unwrap(), "https://a.test/v1/chat/completions");
        assert_eq!(address("http://[::1]:8080").unwrap(), "http://[::1]:8080/chat/completions");
        assert_eq!(address("https://a.test/x?v=1").unwrap(), "https://a.test/x/chat/completions?v=1");
        for invalid in ["", "a.test/v1", "file:///etc", "https://user:secret@a.test/v1"] {
            let error = address(invalid).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn secrets_stay_secret() {
        let mut builder = EndpointBuilder::new("https://a.test/v1");
        builder.key = Some("sk-very-secret".into());
        builder.headers.push(("x-tenant".to_owned(), "tenant-secret".into()));
        assert!(!format!("{builder:?}").contains("secret"));
        let endpoint = builder.build("m", FORMAT).unwrap();
        assert!(!format!("{endpoint:?} {:?}", endpoint.headers).contains("secret"));
        let failure = Failure::new(ModelErrorKind::Auth, "wrong key sk-very-secret for tenant-secret");
        assert_eq!(endpoint.error(failure).message, "wrong key [secret] for [secret]");
        for length in 1_980..2_001 {
            let failure = Failure::new(ModelErrorKind::Auth, format!("{}sk-very-secret", "x".repeat(length)));
            let message = endpoint.error(failure).message;
            assert!(!message.contains("sk-"), "a secret that is cut is one");
        }
    }

    #[test]
    fn whatever_proves_who_asks_is_hidden() {
        let mut builder = EndpointBuilder::new("https://a.test/v1?code=c%2Fd-secret&version=7");
        builder.key = Some("abc".into());
        builder.headers.push(("authorization".to_owned(), "Bearer sk-own-header".into()));
        builder.headers.push(("x-long".to_owned(), "sk-own-header-and-more".into()));
        let endpoint = builder.build("m", FORMAT).unwrap();
        let told = |message: &str| endpoint.error(Failure::new(ModelErrorKind::Auth, message)).message;
        assert_eq!(told("no key sk-own-header-and-more"), "no key [secret]", "and not its beginning alone");
        assert_eq!(told("Bearer sk-own-header is wrong"), "[secret] is wrong");
        assert_eq!(told("the Bearer token `sk-own-header`"), "the Bearer token `[secret]`");
        assert_eq!(told("POST /v1?code=c%2Fd-secret"), "POST /v1?code=[secret]");
        assert_eq!(told("code c/d-secret, version 7"), "code [secret], version 7");
        assert_eq!(told("abc: no abcess of key=abc"), "[secret]: no abcess of key=[secret]");
    }

    #[test]
    fn invalid_headers_are_errors() {
        let mut builder = EndpointBuilder::new("https://a.test");
        builder.key = Some("sk-one\nx: y".into());
        assert_eq!(builder.build("m", FORMAT).unwrap_err(), SetupError::Key);
        let mut builder = EndpointBuilder::new("https://a.test");
        builder.headers.push(("a b".to_owned(), "x".into()));
        assert_eq!(builder.build("m", FORMAT).unwrap_err(), SetupError::Header("a b".to_owned()));
    }
}
