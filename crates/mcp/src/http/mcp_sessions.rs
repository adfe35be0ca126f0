//! The MCP sessions of clients that begin with a handshake.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::Stream;
use futures_util::stream::poll_fn;
use http::header::{HeaderMap, HeaderName};
use http::{HeaderValue, StatusCode};
use prowess_base::hex;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions as _, ServerJsonRpcMessage};
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::{
    EventIdParseError, LocalSessionHandle, LocalSessionWorker, SessionConfig, SessionError,
    StreamableHttpMessageReceiver, create_local_session,
};
use rmcp::transport::streamable_http_server::{SessionId, SessionManager};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::guard::only;
use super::limits::HttpLimits;
use super::reconnect::{CallStream, OpenCalls};
use super::response::{HttpRefusal, refused};
use crate::consent::ClientGone;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The most MCP sessions at once, by default.
pub(super) const DEFAULT_SESSIONS: usize = 1024;
/// How long the server keeps an unused MCP session, by default.
pub(super) const DEFAULT_SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// How many random bytes an id has.
const ID_BYTES: usize = 16;

/// All MCP sessions, by their ids.
#[derive(Debug)]
pub(crate) struct McpSessions {
    by_id: Mutex<HashMap<SessionId, McpSession>>,
    places: Arc<Semaphore>,
    idle: Duration,
    reconnect_time: Duration,
}

#[derive(Debug)]
struct McpSession {
    handle: LocalSessionHandle,
    usage: Arc<Usage>,
    open_calls: OpenCalls,
    /// Ends the calls and runs of its client.
    stop: CancellationToken,
    _place: OwnedSemaphorePermit,
}

/// Whether a client uses an MCP session.
#[derive(Debug)]
struct Usage {
    streams: AtomicUsize,
    last: Mutex<Instant>,
}

/// An open stream.
struct OpenStream(Arc<Usage>);

impl Usage {
    fn touch(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_idle(&self, after: Duration) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.streams.load(Ordering::Relaxed) == 0 && last.elapsed() >= after
    }

