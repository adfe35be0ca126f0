//! Connects to servers over streamable HTTP.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use prowess_base::sse::{SseEvent, SseReader};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode, redirect};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::custom_answer;
use super::options::{BearerToken, ServerLimits, ServerUrl};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const BOTH: &str = "application/json, text/event-stream";
const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
/// The shortest time before a stream is opened again, in milliseconds. A server may want a longer time, not a shorter one.
const MIN_RETRY_MS: u64 = 1_000;

type HttpError = StreamableHttpError<reqwest::Error>;

/// A connection to the server at `url`.
///
/// Only this client knows the token, and it follows no redirect. So the token cannot reach another server.
pub(crate) fn connection(
    url: &ServerUrl,
    token: Option<&BearerToken>,
    limits: &ServerLimits,
) -> Result<impl Transport<RoleClient> + 'static, String> {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
            .map_err(|_| "its token has characters that a header cannot carry".to_owned())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("prowess/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(limits.connect)
        .default_headers(headers)
        .redirect(redirect::Policy::none());
    if url.is_loopback() {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|error| error.without_url().to_string())?;
    let client = BoundedClient { client, most: limits.message_bytes };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    config.max_sse_event_size = limits.message_bytes;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// An HTTP client that stops reading an answer at the limit of a message.
#[derive(Clone)]
struct BoundedClient {
    client: reqwest::Client,
    most: usize,
}

impl BoundedClient {
    async fn body(&self, response: Response) -> Result<Bytes, HttpError> {
        let too_long = || unexpected("a message is too long");
        if response.content_length().is_some_and(|length| length > self.most as u64) {
            return Err(too_long());
        }
        let mut chunks = response.bytes_stream();
        let mut body = BytesMut::new();
        while let Some(chunk) = chunks.try_next().await.map_err(hidden)? {
            if body.len() + chunk.len() > self.most {
                return Err(too_long());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// The events of an answer. Wraps the event that answers the request `asked`.
    fn events(
        &self,
        response: Response,
        asked: Option<RequestId>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let looked_at = move |event: SseEvent| Sse {
            event: Some(event.event).filter(|event| !event.is_empty()),
            data: event.data.and_then(|data| custom_answer::text(data, asked.as_ref())),
            id: event.id,
            retry: event.retry.map(|wanted| wanted.max(MIN_RETRY_MS)),
        };
        let chunks = response.bytes_stream().map_err(|error| io::Error::other(error.without_url()));
        events(chunks, self.most)
            .map_ok(looked_at)
            .map_err(|failure| SseError::Body(Box::new(failure)))
            .boxed()
    }
}

/// The events in a stream of bytes. The first failure ends it, even if more bytes come.
fn events(
    chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    max_event_bytes: usize,
) -> impl Stream<Item = io::Result<SseEvent>> + Send {
    struct Reading<C> {
        chunks: C,
        reader: SseReader,
        complete: VecDeque<SseEvent>,
        is_too_long: bool,
    }
    let start = Reading {
        chunks: Box::pin(chunks),
        reader: SseReader::new(max_event_bytes),
        complete: VecDeque::new(),
        is_too_long: false,
    };
    stream::try_unfold(start, |mut reading| async move {
        loop {
            if let Some(event) = reading.complete.pop_front() {
                return Ok(Some((event, reading)));
            }
            if reading.is_too_long {
                return Err(io::Error::other("a message is too long"));
            }
            let Some(chunk) = reading.chunks.try_next().await? else { return Ok(None) };
            let mut events = Vec::new();
            reading.is_too_long = reading.reader.push(&chunk, &mut events).is_err();
            reading.complete.extend(events);
        }
    })
}

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        let body = serde_json::to_vec(&message)?;
        let mut request = self.client.post(&*uri).header(ACCEPT, BOTH).header(CONTENT_TYPE, JSON).body(body);
        if let Some(session) = &session_id {
            request = request.header(SESSION, &**session);
        }
        let response = request.headers(custom_headers.into_iter().collect()).send().await.map_err(hidden)?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let is_json = has_type(&response, JSON);
        let asked = custom_answer::wrapped_request(&message);
        if status.is_success() && has_type(&response, EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response, asked), session));
        }
        if !is_json || is_about_the_token(status) {
            return if status.is_success() && !is_request {
                Ok(StreamableHttpPostResponse::Accepted)
            } else if is_discovery(&message) && status.is_client_error() && !is_about_the_token(status) {
                Ok(not_discoverable(&message))
            } else {
                Err(unexpected(format!("HTTP {status}")))
            };
        }
        let body = self.body(response).await?;
        let parsed = custom_answer::message(&body, |_| asked.is_some());
        drop(body);
        match parsed {
            Some(JsonRpcMessage::Error(mut error)) if is_discovery(&message) => {
                // A server that refuses the message unread cannot know its id.
                error.id = id_of(&message);
                Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session))
            }
            Some(answer @ JsonRpcMessage::Error(_)) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            Some(answer) if status.is_success() => Ok(StreamableHttpPostResponse::Json(answer, session)),
            _ if status.is_success() && !is_request => Ok(StreamableHttpPostResponse::Accepted),
            _ if is_discovery(&message) && status.is_client_error() => Ok(not_discoverable(&message)),
            _ => Err(unexpected(format!("HTTP {status}, and no message"))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let request = self.client.delete(&*uri).header(SESSION, &*session_id);
        request.headers(custom_headers.into_iter().collect()).send().await.map_err(hidden)?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let mut request = self.client.get(&*uri).header(ACCEPT, EVENTS);
        if let Some(session) = session_id {
            request = request.header(SESSION, &*session);
        }
        if let Some(last) = last_event_id {
            request = request.header(LAST_EVENT, last);
        }
        let response = request.headers(custom_headers.into_iter().collect()).send().await.map_err(hidden)?;
        match response.status() {
            status if status.is_success() && has_type(&response, EVENTS) => Ok(self.events(response, None)),
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status => Err(unexpected(format!("HTTP {status}"))),
        }
    }
}

