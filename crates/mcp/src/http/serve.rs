//! Accepts connections, and passes each request to its MCP session.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::HttpServerOptions;
use super::admission::Admission;
use super::connection::Connection;
use super::guard::{Guard, readable_by};
use super::limits::HttpLimits;
use super::mcp_sessions::{McpSessions, SessionAccess};
use super::message::{self, Envelope};
use super::response::{HttpRefusal, HttpResponse, refused, unreadable};
use super::unauthenticated::Unauthenticated;
use crate::carry_over::CarryOver;
use crate::incoming::{self, Unfit};
use crate::server::SkillServer;

/// The path of the server.
const PATH: &str = "/mcp";
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The first revision without a handshake and without MCP sessions.
const SESSIONLESS: &[u8] = b"2026-07-28";
/// The most connections of clients at once, by default.
pub(super) const DEFAULT_CONNECTIONS: usize = 2048;
/// The most headers of one request, by default.
pub(super) const DEFAULT_HEADERS: usize = 64;
/// The most bytes of all headers of a request and its first line, by default.
pub(super) const DEFAULT_HEADER_BYTES: usize = 16 << 10;
/// How long a connection may take to send the headers of its next request, by default.
pub(super) const DEFAULT_HEADER_TIME: Duration = Duration::from_secs(60);
/// How long a client may read no byte of a response, by default.
pub(super) const DEFAULT_STALLED_TIME: Duration = Duration::from_secs(30);
/// How long connections may take to end when the server stops, by default.
pub(super) const DEFAULT_SHUTDOWN_TIME: Duration = Duration::from_secs(2);
/// The buffer of a connection in each direction: the longest headers, and little more. A waiting call keeps its connection
/// open, so this counts for every waiting call.
const BUFFER: usize = 18 << 10;
/// How long a client waits for a place if there are too many clients.
const WAIT_FOR_ROOM: Duration = Duration::from_secs(30);
/// How long the server pauses after the system could not open another connection.
const PAUSE: Duration = Duration::from_millis(100);

type MakeServer = dyn Fn() -> BoxFuture<'static, SkillServer> + Send + Sync;

/// The state that all connections share.
struct Service {
    guard: Guard,
    limits: HttpLimits,
    sessions: Arc<McpSessions>,
    /// The state that sessionless requests leave for later ones.
    carry_over: CarryOver,
    make_server: Box<MakeServer>,
    /// The places for connections of clients.
    room: Arc<Semaphore>,
    unauthenticated: Arc<Unauthenticated>,
    stop: CancellationToken,
}

/// Serves clients over streamable HTTP at `/mcp` until `until` is done. Then it accepts no more connections, and ends the
/// MCP sessions with their runs.
///
/// `make_server` creates a server for each client that begins an MCP session. Clients of 2026-07-28 begin none: each of
/// their requests gets its own server, so a skill that one request loads is not loaded for the next. Only questions that
/// wait for a reply and outputs of runs last between requests, under unguessable names.
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_mcp::{HttpServerOptions, LiveSkills, SkillServer, Token, serve_http};
/// use prowess_skills::SkillSession;
/// use tokio::net::TcpListener;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let live = LiveSkills::new(Catalog::empty());
/// let make_server = move || {
///     let live = live.clone();
///     async move {
///         let session = SkillSession::builder(live.catalog()).build().await;
///         SkillServer::new(live, session)
///     }
/// };
/// let (token, secret) = Token::random()?; // clients send the secret
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// println!("http://{}/mcp", listener.local_addr()?);
/// # drop(secret);
/// serve_http(listener, HttpServerOptions::new(token), make_server, async { /* until Ctrl-C, say */ }).await;
/// # Ok(())
/// # }
/// ```
pub async fn serve_http<F, Made>(
    listener: TcpListener,
    options: HttpServerOptions,
    make_server: F,
    until: impl Future<Output = ()>,
) where
    F: Fn() -> Made + Send + Sync + 'static,
    Made: Future<Output = SkillServer> + Send + 'static,
{
    let HttpServerOptions { token, hosts, origins, limits } = options;
    let service = Arc::new(Service {
        guard: Guard { token, hosts, origins },
        sessions: Arc::new(McpSessions::new(&limits)),
        carry_over: CarryOver::shared(),
        make_server: Box::new(move || Box::pin(make_server())),
        room: Arc::new(Semaphore::new(limits.connections)),
        unauthenticated: Arc::new(Unauthenticated::new(limits.unauthenticated)),
        stop: CancellationToken::new(),
        limits,
    });
    let mut connections = JoinSet::new();
    tokio::select! {
        () = until => {}
        () = service.accept(&listener, &mut connections) => {}
        () = service.tidy() => {}
    }
    drop(listener);
    service.stop.cancel();
    service.sessions.close_all().await;
    let ended = async { while connections.join_next().await.is_some() {} };
    // Connections that do not end by themselves are aborted.
    let _ = tokio::time::timeout(service.limits.shutdown_time, ended).await;
    connections.shutdown().await;
}

