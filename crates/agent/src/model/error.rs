//! Why a model did not answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why a model did not answer, or not to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{model}: {kind}: {message}")]
pub struct ModelError {
    /// Which model.
    pub model: String,
    /// What sort of failure it is.
    pub kind: ModelErrorKind,
    /// What its provider said, or what happened.
    pub message: String,
    /// How long the provider wants to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
}

/// What sort of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The key is missing, wrong, or may not do this.
    Auth,
    /// Too much was asked in too little time, or the money is used up.
    RateLimited,
    /// The provider has too much to do, or is broken.
    Overloaded,
    /// The request is longer than the model can read.
    ContextTooLong,
    /// The provider will not answer this.
    Refused,
    /// The provider does not understand the request.
    Invalid,
    /// The provider's answer makes no sense.
    Malformed,
    /// The provider cannot be reached, or the connection broke.
    Unreachable,
    /// It took too long.
    TimedOut,
}

impl std::fmt::Display for ModelErrorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auth => "not authorised",
            Self::RateLimited => "too many requests",
            Self::Overloaded => "overloaded",
            Self::ContextTooLong => "the request is too long",
            Self::Refused => "refused",
            Self::Invalid => "the request is not understood",
            Self::Malformed => "the answer is malformed",
            Self::Unreachable => "cannot be reached",
            Self::TimedOut => "took too long",
        })
    }
}

impl ModelErrorKind {
    /// Whether such failures pass by themselves.
    pub fn is_passing(self) -> bool {
        match self {
            Self::RateLimited | Self::Overloaded | Self::Malformed | Self::Unreachable | Self::TimedOut => {
                true
            }
            Self::Auth | Self::ContextTooLong | Self::Refused | Self::Invalid => false,
        }
    }
}

impl ModelError {
    /// A failure of a model.
    pub fn new(model: impl Into<String>, kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { model: model.into(), kind, message: message.into(), retry_after: None }
    }

    /// Whether the same request may be answered later.
    pub fn is_passing(&self) -> bool {
        self.kind.is_passing()
    }
}
