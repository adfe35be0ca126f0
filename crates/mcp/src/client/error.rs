//! The errors of the MCP client.

use std::time::Duration;

use super::label::ServerLabel;

/// Why a request to a server failed.
///
/// Text from the server is on one line, shortened, and without control characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No server with this label is connected.
    #[error("no server `{label}` is connected: it is not configured, or prowess could not reach it")]
    Unknown {
        /// The label.
        label: String,
    },
    /// There is no connection to the server.
    #[error("cannot reach server `{server}`: {why}; check its configuration, then start again")]
    Unreachable {
        /// The server.
        server: ServerLabel,
        /// Why.
        why: String,
    },
    /// The server did not answer in time.
    #[error("server `{server}` did not answer `{method}` within {}", seconds(*.limit))]
    TimedOut {
        /// The server.
        server: ServerLabel,
        /// The method of the request.
        method: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// The server answered with an error.
    #[error("server `{server}` refused `{method}`: {message} ({code})")]
    Refused {
        /// The server.
        server: ServerLabel,
        /// The method of the request.
        method: &'static str,
        /// The code of the error.
        code: i32,
        /// The message of the error.
        message: String,
    },
    /// The answer does not fit the request.
    #[error("the answer of server `{server}` to `{method}` cannot be used: {why}")]
    Odd {
        /// The server.
        server: ServerLabel,
        /// The method of the request.
        method: &'static str,
        /// Why not.
        why: String,
    },
    /// The server's entry for a skill cannot be used.
    #[error("skill {uri} of server `{server}` is not loaded: {why}")]
    Invalid {
        /// The server.
        server: ServerLabel,
        /// The address of the skill, if the entry has one.
        uri: String,
        /// Why not.
        why: String,
    },
    /// A file is not what its entry promised.
    #[error(transparent)]
    Unverified(#[from] Unverified),
}

/// A skill of a server failed verification. Nothing of the file was used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "skill {uri} of server `{server}` failed verification: {mismatch}. prowess used nothing of it. List the skills of \
     the server again; if this persists, tell the operator of the server"
)]
#[non_exhaustive]
pub struct Unverified {
    /// The server.
    pub server: ServerLabel,
    /// The skill's address there.
    pub uri: String,
    /// What differs from the entry.
    pub mismatch: Mismatch,
}

/// How an answer differs from what the entry promised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// A file has another size.
    #[error("`{path}` has {got} bytes, but its entry says {listed}")]
    Size {
        /// The file.
        path: String,
        /// The size in the entry.
        listed: u64,
        /// The size of the answer.
        got: u64,
    },
    /// A file has another digest.
    #[error("the digest of `{path}` differs from its entry")]
    Digest {
        /// The file.
        path: String,
    },
    /// The frontmatter of SKILL.md differs from the entry.
    #[error("`{field}` in its SKILL.md differs from its entry")]
    Frontmatter {
        /// The first field that differs.
        field: String,
    },
    /// The entry does not list the file.
    #[error("its entry does not list `{path}`")]
    Unlisted {
        /// The file.
        path: String,
    },
    /// The answer does not consist of the one requested file.
    #[error("the answer for `{path}` is not that one file: {why}")]
    Contents {
        /// The file.
        path: String,
        /// What the answer is.
        why: String,
    },
}

impl Mismatch {
    /// Whether a newer entry, from `skills/get`, may match.
    pub fn may_be_outdated(&self) -> bool {
        matches!(self, Self::Size { .. } | Self::Digest { .. } | Self::Frontmatter { .. })
    }
}

fn seconds(limit: Duration) -> String {
    format!("{} seconds", limit.as_secs_f64())
}
