//! How the server talks to an issuer: without redirects, for a limited time, and with bounded answers.

use std::pin::Pin;
use std::time::Duration;

use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};

/// How long an answer of the issuer may take.
const TIME: Duration = Duration::from_secs(10);
/// The most bytes of an answer of the issuer.
const MAX_BYTES: usize = 1 << 20;

/// A client for an issuer.
#[derive(Clone, Debug)]
pub(super) struct IssuerHttp(reqwest::Client);

/// Why a request to an issuer failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum IssuerHttpError {
    /// The connection failed.
    #[error("{0}")]
    Failed(String),
    /// The answer takes too long.
    #[error("it did not answer within {} seconds", TIME.as_secs())]
    TooSlow,
    /// The answer is too large.
    #[error("its answer has more than {MAX_BYTES} bytes")]
    TooLarge,
    /// The answer leads elsewhere.
    #[error("its answer is a redirect, which prowess does not follow")]
    Redirect,
}

impl IssuerHttp {
    /// A client. An issuer on this machine is reached without a proxy.
    pub(super) fn new(is_local: bool) -> Result<Self, String> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("prowess/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none());
        if is_local {
            builder = builder.no_proxy();
        }
        builder.build().map(Self).map_err(|error| told(&error.without_url()))
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, IssuerHttpError> {
        tokio::time::timeout(TIME, self.whole(request)).await.map_err(|_| IssuerHttpError::TooSlow)?
    }

    /// The whole answer to a request.
    async fn whole(&self, request: HttpRequest) -> Result<HttpResponse, IssuerHttpError> {
        let failed = |error: reqwest::Error| IssuerHttpError::Failed(told(&error.without_url()));
        let request = reqwest::Request::try_from(request).map_err(failed)?;
        let mut answer = self.0.execute(request).await.map_err(failed)?;
        if answer.status().is_redirection() {
            return Err(IssuerHttpError::Redirect);
        }
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            if body.len() + piece.len() > MAX_BYTES {
                return Err(IssuerHttpError::TooLarge);
            }
            body.extend_from_slice(&piece);
        }
        let mut response = HttpResponse::new(body);
        *response.status_mut() = answer.status();
        *response.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(response)
    }
}

impl<'c> AsyncHttpClient<'c> for IssuerHttp {
    type Error = IssuerHttpError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, IssuerHttpError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}

/// An error with its causes.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
