//! One connected server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prowess_catalog::Digest;
use rmcp::model::{
    ClientRequest, CustomRequest, ProtocolVersion, ServerNotification, ServerPeerInfo, ServerResult,
    SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, Peer, PeerRequestOptions,
    RunningService,
};
use rmcp::transport::Transport;
use rmcp::{RoleClient, ServiceError};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::command::{Program, StderrTail};
use super::custom_answer;
use super::error::ServerError;
use super::handler::Client;
use super::http;
use super::label::ServerLabel;
use super::options::{Connection, ServerLimits, ServerOptions};
use super::short_line::short_line;
use crate::skills_extension::SKILLS_EXTENSION;

/// The protocol revisions that the client speaks, the preferred one first.
const REVISIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V_2026_07_28, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2025_06_18];

/// The time to connect, by default.
pub(super) const DEFAULT_CONNECT_TIME: Duration = Duration::from_secs(30);
/// The time for an answer, except a tool's, by default.
pub(super) const DEFAULT_ANSWER_TIME: Duration = Duration::from_secs(30);
/// The most bytes of a message, by default: enough for a file of 16 MiB in Base64.
pub(super) const DEFAULT_MESSAGE_BYTES: usize = 24 * 1024 * 1024;

/// A connected server. Dropping it closes the connection, and ends the program that was started for it.
///
/// ```no_run
/// use prowess_mcp::client::{Connection, HeldEntry, Server, ServerOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = ServerOptions::new("docs".parse()?, Connection::command("docs-server", ["--stdio"]));
/// let server = Server::connect(options).await?;
/// for offer in server.skills().await?.offers {
///     let text = server.read(&HeldEntry::from(&offer), "SKILL.md").await?; // verified, or an error
///     println!("{}: {} bytes", offer.published.name(), text.len());
/// }
/// server.close().await;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    label: ServerLabel,
    grants: BTreeMap<String, Digest>,
    limits: ServerLimits,
    running: RunningService<RoleClient, Client>,
    info: Arc<ServerPeerInfo>,
    changes: watch::Receiver<u64>,
    listening: Option<AbortHandle>,
    /// The last field, so that it is dropped after the connection.
    program: Option<Program>,
}

impl Server {
    /// Connects to a server, and starts it if it is a program. Retrieves nothing.
    ///
    /// # Errors
    ///
    /// The server cannot be started or reached, does not answer in time, or speaks no common protocol revision.
    pub async fn connect(options: ServerOptions) -> Result<Self, ServerError> {
        let ServerOptions { label, connection, grants, limits } = options;
        let unreachable = |why: String| ServerError::Unreachable { server: label.clone(), why };
        let client = Client { changes: watch::Sender::new(0) };
        let changes = client.changes.subscribe();
        let (running, program) = match &connection {
            Connection::Command { program, args, env, directory } => {
                let (program, pipes) =
                    Program::start(program, args, env, directory.as_deref(), limits.message_bytes)
                        .map_err(unreachable)?;
                let stderr_tail = program.stderr_tail();
                let running =
                    hello(client.clone(), pipes, &limits, &stderr_tail).await.map_err(unreachable)?;
                (running, Some(program))
            }
            Connection::Http { url, token } => {
                let pipes = http::connection(url, token.as_ref(), &limits).map_err(unreachable)?;
                let stderr_tail = StderrTail::default();
                (hello(client.clone(), pipes, &limits, &stderr_tail).await.map_err(unreachable)?, None)
            }
        };
        let Some(info) = running.peer_info() else {
            return Err(unreachable("it did not say what it supports".to_owned()));
        };
        if !REVISIONS.contains(&info.protocol_version) {
            let revision = short_line(info.protocol_version.as_str());
            return Err(unreachable(format!(
                "it speaks protocol revision {revision}, which prowess does not support"
            )));
        }
        let listening = (info.protocol_version == ProtocolVersion::V_2026_07_28)
            .then(|| tokio::spawn(listen(running.peer().clone(), client)).abort_handle());
        Ok(Self { label, grants, limits, running, info, changes, listening, program })
    }

    /// The configured label.
    pub fn label(&self) -> &ServerLabel {
        &self.label
    }

    /// The protocol revision of the connection.
    pub fn revision(&self) -> &str {
        self.info.protocol_version.as_str()
    }

    /// Whether the server declared the Skills extension.
    pub fn has_skills(&self) -> bool {
        let extensions = self.info.capabilities.extensions.as_ref();
        extensions.is_some_and(|extensions| extensions.contains_key(SKILLS_EXTENSION))
    }

    /// Whether the server declared tools.
    pub fn has_tools(&self) -> bool {
        self.info.capabilities.tools.is_some()
    }

    /// The limits of this server.
    pub fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    /// Whether the connection has ended.
    pub fn is_gone(&self) -> bool {
        self.running.is_closed() || self.running.peer().is_transport_closed()
    }

    /// Counts how often the server said that its skills, resources or tools changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Treats everything known about the server as outdated, as if it had announced a change.
    pub(crate) fn note_outdated(&self) {
        self.running.service().note_change();
    }