fn has_type(response: &Response, expected: &str) -> bool {
    let found = response.headers().get(CONTENT_TYPE);
    found.is_some_and(|found| found.as_bytes().starts_with(expected.as_bytes()))
}

fn is_about_the_token(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

fn id_of(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

fn is_discovery(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, rmcp::model::ClientRequest::DiscoverRequest(_))
}

/// The answer for a server of an older revision that knows no discovery, and says so only by its status.
fn not_discoverable(message: &ClientJsonRpcMessage) -> StreamableHttpPostResponse {
    let error = rmcp::ErrorData::invalid_request("the server does not support discovery", None);
    StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, id_of(message)), None)
}

fn unexpected(why: impl Into<Cow<'static, str>>) -> HttpError {
    StreamableHttpError::UnexpectedServerResponse(why.into())
}

/// The cause of an error, without the address, which may contain secrets.
fn hidden(error: reqwest::Error) -> HttpError {
    let error = error.without_url();
    // The innermost cause says what happened.
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    unexpected(cause.to_string())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn an_event_that_is_too_long_ends_the_stream() {
        let chunks =
            ["data: first\n\ndata: second\n\ndata: ", "much too long", " for this\n\ndata: late\n\n"];
        let sent = stream::iter(chunks.map(|chunk| Ok(Bytes::from_static(chunk.as_bytes()))));
        // The server keeps the connection open.
        let mut read = events(sent.chain(stream::pending()), 15).boxed();
        let mut next = || read.next().now_or_never().expect("no wait for the server");
        assert_eq!(next().unwrap().unwrap().text(), "first");
        assert_eq!(next().unwrap().unwrap().text(), "second");
        assert_eq!(next().unwrap().unwrap_err().to_string(), "a message is too long");
        assert!(next().is_none() && next().is_none());
    }

    #[test]
    fn a_broken_connection_ends_the_stream() {
        let broken = || Err(io::Error::other("reset"));
        let sent = stream::iter([Ok(Bytes::from_static(b"data: first\n\n")), broken(), broken()]);
        let read: Vec<_> = events(sent, 100).collect().now_or_never().unwrap();
        assert_eq!(read.len(), 2);
        assert!(read[0].is_ok() && read[1].is_err());
    }
}
