//! The sessions of clients that begin with a handshake.

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
use super::presence::{Presence, Presences};
use super::reply::{Refused, refused};
use crate::consent::Gone;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The random bytes of an id.
const ID_BYTES: usize = 16;

/// All sessions, by their ids.
#[derive(Debug)]
pub(crate) struct Sessions {
    kept: Mutex<HashMap<SessionId, Kept>>,
    seats: Arc<Semaphore>,
    idle: Duration,
    gone: Duration,
}

#[derive(Debug)]
struct Kept {
    handle: LocalSessionHandle,
    usage: Arc<Usage>,
    presences: Presences,
    /// Ends what its client has running.
    stop: CancellationToken,
    _seat: OwnedSemaphorePermit,
}

/// Whether somebody uses a session.
#[derive(Debug)]
struct Usage {
    streams: AtomicUsize,
    last: Mutex<Instant>,
}

/// A stream that is open.
struct Open(Arc<Usage>);

impl Usage {
    fn touch(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_idle(&self, after: Duration) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.streams.load(Ordering::Relaxed) == 0 && last.elapsed() >= after
    }

    fn open(self: &Arc<Self>) -> Open {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(self))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.touch();
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Sessions {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        let seats = Arc::new(Semaphore::new(limits.sessions));
        Self { kept: Mutex::default(), seats, idle: limits.session_idle, gone: limits.gone }
    }

    /// Room for one more.
    pub(crate) fn seat(&self) -> Result<OwnedSemaphorePermit, Refused> {
        let seat = Arc::clone(&self.seats).try_acquire_owned();
        seat.map_err(|_| {
            refused(StatusCode::SERVICE_UNAVAILABLE, "There are too many sessions; try again later")
        })
    }

    /// Whether the request names a session; if so, one of ours that is still there.
    pub(crate) fn is_named(&self, headers: &HeaderMap) -> Result<bool, Refused> {
        if !headers.contains_key(SESSION_ID) {
            return Ok(false);
        }
        let id = only(headers, &SESSION_ID).map(HeaderValue::as_bytes).unwrap_or_default();
        let is_ours = |c: &u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        let id = std::str::from_utf8(id).unwrap_or_default();
        if id.len() != 2 * ID_BYTES || !id.as_bytes().iter().all(is_ours) {
            return Err(refused(StatusCode::BAD_REQUEST, "Mcp-Session-Id is no id of this server"));
        }
        if !self.lock().contains_key(id) {
            return Err(refused(StatusCode::NOT_FOUND, "There is no such session, or not any more"));
        }
        Ok(true)
    }

    /// Ends the sessions that nobody has used for a while.
    pub(crate) async fn close_idle(&self) {
        self.close(|kept| kept.usage.is_idle(self.idle)).await;
    }

    pub(crate) async fn close_all(&self) {
        self.close(|_| true).await;
    }

    async fn close(&self, which: impl Fn(&Kept) -> bool) {
        let closed: Vec<Kept> = self.lock().extract_if(|_, kept| which(kept)).map(|(_, kept)| kept).collect();
        for kept in closed {
            kept.close().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, id: &SessionId) -> Result<(LocalSessionHandle, Arc<Usage>, Presences), VisitError> {
        let kept = self.lock();
        let kept = kept.get(id).ok_or(VisitError::Unknown)?;
        kept.usage.touch();
        Ok((kept.handle.clone(), Arc::clone(&kept.usage), kept.presences.clone()))
    }
}

impl Kept {
    async fn close(self) {
        self.stop.cancel();
        // One that has ended already is closed.
        let _ = self.handle.close().await;
    }
}

/// One request's way to the sessions.
pub(crate) struct Visit {
    pub(crate) sessions: Arc<Sessions>,
    /// For the session that the request begins, if it does: its room, and what ends it.
    pub(crate) begins: Mutex<Option<(OwnedSemaphorePermit, CancellationToken)>>,
}

/// Why a session cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VisitError {
    #[error("there is no such session")]
    Unknown,
    #[error("no session can be begun: {0}")]
    NotBegun(String),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Event(#[from] EventIdParseError),
}

fn messages(
    received: StreamableHttpMessageReceiver,
    open: Open,
    mut presence: Presence,
) -> impl Stream<Item = ServerSseMessage> {
    let mut messages = received.inner;
    poll_fn(move |context| {
        let _open = &open;
        let message = messages.poll_recv(context);
        if matches!(message, Poll::Ready(None)) {
            presence.heard_all();
        }
        message
    })
}

impl SessionManager for Visit {
    type Error = VisitError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let begins = self.begins.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (seat, stop) = begins.ok_or_else(|| VisitError::NotBegun("there is no room".to_owned()))?;
        let mut id = [0; ID_BYTES];
        getrandom::fill(&mut id).map_err(|error| VisitError::NotBegun(error.to_string()))?;
        let id: SessionId = hex::encode(&id).into();
        let mut config = SessionConfig::default();
        // Whether it is idle is decided here, where it is known which streams are open.
        config.keep_alive = None;
        let (handle, worker) = create_local_session(Arc::clone(&id), config);
        let usage = Arc::new(Usage { streams: AtomicUsize::new(0), last: Mutex::new(Instant::now()) });
        let presences = Presences::new(self.sessions.gone);
        let kept = Kept { handle, usage, presences, stop, _seat: seat };
        self.sessions.lock().insert(Arc::clone(&id), kept);
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
        let kept = self.sessions.lock().remove(id);
        if let Some(kept) = kept {
            kept.close().await;
        }
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let (handle, usage, presences) = self.sessions.handle(id)?;
        let open = usage.open();
        let received = handle.establish_request_wise_channel().await?;
        let gone = CancellationToken::new();
        if let ClientJsonRpcMessage::Request(request) = &mut message {
            request.request.extensions_mut().insert(Gone(gone.clone()));
        }
        let presence = presences.begins(received.http_request_id, gone);
        handle.push_message(message, received.http_request_id).await?;
        Ok(messages(received, open, presence))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        let (handle, ..) = self.sessions.handle(id)?;
        Ok(handle.push_message(message, None).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let (handle, usage, presences) = self.sessions.handle(id)?;
        let open = usage.open();
        Ok(messages(handle.establish_common_channel().await?, open, presences.resumes(None)))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let (handle, usage, presences) = self.sessions.handle(id)?;
        let open = usage.open();
        let received = handle.resume(last_event_id.parse()?).await?;
        let presence = presences.resumes(received.http_request_id);
        Ok(messages(received, open, presence))
    }
}
