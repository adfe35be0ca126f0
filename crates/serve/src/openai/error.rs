//! Errors in the form that OpenAI's clients read.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::api::{ApiError, ErrorCode};

/// An error, as OpenAI's clients read it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct OpenAiErrorBody {
    error: OpenAiError,
}

/// What is wrong.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct OpenAiError {
    /// For a person.
    message: String,
    /// What kind of error it is.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The parameter that is wrong. The message names it.
    param: Option<String>,
    /// For programs.
    code: Value,
}

/// Gives an error of the server the form that OpenAI's clients read.
pub(crate) async fn in_their_form(response: Response) -> Response {
    let Some(error) = response.extensions().get::<ApiError>().cloned() else { return response };
    let code = error.code();
    let kind = match code {
        ErrorCode::Unauthorized => "authentication_error",
        ErrorCode::Forbidden => "permission_error",
        ErrorCode::TooMany => "rate_limit_error",
        ErrorCode::Internal | ErrorCode::Unavailable => "server_error",
        _ => "invalid_request_error",
    };
    let error = OpenAiError { message: error.message().to_owned(), kind, param: None, code: json!(code) };
    let body = Json(OpenAiErrorBody { error }).into_response();
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(http::header::CONTENT_LENGTH);
    Response::from_parts(parts, body.into_body())
}

/// An error in a stream that has begun.
pub(crate) fn streamed(message: &str, code: &str) -> Value {
    json!({"error": {"message": message, "type": "server_error", "param": null, "code": code}})
}
