//! What handlers take from requests. A request that does not fit gets the API's own kind of error.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use prowess_agent::json::MODEL_JSON;
use prowess_base::text::escaped_start;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::ApiError;
use crate::app::{App, Counted};
use crate::auth::Caller;

/// How long the body of a request may take: as JSON, as a file, and if nobody knows who sends it.
const JSON_TIME: Duration = Duration::from_secs(60);
const UPLOAD_TIME: Duration = Duration::from_secs(15 * 60);
const STRANGERS_TIME: Duration = Duration::from_secs(5);
/// After what time a token is checked again.
const SLOW: Duration = Duration::from_millis(500);
/// The size of a body that counts as an upload.
const LARGE: u64 = 1 << 20;

/// The body of a request, as JSON.
#[derive(Debug)]
pub(crate) struct ApiJson<T>(pub(crate) T);
/// The body of a request, as it is.
#[derive(Debug)]
pub(crate) struct ApiBytes(pub(crate) Bytes);
/// The query of an address.
#[derive(Debug)]
pub(crate) struct ApiQuery<T>(pub(crate) T);
/// The variable parts of an address's path.
#[derive(Debug)]
pub(crate) struct ApiPath<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<App>> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(ApiError::unsupported(
                "The body must be JSON, with `Content-Type: application/json`.",
            ));
        }
        let Body { bytes, _place } = Body::read(request, app, JSON_TIME).await?;
        // Millions of tiny values take much more memory than their text.
        MODEL_JSON.check(&bytes).map_err(|costly| {
            ApiError::too_large(format!("The body has too many values: {}.", costly.values))
        })?;
        let parse = move || parsed(&bytes);
        let parsed = if _place.is_some() {
            // Others must not wait for it.
            tokio::task::spawn_blocking(parse).await.map_err(|error| ApiError::internal(&error))?
        } else {
            parse()
        };
        parsed.map(Self)
    }
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    match bytes.trim_ascii_start().first() {
        None => return Err(ApiError::bad_request("The body is empty. Send a JSON object.")),
        // An array of values would pass for an object without names.
        Some(b'[') => return Err(ApiError::bad_request("The body must be a JSON object, not an array.")),
        Some(_) => {}
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| misfit(&error.path().to_string(), error.inner()))?;
    json.end().map_err(|error| misfit(".", &error))?;
    Ok(value)
}

/// What is wrong with a body, at this field. The field `.` is the whole body.
fn misfit(field: &str, error: &serde_json::Error) -> ApiError {
    let text = error.to_string();
    if !error.is_data() {
        return ApiError::bad_request(format!("The body is not valid JSON: {text}."));
    }
    let why = escaped_start(&without_types(text.rsplit_once(" at line ").map_or(&*text, |(why, _)| why)));
    ApiError::bad_request(match field {
        "." => format!("The body is wrong: {why}."),
        field => format!("The field `{}` is wrong: {why}.", escaped_start(field)),
    })
}

/// An error without the names of the server's types, which mean nothing to a client.
fn without_types(why: &str) -> String {
    for kind in ["struct ", "enum ", "tuple struct "] {
        if let Some((before, name)) = why.rsplit_once(&format!("expected {kind}")) {
            let rest = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
            return format!("{before}expected an object{rest}");
        }
    }
    why.to_owned()
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

impl FromRequest<Arc<App>> for ApiBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        Ok(Self(Body::read(request, app, UPLOAD_TIME).await?.bytes))
    }
}

/// The body of a request.
struct Body {
    bytes: Bytes,
    /// Large bodies are counted as long as they are in memory.
    _place: Option<Counted>,
}

impl Body {
    async fn read(request: Request, app: &Arc<App>, time: Duration) -> Result<Self, ApiError> {
        let begun = Instant::now();
        let caller = request.extensions().get::<Caller>().cloned();
        let length =
            request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let is_large = length.is_none_or(|length: u64| length > LARGE);
        let place = match &caller {
            Some(caller) if is_large => {
                let place =
                    app.uploads.take(&caller.user.id, app.limits.uploads_per_user, app.limits.uploads);
                let busy = || ApiError::too_many("Too many large bodies arrive at once. Try again.");
                Some(place.ok_or_else(busy)?)
            }
            _ => None,
        };
        // Anybody can send a body without a token.
        let time = if caller.is_some() { time } else { time.min(STRANGERS_TIME) };
        let read = tokio::time::timeout(time, Bytes::from_request(request, app)).await;
        let bytes = read.map_err(|_| ApiError::bad_request("The body took too long."))?.map_err(unread)?;
        if let Some(caller) = caller.filter(|_| begun.elapsed() > SLOW) {
            // The token may have been revoked meanwhile.
            app.accounts.who(&caller.digest).await?.ok_or_else(ApiError::unauthorized)?;
        }
        Ok(Self { bytes, _place: place })
    }
}

/// Why a body could not be read.
fn unread(rejection: BytesRejection) -> ApiError {
    let text = rejection.body_text();
    if rejection.into_response().status() == StatusCode::PAYLOAD_TOO_LARGE {
        return ApiError::too_large("The body is too large.");
    }
    ApiError::bad_request(text)
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(value)| Self(value)).map_err(|rejection| {
            let text = rejection.body_text();
            let why = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            ApiError::bad_request(format!("A parameter is wrong: {}.", escaped_start(why)))
        })
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for ApiPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(value)| Self(value))
            .map_err(|_| ApiError::bad_request("A part of the address is not text in UTF-8."))
    }
}
