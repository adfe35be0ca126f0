//! What is said without asking a session.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use serde_json::json;

/// An answer, whole or as a stream.
pub(crate) type Reply = Response<BoxBody<Bytes, Infallible>>;

/// An answer that says no. It is large, and rare.
pub(crate) type Refused = Box<Reply>;

/// The code of JSON-RPC for what is no JSON, and for what is no message.
const NO_JSON: i32 = -32700;
const NO_MESSAGE: i32 = -32600;

/// Refuses a request.
pub(crate) fn refused(status: StatusCode, why: &str) -> Refused {
    error(status, NO_MESSAGE, why)
}

/// Refuses a message that cannot be read.
pub(crate) fn unreadable(why: &str) -> Refused {
    error(StatusCode::BAD_REQUEST, NO_JSON, why)
}

fn error(status: StatusCode, code: i32, message: &str) -> Refused {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    let mut reply = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Box::new(reply)
}

/// An answer that says nothing more.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Empty::new().boxed());
    *reply.status_mut() = status;
    reply
}

/// The same with a header.
pub(crate) fn with(mut reply: Reply, name: HeaderName, value: &'static str) -> Reply {
    reply.headers_mut().insert(name, HeaderValue::from_static(value));
    reply
}
