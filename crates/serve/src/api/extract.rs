//! What handlers take from requests. A request that does not fit gets the API's own kind of error.

use axum::Json;
use axum::extract::rejection::{BytesRejection, JsonRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::response::IntoResponse;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::ApiError;

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

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Json::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(JsonRejection::MissingJsonContentType(_)) => {
                Err(ApiError::unsupported("The body must be JSON, with `Content-Type: application/json`."))
            }
            Err(JsonRejection::BytesRejection(rejection)) => Err(unread(rejection)),
            Err(rejection) => Err(ApiError::bad_request(rejection.body_text())),
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for ApiBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        Bytes::from_request(request, state).await.map(Self).map_err(unread)
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
        query
            .map(|Query(value)| Self(value))
            .map_err(|rejection| ApiError::bad_request(rejection.body_text()))
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for ApiPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(value)| Self(value)).map_err(|rejection| ApiError::bad_request(rejection.body_text()))
    }
}
