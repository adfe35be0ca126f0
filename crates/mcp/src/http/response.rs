//! HTTP responses that the server gives without an MCP session.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use serde_json::json;

/// A response, whole or as a stream.
pub(crate) type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// A response that refuses the request. Boxed, because it is large and rare.
pub(crate) type HttpRefusal = Box<HttpResponse>;

/// JSON-RPC's codes for "this is not JSON" and "this is not a message".
const NOT_JSON: i32 = -32700;
const NOT_A_MESSAGE: i32 = -32600;

/// Refuses a request.
pub(crate) fn refused(status: StatusCode, why: &str) -> HttpRefusal {
    error(status, NOT_A_MESSAGE, why)
}

/// Refuses a message that cannot be read.
pub(crate) fn unreadable(why: &str) -> HttpRefusal {
    error(StatusCode::BAD_REQUEST, NOT_JSON, why)
}

fn error(status: StatusCode, code: i32, message: &str) -> HttpRefusal {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Box::new(response)
}

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> HttpResponse {
    let mut response = Response::new(Empty::new().boxed());
    *response.status_mut() = status;
    response
}

/// The response with one more header.
pub(crate) fn with(mut response: HttpResponse, name: HeaderName, value: &'static str) -> HttpResponse {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
