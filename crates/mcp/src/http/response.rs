//! What is said without asking a session.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use serde_json::json;

/// An answer, whole or as a stream.
pub(crate) type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// An answer that says no. It is large, and rare.
pub(crate) type HttpRefusal = Box<HttpResponse>;

/// The code of JSON-RPC for what is no JSON, and for what is no message.
const NO_JSON: i32 = -32700;
const NO_MESSAGE: i32 = -32600;

/// Refuses a request.
pub(crate) fn refused(status: StatusCode, why: &str) -> HttpRefusal {
    error(status, NO_MESSAGE, why)
}

/// Refuses a message that cannot be read.
pub(crate) fn unreadable(why: &str) -> HttpRefusal {
    error(StatusCode::BAD_REQUEST, NO_JSON, why)
}

fn error(status: StatusCode, code: i32, message: &str) -> HttpRefusal {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Box::new(response)
}

/// An answer that says nothing more.
pub(crate) fn empty(status: StatusCode) -> HttpResponse {
    let mut response = Response::new(Empty::new().boxed());
    *response.status_mut() = status;
    response
}

/// The same with a header.
pub(crate) fn with(mut response: HttpResponse, name: HeaderName, value: &'static str) -> HttpResponse {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
