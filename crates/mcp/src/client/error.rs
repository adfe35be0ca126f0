//! What goes wrong with servers.

use std::time::Duration;

use super::label::ServerLabel;

/// Why something could not be had from a server.
///
/// What a server said is in it on one line, cut off and without anything that a terminal would obey.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// There is none with this label, or it could not be reached.
    #[error("there is no server `{label}`, or it could not be reached")]
    Unknown {
        /// The label.
        label: String,
    },
    /// There is no connection to it.
    #[error("server `{server}` cannot be reached: {why}; look at how it is configured, and start again")]
    Unreachable {
        /// The server.
        server: ServerLabel,
        /// Why.
        why: String,
    },
    /// It did not answer in time.
    #[error("server `{server}` did not answer `{method}` within {}", seconds(*.limit))]
    TimedOut {
        /// The server.
        server: ServerLabel,
        /// What it was asked.
        method: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// It answered with an error.
    #[error("server `{server}` refused `{method}`: {message} ({code})")]
    Refused {
        /// The server.
        server: ServerLabel,
        /// What it was asked.
        method: &'static str,
        /// The error's code.
        code: i32,
        /// What it says.
        message: String,
    },
    /// Its answer is none to what it was asked.
    #[error("server `{server}` gave an answer to `{method}` that cannot be used: {why}")]
    Odd {
        /// The server.
        server: ServerLabel,
        /// What it was asked.
        method: &'static str,
        /// Why not.
        why: String,
    },
    /// Its entry for a skill cannot be used.
    #[error("skill {uri} of server `{server}` is not loaded: {why}")]
    Invalid {
        /// The server.
        server: ServerLabel,
        /// Where the skill is, as far as that can be told.
        uri: String,
        /// Why not.
        why: String,
    },
    /// What it gave is not what its entry promised.
    #[error(transparent)]
    Unverified(#[from] Unverified),
}

/// A skill of a server failed verification. What was read was not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "skill {uri} of server `{server}` fails verification: {mismatch}; nothing of it was used. Look for its skills \
     again, and ask whoever runs the server if it stays so"
)]
#[non_exhaustive]
pub struct Unverified {
    /// The server.
    pub server: ServerLabel,
    /// The skill's address there.
    pub uri: String,
    /// What is not as promised.
    pub mismatch: Mismatch,
}

/// What a server gave otherwise than it promised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// A file has another size.
    #[error("`{path}` has {got} bytes, and not {listed} as its entry says")]
    Size {
        /// The file.
        path: String,
        /// What was promised.
        listed: u64,
        /// What came.
        got: u64,
    },
    /// A file has another digest.
    #[error("`{path}` has not the digest that its entry says")]
    Digest {
        /// The file.
        path: String,
    },
    /// SKILL.md says something else of the skill than its entry.
    #[error("`{field}` in its SKILL.md is not what its entry says")]
    Frontmatter {
        /// The first field that differs.
        field: String,
    },
    /// A file is not one of the entry's.
    #[error("`{path}` is not among the files of its entry")]
    Unlisted {
        /// The file.
        path: String,
    },
    /// The answer has not the one file that was asked for.
    #[error("the answer for `{path}` is not that one file: {why}")]
    Contents {
        /// The file.
        path: String,
        /// What it is.
        why: String,
    },
}

impl Mismatch {
    /// Whether another entry, from `skills/get`, may make it right.
    pub fn may_be_outdated(&self) -> bool {
        matches!(self, Self::Size { .. } | Self::Digest { .. } | Self::Frontmatter { .. })
    }
}

fn seconds(limit: Duration) -> String {
    format!("{} seconds", limit.as_secs_f64())
}
