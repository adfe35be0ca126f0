//! Errors of the API.

use std::fmt;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use prowess_agent::queue::QueueError;
use prowess_agent::thread::ThreadError;
use prowess_store::serve::{AccountError, AuditError, OwnedThreadError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::agents::BoxError;

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorCode {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    Conflict,
    TooLarge,
    TooMany,
    Unsupported,
    Unavailable,
    Internal,
}

impl ErrorCode {
    fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Conflict => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unsupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// An error, as clients read it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ApiErrorBody {
    pub(crate) error: ApiErrorText,
}

/// What is wrong.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ApiErrorText {
    /// For programs.
    pub(crate) code: ErrorCode,
    /// For a person.
    pub(crate) message: String,
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    code: ErrorCode,
    message: String,
    /// After how many seconds another try is worth it.
    retry_after: Option<u32>,
}

impl ApiError {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(ErrorCode::Unauthorized, "Sign in, or send a valid token: `Authorization: Bearer TOKEN`.")
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Forbidden, message)
    }

    pub(crate) fn not_found(what: impl fmt::Display) -> Self {
        Self::new(ErrorCode::NotFound, format!("There is no {what}."))
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Conflict, message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::TooLarge, message)
    }

    pub(crate) fn too_many(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::TooMany, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unavailable, message)
    }

    /// Tells programs after how many seconds another try is worth it.
    pub(crate) fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unsupported, message)
    }

    /// An error that is not the client's fault. Its reason goes to the log, because it may name paths and hosts.
    pub(crate) fn internal(reason: &dyn fmt::Display) -> Self {
        tracing::error!(error = %reason, "A request failed");
        Self::new(ErrorCode::Internal, "The server failed. Its log says why.")
    }

    /// A turn that failed, with its reason for a person.
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, reason)
    }

    /// The response with another status.
    pub(crate) fn with_status(self, status: StatusCode) -> Response {
        let mut response = self.into_response();
        *response.status_mut() = status;
        response
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let body = ApiErrorBody { error: ApiErrorText { code: self.code, message: self.message.clone() } };
        let mut response = (status, Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
        }
        // A face with errors of another form makes them from this.
        response.extensions_mut().insert(self);
        if status == StatusCode::UNAUTHORIZED {
            let bearer = http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(http::header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

impl From<AccountError> for ApiError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::NameTaken(name) => Self::conflict(format!("There is a user `{name}` already.")),
            AccountError::InvalidName => Self::bad_request("This name cannot be used."),
            AccountError::NoUser(_) => Self::not_found("such user"),
            error => Self::internal(&error),
        }
    }
}

impl From<OwnedThreadError> for ApiError {
    fn from(error: OwnedThreadError) -> Self {
        match error {
            OwnedThreadError::NotFound(thread) => Self::not_found(format_args!("thread `{thread}`")),
            OwnedThreadError::InUse(_) => {
                Self::conflict("The agent works on the thread. Cancel its turn first.")
            }
            OwnedThreadError::SearchTimedOut => Self::unavailable(
                "The search took too long. Search for other words, or delete threads that you do not need.",
            ),
            OwnedThreadError::InvalidPlace => Self::bad_request("`after` is not from an earlier answer."),
            error => Self::internal(&error),
        }
    }
}

impl From<AuditError> for ApiError {
    fn from(error: AuditError) -> Self {
        Self::internal(&error)
    }
}

impl From<QueueError> for ApiError {
    fn from(error: QueueError) -> Self {
        Self::internal(&error)
    }
}

impl From<ThreadError> for ApiError {
    fn from(error: ThreadError) -> Self {
        match error {
            ThreadError::NotFound(thread) => {
                Self::not_found(format_args!("thread `{thread}`, or not so many events"))
            }
            ThreadError::Leased { .. } => Self::conflict("The thread is in use. Try again when it rests."),
            error => Self::internal(&error),
        }
    }
}

impl From<BoxError> for ApiError {
    fn from(error: BoxError) -> Self {
        Self::internal(&error)
    }
}
