//! One message, read within bounds and looked at before a session sees it.

use std::borrow::Cow;
use std::error::Error;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http::{HeaderName, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::limits::HttpLimits;
use super::response::{HttpRefusal, refused, unreadable};

/// The longest id of a message, in bytes.
const MAX_ID: usize = 256;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What has to be known of a message before it is handed on.
#[derive(Debug, Deserialize)]
#[serde(expecting = "one message, and no batch of them")]
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

/// An id is text or a whole number.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an id is text or a whole number")]
    enum Id<'a> {
        Number(#[expect(dead_code, reason = "looked at by its type alone")] i64),
        #[serde(borrow)]
        Text(Cow<'a, str>),
    }
    match Id::deserialize(deserializer)? {
        Id::Text(text) if text.len() > MAX_ID => Err(D::Error::custom("the id is too long")),
        Id::Number(_) | Id::Text(_) => Ok(()),
    }
}

impl<'a> Envelope<'a> {
    /// Looks at a message.
    pub(crate) fn of(message: &'a [u8]) -> Result<Self, HttpRefusal> {
        let envelope: Self =
            serde_json::from_slice(message).map_err(|error| unreadable(&error.to_string()))?;
        if envelope.jsonrpc != "2.0" {
            return Err(unreadable("`jsonrpc` is not \"2.0\""));
        }
        Ok(envelope)
    }
}

/// Checks whether a message is JSON, before anything is taken out of it.
pub(crate) fn check_json(message: &[u8]) -> Result<(), HttpRefusal> {
    serde_json::from_slice::<IgnoredAny>(message).map_err(|error| unreadable(&error.to_string()))?;
    Ok(())
}

/// Reads a message that is to be JSON. One that is too long is not read to its end, or at all.
pub(crate) async fn read(headers: &HeaderMap, body: Incoming, limits: &HttpLimits) -> Result<Bytes, HttpRefusal> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "A message is application/json"));
    }
    let too_long = || refused(StatusCode::PAYLOAD_TOO_LARGE, "The message is too long");
    if headers.contains_key(CONTENT_LENGTH) && body.size_hint().lower() > limits.body as u64 {
        return Err(too_long());
    }
    match tokio::time::timeout(limits.body_time, collected(body, limits.body)).await {
        Ok(Ok(whole)) => Ok(whole),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
        Ok(Err(_)) => Err(refused(StatusCode::BAD_REQUEST, "The message did not come whole")),
        Err(_) => Err(refused(StatusCode::REQUEST_TIMEOUT, "The message took too long to come")),
    }
}

/// A whole body, in one piece from the beginning: pieces that are put together afterwards are there twice.
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

/// Where a stream is to go on has to be an event of ours: a number, or two.
pub(crate) fn check_last_event(headers: &HeaderMap) -> Result<(), HttpRefusal> {
    let is_number = |text: &str| text.bytes().all(|c| c.is_ascii_digit()) && text.parse::<u32>().is_ok();
    for value in headers.get_all(LAST_EVENT_ID) {
        let is_ours = value.to_str().is_ok_and(|event| match event.split_once('/') {
            Some((index, stream)) => is_number(index) && is_number(stream),
            None => is_number(event),
        });
        if !is_ours {
            return Err(refused(StatusCode::BAD_REQUEST, "Last-Event-ID is no event of this server"));
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
