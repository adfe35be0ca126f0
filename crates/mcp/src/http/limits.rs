//! How much clients may use.

use std::time::Duration;

/// How much a server over HTTP lets its clients use. What is beyond is refused, and nothing of it is kept.
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
    /// The most bytes of all its headers, and of the line before them: 16 KiB.
    pub header_bytes: usize,
    /// The most connections of clients at once: 2,048. Others wait until one ends.
    pub connections: usize,
    /// The most connections at once that have not shown the token: 256. For one more, the oldest of whoever has the most
    /// of them ends.
    pub unauthenticated: usize,
    /// How long a connection may take to show the token: 10 seconds.
    pub token_time: Duration,
    /// The most sessions at once: 1,024. Others are refused.
    pub sessions: usize,
    /// How long a session is kept that nobody uses and no stream is open of: 30 minutes.
    pub session_idle: Duration,
    /// How long a client whose connection broke may take to come back, before a question that waits for its person is
    /// dropped: 10 seconds.
    pub gone: Duration,
    /// How long a connection may take for the headers of its next request: 60 seconds.
    pub header_time: Duration,
    /// How long a message may take to come: 30 seconds.
    pub body_time: Duration,
    /// How long a client may take no byte of what it is sent: 30 seconds.
    pub stalled_time: Duration,
    /// How long connections may take to end when the server does: 2 seconds.
    pub last: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body: 4 << 20,
            headers: 64,
            header_bytes: 16 << 10,
            connections: 2048,
            unauthenticated: 256,
            token_time: Duration::from_secs(10),
            sessions: 1024,
            session_idle: Duration::from_secs(30 * 60),
            gone: Duration::from_secs(10),
            header_time: Duration::from_secs(60),
            body_time: Duration::from_secs(30),
            stalled_time: Duration::from_secs(30),
            last: Duration::from_secs(2),
        }
    }
}
