//! Why a model call failed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why a model call failed, or broke off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{model}: {kind}: {message}")]
#[non_exhaustive]
pub struct ModelError {
    /// The model.
    pub model: String,
    /// The kind of failure.
    pub kind: ModelErrorKind,
    /// What the provider said, or what happened.
    pub message: String,
    /// How long the provider asks to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The model's context window in tokens, if the provider names it in an error about a request that is too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The tokens of the request, if the provider names them in such an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Whether the request was never sent, because it is known to be too long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unsent: bool,
}

/// The kind of a failed model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The key is missing or wrong, or lacks a permission.
    Auth,
    /// Too many requests, or no credit left.
    RateLimited,
    /// The provider is overloaded, or broken.
    Overloaded,
    /// The request is longer than the model's context window.
    ContextTooLong,
    /// The provider refuses this request.
    Refused,
    /// The provider does not understand the request.
    Invalid,
    /// The provider has no model of this name, or not for this key.
    NoSuchModel,
    /// The provider's response cannot be understood.
    Malformed,
    /// The provider cannot be reached, or the connection broke.
    Unreachable,
    /// The response took too long.
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
            Self::Invalid => "the request is invalid",
            Self::NoSuchModel => "there is no such model",
            Self::Malformed => "malformed response",
            Self::Unreachable => "cannot be reached",
            Self::TimedOut => "took too long",
        })
    }
}

impl ModelErrorKind {
    /// Whether the same request may succeed later.
    pub fn is_passing(self) -> bool {
        match self {
            Self::RateLimited | Self::Overloaded | Self::Malformed | Self::Unreachable | Self::TimedOut => {
                true
            }
            Self::Auth | Self::ContextTooLong | Self::Refused | Self::Invalid | Self::NoSuchModel => false,
        }
    }
}

impl ModelError {
    /// A failure of the model `model`.
    pub fn new(model: impl Into<String>, kind: ModelErrorKind, message: impl Into<String>) -> Self {
        let (model, message) = (model.into(), message.into());
        Self { model, kind, message, retry_after: None, window: None, tokens: None, is_unsent: false }
    }

    /// Whether the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        self.kind.is_passing()
    }
}
