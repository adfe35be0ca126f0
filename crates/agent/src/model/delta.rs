//! The pieces of an answer.

use serde::{Deserialize, Serialize};

use super::Usage;

/// A piece of what a model says. `index` numbers the calls of one answer, whatever their names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelDelta {
    /// Text.
    Text(String),
    /// What it thinks.
    Reasoning(String),
    /// What proves the thought that just came.
    ReasoningSignature(String),
    /// A thought that nobody may read, and that the provider wants back.
    RedactedReasoning(String),
    /// A call begins.
    ToolCall {
        /// Which one.
        index: usize,
        /// Its name; empty when the provider gives none.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments.
    Arguments {
        /// Which call.
        index: usize,
        /// The piece.
        piece: String,
    },
    /// What was paid so far. The last one counts.
    Usage(Usage),
    /// It has said all.
    Finish(Finish),
}

impl ModelDelta {
    /// How much it takes, in bytes: something, also when it says nothing.
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

/// Why a model said no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// It had said what it wanted, or waits for its tools.
    #[default]
    Stop,
    /// It had no more room.
    Length,
    /// It, or its provider, would not say it.
    Refused,
}
