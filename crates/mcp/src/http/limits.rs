//! Limits of the HTTP server: sizes, numbers and times of messages, connections and MCP sessions.
//!
//! Each default is in the file that applies the limit. The number of unanswered calls in one MCP session is in
//! `unanswered_calls.rs`; it holds for every transport.

use std::time::Duration;

use super::mcp_sessions::{DEFAULT_SESSION_IDLE, DEFAULT_SESSIONS};
use super::message::{DEFAULT_BODY_BYTES, DEFAULT_BODY_TIME};
use super::reconnect::DEFAULT_RECONNECT_TIME;
use super::serve::{
    DEFAULT_CONNECTIONS, DEFAULT_HEADER_BYTES, DEFAULT_HEADER_TIME, DEFAULT_HEADERS, DEFAULT_SHUTDOWN_TIME,
    DEFAULT_STALLED_TIME,
};
use super::unauthenticated::{DEFAULT_TOKEN_TIME, DEFAULT_UNAUTHENTICATED};

/// How much the clients of an HTTP server may use. The server refuses more, and keeps nothing of it.
///
/// ```
/// use std::time::Duration;
/// use prowess_mcp::HttpLimits;
///
/// let mut limits = HttpLimits::default();
/// assert_eq!(limits.body, 4 << 20);
/// limits.session_idle = Duration::from_secs(60);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// The most bytes of one message: 4 MiB.
    pub body: usize,
    /// The most headers of one request: 64.
    pub headers: usize,
    /// The most bytes of all headers of a request and its first line: 16 KiB.
    pub header_bytes: usize,
    /// The most connections of clients at once: 2,048. Further ones wait until one ends.
    pub connections: usize,
    /// The most connections at once that have not sent the token: 256. For one more, the server ends the oldest one of the
    /// address that has the most.
    pub unauthenticated: usize,
    /// How long a connection may take to send the token: 10 seconds.
    pub token_time: Duration,
    /// The most MCP sessions at once: 1,024. The server refuses more.
    pub sessions: usize,
    /// How long the server keeps an MCP session without requests and without an open stream: 30 minutes.
    pub session_idle: Duration,
    /// How long a client may take to reconnect after its connection broke: 10 seconds. Then the server drops a question
    /// that waits for its person.
    pub reconnect_time: Duration,
    /// How long a connection may take to send the headers of its next request: 60 seconds.
    pub header_time: Duration,
    /// How long a client may take to send a message: 30 seconds.
    pub body_time: Duration,
    /// How long a client may read no byte of a response: 30 seconds.
    pub stalled_time: Duration,
    /// How long connections may take to end when the server stops: 2 seconds.
    pub shutdown_time: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body: DEFAULT_BODY_BYTES,
            headers: DEFAULT_HEADERS,
            header_bytes: DEFAULT_HEADER_BYTES,
            connections: DEFAULT_CONNECTIONS,
            unauthenticated: DEFAULT_UNAUTHENTICATED,
            token_time: DEFAULT_TOKEN_TIME,
            sessions: DEFAULT_SESSIONS,
            session_idle: DEFAULT_SESSION_IDLE,
            reconnect_time: DEFAULT_RECONNECT_TIME,
            header_time: DEFAULT_HEADER_TIME,
            body_time: DEFAULT_BODY_TIME,
            stalled_time: DEFAULT_STALLED_TIME,
            shutdown_time: DEFAULT_SHUTDOWN_TIME,
        }
    }
}