impl Service {
    async fn accept(self: &Arc<Self>, listener: &TcpListener, connections: &mut JoinSet<()>) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let service = Arc::clone(self);
                    let admission = Admission::of(self.unauthenticated.enter(from.ip()));
                    connections.spawn(async move {
                        if let Err(error) = service.connection(stream, admission).await {
                            tracing::debug!(%error, "A connection ended");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a connection");
                    // Perhaps too many files are open: unauthenticated connections go first.
                    self.unauthenticated.end_one();
                    tokio::time::sleep(PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }

    /// Ends idle MCP sessions from time to time.
    async fn tidy(&self) {
        let often = self.limits.session_idle / 4;
        let mut ticks = interval(often.clamp(Duration::from_millis(10), Duration::from_secs(30)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.sessions.close_idle().await;
        }
    }

    async fn connection(self: &Arc<Self>, stream: TcpStream, admission: Admission) -> io::Result<()> {
        let local = stream.local_addr()?;
        stream.set_nodelay(true)?;
        let stream = TokioIo::new(Connection::new(stream, self.limits.stalled_time));
        let leave = admission.leave();
        let admission = Arc::new(admission);
        let known = Arc::clone(&admission);
        let answer = service_fn(move |request| {
            let (service, admission) = (Arc::clone(self), Arc::clone(&known));
            async move { Ok::<_, Infallible>(service.answer(local, &admission, request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_time)
            .max_headers(self.limits.headers)
            .max_header_size(self.limits.header_bytes)
            .max_buf_size(BUFFER)
            .serve_connection(stream, answer);
        let mut connection = std::pin::pin!(connection);
        // A connection ends if it has not sent the token in time, or if its place in the pool is taken.
        let is_late = async {
            tokio::select! {
                () = tokio::time::sleep(self.limits.token_time) => {}
                () = leave.cancelled() => {}
            }
            if !admission.is_unauthenticated() {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = is_late => return Ok(()),
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        ended.map_err(io::Error::other)
    }

    async fn answer(
        &self,
        local: SocketAddr,
        admission: &Admission,
        request: Request<Incoming>,
    ) -> HttpResponse {
        let origin = match self.guard.admit(local, &request) {
            Ok(origin) => origin,
            Err(refused) => return *refused,
        };
        if !admission.admit(&self.room, WAIT_FOR_ROOM).await {
            let full = "The server has too many connections; try again later";
            return readable_by(*refused(StatusCode::SERVICE_UNAVAILABLE, full), origin.as_ref());
        }
        // On the heap: otherwise its room would stay in the connection's future while the response is sent.
        let response = match Box::pin(self.attend(request)).await {
            Ok(response) => response,
            Err(refused) => *refused,
        };
        readable_by(response, origin.as_ref())
    }

    /// Passes a request to the MCP session that it names or begins, or to a server of its own.
    async fn attend(&self, mut request: Request<Incoming>) -> Result<HttpResponse, HttpRefusal> {
        if request.uri().path() != PATH {
            return Err(refused(StatusCode::NOT_FOUND, "The server is at /mcp"));
        }
        // No log of requests may contain the token.
        request.headers_mut().remove(AUTHORIZATION);
        let is_named = self.sessions.is_named(request.headers())?;
        message::check_last_event(request.headers())?;
        if request.method() != Method::POST {
            let access = self.access(None);
            let without_body = request.map(|_| http_body_util::Empty::<Bytes>::new());
            let mut response = self.rmcp(access, None).handle(without_body).await;
            // The MCP session has ended already, so nothing is left to accept.
            if response.status() == StatusCode::ACCEPTED {
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            return Ok(response);
        }
        let (parts, body) = request.into_parts();
        let body = message::read(&parts.headers, body, &self.limits).await?;
        message::check_json(&body)?;
        let body = match incoming::lean(&body).map_err(|why| unfit(&why))? {
            Cow::Borrowed(_) => body,
            Cow::Owned(lean) => Bytes::from(lean),
        };
        let method = Envelope::of(&body)?.method;
        let mut begins = None;
        let server = if method.as_deref() == Some("initialize") && !is_named {
            let place = self.sessions.place()?;
            let stop = self.stop.child_token();
            begins = Some((place, stop.clone()));
            Some((self.make_server)().await.until(stop))
        } else if is_sessionless(&parts.headers) || method.as_deref() == Some("server/discover") {
            let server = (self.make_server)().await.until(self.stop.child_token());
            Some(server.for_one_request(self.carry_over.clone()))
        } else {
            None
        };
        drop(method);
        let request = Request::from_parts(parts, Full::new(body));
        let response = self.rmcp(self.access(begins), server).handle(request).await;
        // The media type was checked before. Here the status means that the body is not a message.
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            let why = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
            let why = why.unwrap_or_default();
            return Err(unreadable(&String::from_utf8_lossy(&why)));
        }
        Ok(response)
    }

    fn access(
        &self,
        begins: Option<(tokio::sync::OwnedSemaphorePermit, CancellationToken)>,
    ) -> SessionAccess {
        SessionAccess { sessions: Arc::clone(&self.sessions), begins: Mutex::new(begins) }
    }

    /// `rmcp`'s service for one request, with a new server if the request needs one.
    fn rmcp(
        &self,
        access: SessionAccess,
        server: Option<SkillServer>,
    ) -> StreamableHttpService<SkillServer, SessionAccess> {
        let config = StreamableHttpServerConfig::default()
            // The guard has checked the host.
            .disable_allowed_hosts()
            .with_json_response(true)
            .with_max_request_body_bytes(self.limits.body)
            .with_cancellation_token(self.stop.child_token());
        let make =
            move || server.clone().ok_or_else(|| io::Error::other("the request begins no MCP session"));
        StreamableHttpService::new(make, Arc::new(access), config)
    }
}

/// Refuses a message that would take too much memory.
fn unfit(why: &Unfit) -> HttpRefusal {
    refused(StatusCode::PAYLOAD_TOO_LARGE, &why.to_string())
}

/// Whether a request is of a revision without MCP sessions.
fn is_sessionless(headers: &HeaderMap) -> bool {
    headers.get(PROTOCOL_VERSION).is_some_and(|version| version.as_bytes() >= SESSIONLESS)
}
