//! How much clients may ask of a server.

use std::time::Duration;

use prowess_store::serve::DailyLimits;

/// How much clients may ask of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServeLimits {
    /// How many threads run at the same time in one process.
    pub turns: usize,
    /// How long a claim on a thread lasts when its worker dies.
    pub claim: Duration,
    /// How long running turns may take to rest when the server stops.
    pub drain: Duration,
    /// How many connections there may be.
    pub connections: usize,
    /// How long a connection may take to send the headers of a request.
    pub header_time: Duration,
    /// How long a request may pause while its body arrives.
    pub body_time: Duration,
    /// The most bytes of a request in JSON.
    pub body_bytes: usize,
    /// The most bytes of a request with a whole conversation, as AG-UI's and OpenAI's clients send it.
    pub conversation_bytes: usize,
    /// The most bytes of an uploaded file.
    pub upload_bytes: usize,
    /// The most bytes of an uploaded archive with a skill.
    pub skill_bytes: usize,
    /// How many uploads may arrive at the same time, of all users and of one.
    pub uploads: usize,
    /// See [`ServeLimits::uploads`].
    pub uploads_per_user: usize,
    /// How many files are read at the same time, of all users and of one.
    pub downloads: usize,
    /// See [`ServeLimits::downloads`].
    pub downloads_per_user: usize,
    /// How many answers with a whole log one user may read at the same time.
    pub reads_per_user: usize,
    /// How many threads are forked at the same time, of all users and of one.
    pub forks: usize,
    /// See [`ServeLimits::forks`].
    pub forks_per_user: usize,
    /// How many searches of threads run at the same time, of all users and of one.
    pub searches: usize,
    /// See [`ServeLimits::searches`].
    pub searches_per_user: usize,
    /// After what time a connection ends whose client reads nothing.
    pub stall: Duration,
    /// How many threads of one user run at the same time, in all processes.
    pub turns_per_user: u64,
    /// How many threads run at the same time in all processes. A server has one agent, so this is the limit of the agent.
    pub turns_in_all: u64,
    /// How many messages and changes may wait in one thread.
    pub waiting_posts: u64,
    /// How many messages and changes may wait in all threads of one user.
    pub waiting_posts_per_user: u64,
    /// How many threads one user may have.
    pub threads_per_user: u64,
    /// How much one user may use in a day, unless the user has limits of their own.
    pub daily: DailyLimits,
    /// How many event streams one user may have.
    pub streams_per_user: usize,
    /// How many event streams there may be.
    pub streams: usize,
    /// How many requests of one user may be in progress. A request ends when the client has its whole response.
    pub requests_per_user: usize,
    /// How many requests one user may make in a second, over some seconds.
    pub requests_per_second: u32,
    /// How often an idle event stream sends a comment.
    pub keep_alive: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            turns: 16,
            claim: Duration::from_secs(30),
            drain: Duration::from_secs(20),
            connections: 4096,
            header_time: Duration::from_secs(20),
            body_time: Duration::from_secs(10),
            body_bytes: 1 << 20,
            conversation_bytes: 16 << 20,
            upload_bytes: 64 << 20,
            skill_bytes: 10 << 20,
            uploads: 8,
            uploads_per_user: 2,
            downloads: 32,
            downloads_per_user: 8,
            reads_per_user: 8,
            forks: 4,
            forks_per_user: 1,
            searches: 2,
            searches_per_user: 1,
            stall: Duration::from_secs(30),
            turns_per_user: 12,
            turns_in_all: u64::MAX,
            waiting_posts: 32,
            waiting_posts_per_user: 200,
            threads_per_user: 10_000,
            daily: DailyLimits::default(),
            streams_per_user: 64,
            streams: 2048,
            requests_per_user: 256,
            requests_per_second: 100,
            keep_alive: Duration::from_secs(15),
        }
    }
}
