//! The pieces in which a response arrives.

use serde::{Deserialize, Serialize};

use super::Usage;

/// A piece of a response. `index` numbers the tool calls of one response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelDelta {
    /// Text for the user.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// The provider's signature of the reasoning before it.
    ReasoningSignature(String),
    /// Encrypted reasoning, which only the provider can read and which it wants back.
    RedactedReasoning(String),
    /// A tool call begins.
    ToolCall {
        /// The number of the call.
        index: usize,
        /// Its id; empty if the provider sends none.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments.
    Arguments {
        /// The number of the call.
        index: usize,
        /// The piece.
        piece: String,
    },
    /// The tokens so far. The last one counts.
    Usage(Usage),
    /// The response ended.
    Finish(Finish),
}

impl ModelDelta {
    /// Its size in bytes, at least 1.
    pub(crate) fn weight(&self) -> usize {
        1 + match self {
            Self::Text(text)
            | Self::Reasoning(text)
            | Self::ReasoningSignature(text)
            | Self::RedactedReasoning(text)
            | Self::Arguments { piece: text, .. } => text.len(),
            Self::ToolCall { id, name, .. } => id.len() + name.len(),
            Self::Usage(_) | Self::Finish(_) => 0,
        }
    }
}

/// Why a response ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// It is complete, or waits for its tool calls.
    #[default]
    Stop,
    /// It reached its limit of tokens.
    Length,
    /// The model or its provider refused.
    Refused,
}