    /// Closes the connection, and ends the program that was started for it.
    pub async fn close(mut self) {
        let _ = self.running.close_with_timeout(Duration::from_secs(2)).await;
        if let Some(program) = self.program.take() {
            program.end().await;
        }
    }

    pub(crate) fn grants(&self) -> &BTreeMap<String, Digest> {
        &self.grants
    }

    /// Sends a request of an extension, whose answer is an object.
    pub(crate) async fn custom(&self, method: &'static str, params: Value) -> Result<Value, ServerError> {
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        match self.request(method, request, self.limits.answer).await? {
            ServerResult::CustomResult(result) => Ok(custom_answer::unwrap_result(result.0)),
            _ => Err(self.odd(method, "it answers another request")),
        }
    }

    /// Sends a request. Cancels it at the server if this future is dropped.
    pub(crate) async fn request(
        &self,
        method: &'static str,
        request: ClientRequest,
        limit: Duration,
    ) -> Result<ServerResult, ServerError> {
        let peer = self.running.peer();
        let ask = async {
            let options = PeerRequestOptions::no_options();
            let handle = peer.send_request_with_option(request, options).await?;
            let mut open = OpenRequest(Some((peer.clone(), handle.id.clone())));
            let answer = handle.await_response().await;
            open.0 = None;
            answer
        };
        match tokio::time::timeout(limit, ask).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                if let (ServiceError::TransportClosed, Some(program)) = (&error, &self.program) {
                    program.stderr_tail().wait().await;
                }
                Err(self.failed(method, error))
            }
            Err(_) => Err(ServerError::TimedOut { server: self.label.clone(), method, limit }),
        }
    }

    fn failed(&self, method: &'static str, error: ServiceError) -> ServerError {
        let server = self.label.clone();
        match error {
            ServiceError::McpError(error) => ServerError::Refused {
                server,
                method,
                code: error.code.0,
                message: short_line(&error.message),
            },
            ServiceError::TransportClosed => {
                let stderr_tail = self.program.as_ref().map(|program| program.stderr_tail().describe());
                let why = format!("it ended the connection{}", stderr_tail.unwrap_or_default());
                ServerError::Unreachable { server, why }
            }
            ServiceError::TransportSend(error) => {
                ServerError::Unreachable { server, why: short_line(&error.error.to_string()) }
            }
            error => ServerError::Odd { server, method, why: short_line(&error.to_string()) },
        }
    }

    pub(crate) fn odd(&self, method: &'static str, why: &str) -> ServerError {
        ServerError::Odd { server: self.label.clone(), method, why: short_line(why) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("label", &self.label).finish_non_exhaustive()
    }
}

/// A request without an answer. Dropping it cancels the request at the server.
struct OpenRequest(Option<(Peer<RoleClient>, rmcp::model::RequestId)>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let Some((peer, id)) = self.0.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let params = rmcp::model::CancelledNotificationParam::new(Some(id), None);
            let _ = tokio::time::timeout(Duration::from_secs(5), peer.notify_cancelled(params)).await;
        });
    }
}

/// Tries the newest protocol revision first, then the handshake of the older ones.
async fn hello<T: Transport<RoleClient> + 'static>(
    client: Client,
    transport: T,
    limits: &ServerLimits,
    stderr_tail: &StderrTail,
) -> Result<RunningService<RoleClient, Client>, String> {
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: REVISIONS.to_vec(),
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    match tokio::time::timeout(limits.connect, client.serve_with_lifecycle(transport, lifecycle)).await {
        Ok(Ok(running)) => Ok(running),
        Ok(Err(error)) => {
            stderr_tail.wait().await;
            Err(format!("{}{}", reason(&error), stderr_tail.describe()))
        }
        Err(_) => {
            let limit = limits.connect.as_secs_f64();
            Err(format!("it did not finish the handshake within {limit} seconds{}", stderr_tail.describe()))
        }
    }
}

/// Why there is no connection, for the person who configured the server.
fn reason(error: &ClientInitializeError) -> String {
    let sent = match error {
        ClientInitializeError::TransportError { error, .. } => error,
        ClientInitializeError::ConnectionClosed(_) => {
            return "it ended the connection before the handshake".to_owned();
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return reason(fallback),
        error => return short_line(&error.to_string()),
    };
    // The innermost cause says what happened.
    let mut cause: &(dyn std::error::Error + 'static) = &*sent.error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    let text = text.strip_prefix("unexpected server response: ").unwrap_or(&text);
    match text.get(..8) {
        Some("HTTP 401") => "its token is missing or wrong (HTTP 401)".to_owned(),
        Some("Broken p") => "it ended before the handshake".to_owned(),
        Some("HTTP 403") => "it refuses access (HTTP 403)".to_owned(),
        _ => short_line(text),
    }
}

/// Subscribes to the changes of a server of the newest revision.
async fn listen(peer: Peer<RoleClient>, client: Client) {
    let filter = SubscriptionFilter::builder().tools_list_changed().resources_list_changed().build();
    let Ok(mut subscription) = peer.listen(filter).await else { return };
    while let Ok(Some(notification)) = subscription.next().await {
        if matches!(
            notification,
            ServerNotification::ResourceListChangedNotification(_)
                | ServerNotification::ToolListChangedNotification(_)
        ) {
            client.note_change();
        }
    }
}