    fn open(self: &Arc<Self>) -> OpenStream {
        self.streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(Arc::clone(self))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.touch();
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl McpSessions {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        let places = Arc::new(Semaphore::new(limits.sessions));
        let (idle, reconnect_time) = (limits.session_idle, limits.reconnect_time);
        Self { by_id: Mutex::default(), places, idle, reconnect_time }
    }

    /// Takes a place for one more MCP session.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, HttpRefusal> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| {
            refused(StatusCode::SERVICE_UNAVAILABLE, "The server has too many MCP sessions; try again later")
        })
    }

    /// Whether the request names an MCP session. Refuses an id that does not exist here.
    pub(crate) fn is_named(&self, headers: &HeaderMap) -> Result<bool, HttpRefusal> {
        if !headers.contains_key(SESSION_ID) {
            return Ok(false);
        }
        let id = only(headers, &SESSION_ID).map(HeaderValue::as_bytes).unwrap_or_default();
        let is_ours = |c: &u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        let id = std::str::from_utf8(id).unwrap_or_default();
        if id.len() != 2 * ID_BYTES || !id.as_bytes().iter().all(is_ours) {
            return Err(refused(StatusCode::BAD_REQUEST, "Mcp-Session-Id is not an id of this server"));
        }
        if !self.lock().contains_key(id) {
            return Err(refused(
                StatusCode::NOT_FOUND,
                "This MCP session does not exist or has ended; initialize a new one",
            ));
        }
        Ok(true)
    }

    /// Ends the MCP sessions that have been idle too long.
    pub(crate) async fn close_idle(&self) {
        self.close(|session| session.usage.is_idle(self.idle)).await;
    }

    pub(crate) async fn close_all(&self) {
        self.close(|_| true).await;
    }

    async fn close(&self, which: impl Fn(&McpSession) -> bool) {
        let closed: Vec<McpSession> =
            self.lock().extract_if(|_, session| which(session)).map(|(_, session)| session).collect();
        for session in closed {
            session.close().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, McpSession>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(
        &self,
        id: &SessionId,
    ) -> Result<(LocalSessionHandle, Arc<Usage>, OpenCalls), SessionAccessError> {
        let sessions = self.lock();
        let session = sessions.get(id).ok_or(SessionAccessError::Unknown)?;
        session.usage.touch();
        Ok((session.handle.clone(), Arc::clone(&session.usage), session.open_calls.clone()))
    }
}

impl McpSession {
    async fn close(self) {
        self.stop.cancel();
        // It may have ended already.
        let _ = self.handle.close().await;
    }
}

/// One request's access to the MCP sessions.
pub(crate) struct SessionAccess {
    pub(crate) sessions: Arc<McpSessions>,
    /// For a request that begins an MCP session: the place of the session, and the token that ends it.
    pub(crate) begins: Mutex<Option<(OwnedSemaphorePermit, CancellationToken)>>,
}

/// Why an MCP session cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionAccessError {
    #[error("this MCP session does not exist")]
    Unknown,
    #[error("cannot begin an MCP session: {0}")]
    NotBegun(String),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Event(#[from] EventIdParseError),
}

fn messages(
    received: StreamableHttpMessageReceiver,
    open: OpenStream,
    mut call_stream: CallStream,
) -> impl Stream<Item = ServerSseMessage> {
    let mut messages = received.inner;
    poll_fn(move |context| {
        let _open = &open;
        let message = messages.poll_recv(context);
        if matches!(message, Poll::Ready(None)) {
            call_stream.finish();
        }
        message
    })
}

impl SessionManager for SessionAccess {
    type Error = SessionAccessError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let begins = self.begins.lock().unwrap_or_else(PoisonError::into_inner).take();
        let no_place = || SessionAccessError::NotBegun("there is no place for it".to_owned());
        let (place, stop) = begins.ok_or_else(no_place)?;
        let mut id = [0; ID_BYTES];
        getrandom::fill(&mut id).map_err(|error| SessionAccessError::NotBegun(error.to_string()))?;
        let id: SessionId = hex::encode(&id).into();
        let mut config = SessionConfig::default();
        // `close_idle` decides what is idle, because it knows which streams are open.
        config.keep_alive = None;
        let (handle, worker) = create_local_session(Arc::clone(&id), config);
        let usage = Arc::new(Usage { streams: AtomicUsize::new(0), last: Mutex::new(Instant::now()) });
        let open_calls = OpenCalls::new(self.sessions.reconnect_time);
        let session = McpSession { handle, usage, open_calls, stop, _place: place };
        self.sessions.lock().insert(Arc::clone(&id), session);
        Ok((id, WorkerTransport::spawn(worker)))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let (handle, usage, _) = self.sessions.handle(id)?;
        let _open = usage.open();
        Ok(handle.initialize(message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.sessions.handle(id).is_ok())
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        let session = self.sessions.lock().remove(id);
        if let Some(session) = session {
            session.close().await;
        }
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let (handle, usage, open_calls) = self.sessions.handle(id)?;
        let open = usage.open();
        let received = handle.establish_request_wise_channel().await?;
        let gone = CancellationToken::new();
        if let ClientJsonRpcMessage::Request(request) = &mut message {
            request.request.extensions_mut().insert(ClientGone(gone.clone()));
        }
        let call_stream = open_calls.begins(received.http_request_id, gone);
        handle.push_message(message, received.http_request_id).await?;
        Ok(messages(received, open, call_stream))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        let (handle, ..) = self.sessions.handle(id)?;
        Ok(handle.push_message(message, None).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let (handle, usage, open_calls) = self.sessions.handle(id)?;
        let open = usage.open();
        Ok(messages(handle.establish_common_channel().await?, open, open_calls.resumes(None)))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let (handle, usage, open_calls) = self.sessions.handle(id)?;
        let open = usage.open();
        let received = handle.resume(last_event_id.parse()?).await?;
        let call_stream = open_calls.resumes(received.http_request_id);
        Ok(messages(received, open, call_stream))
    }
}
