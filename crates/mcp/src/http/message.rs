//! Reads one message within limits, and checks it before an MCP session gets it.

use std::borrow::Cow;
use std::error::Error;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http::{HeaderName, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::limits::HttpLimits;
use super::response::{HttpRefusal, refused, unreadable};

/// The most bytes of one message, by default.
pub(super) const DEFAULT_BODY_BYTES: usize = 4 << 20;
/// How long a client may take to send a message, by default.
pub(super) const DEFAULT_BODY_TIME: Duration = Duration::from_secs(30);
/// The most bytes of a message's id.
const MAX_ID: usize = 256;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The fields of a message that the server needs before it passes the message on.
#[derive(Debug, Deserialize)]
#[serde(expecting = "one message, not a batch")]
pub(crate) struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(default, rename = "id", deserialize_with = "id")]
    _id: (),
    #[serde(borrow, default)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(default, rename = "params")]
    _params: IgnoredAny,
}

/// Checks that an id is text or a whole number.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an id is text or a whole number")]
    enum Id<'a> {
        Number(#[expect(dead_code, reason = "only its type counts")] i64),
        #[serde(borrow)]
        Text(Cow<'a, str>),
    }
    match Id::deserialize(deserializer)? {
        Id::Text(text) if text.len() > MAX_ID => Err(D::Error::custom("the id is too long")),
        Id::Number(_) | Id::Text(_) => Ok(()),
    }
}

impl<'a> Envelope<'a> {
    /// Reads the fields of a message.
    pub(crate) fn of(message: &'a [u8]) -> Result<Self, HttpRefusal> {
        let envelope: Self =
            serde_json::from_slice(message).map_err(|error| unreadable(&error.to_string()))?;
        if envelope.jsonrpc != "2.0" {
            return Err(unreadable("`jsonrpc` is not \"2.0\""));
        }
        Ok(envelope)
    }
}

/// Checks that a message is JSON, before anything reads its fields.
pub(crate) fn check_json(message: &[u8]) -> Result<(), HttpRefusal> {
    serde_json::from_slice::<IgnoredAny>(message).map_err(|error| unreadable(&error.to_string()))?;
    Ok(())
}

/// Reads a message that claims to be JSON. Stops early if it is too long.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Incoming,
    limits: &HttpLimits,
) -> Result<Bytes, HttpRefusal> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(refused(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "The Content-Type of a message must be application/json",
        ));
    }
    let too_long = || refused(StatusCode::PAYLOAD_TOO_LARGE, "The message is too long");
    if headers.contains_key(CONTENT_LENGTH) && body.size_hint().lower() > limits.body as u64 {
        return Err(too_long());
    }
    match tokio::time::timeout(limits.body_time, collected(body, limits.body)).await {
        Ok(Ok(whole)) => Ok(whole),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
        Ok(Err(_)) => Err(refused(StatusCode::BAD_REQUEST, "The message is incomplete")),
        Err(_) => Err(refused(StatusCode::REQUEST_TIMEOUT, "The client took too long to send the message")),
    }
}

/// Collects a body in one buffer. Joining separate pieces afterwards would hold them twice.
async fn collected(body: Incoming, most: usize) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
    let announced = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let mut whole = BytesMut::with_capacity(announced.unwrap_or_default().min(most));
    let mut body = Limited::new(body, most);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.freeze())
}

/// Checks that the event from which a stream resumes is one of this server: one number, or two.
pub(crate) fn check_last_event(headers: &HeaderMap) -> Result<(), HttpRefusal> {
    let is_number = |text: &str| text.bytes().all(|c| c.is_ascii_digit()) && text.parse::<u32>().is_ok();
    for value in headers.get_all(LAST_EVENT_ID) {
        let is_ours = value.to_str().is_ok_and(|event| match event.split_once('/') {
            Some((index, stream)) => is_number(index) && is_number(stream),
            None => is_number(event),
        });
        if !is_ours {
            return Err(refused(StatusCode::BAD_REQUEST, "Last-Event-ID is not an event of this server"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_pass() {
        for message in [
            r#"{"jsonrpc":"2.0","method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":0,"method":"x","params":{"a":[1]}}"#,
            r#"{"jsonrpc":"2.0","id":"../../etc/passwd","method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":-9,"result":{}}"#,
        ] {
            assert!(Envelope::of(message.as_bytes()).is_ok(), "{message}");
        }
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"x"}}"#, "x".repeat(MAX_ID + 1));
        for not in [
            "",
            "1",
            "{}",
            "[]",
            r#"[{"jsonrpc":"2.0","id":1,"method":"x"}]"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":[1],"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x"} trailing"#,
            &long,
        ] {
            assert!(Envelope::of(not.as_bytes()).is_err(), "{not}");
        }
        assert!(Envelope::of(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}").is_err());
    }
}
