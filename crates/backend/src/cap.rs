//! The limits that end a search early, as values that a report carries.

use std::fmt;

/// A limit that was reached: what was found is right, and there is more.
///
/// Shown to a person or a model, it says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Cap {
    /// This many results were kept.
    Results(usize),
    /// This many entries were looked at.
    Visited(usize),
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Results(limit) => write!(f, "stopped at {limit} results; narrow the search"),
            Self::Visited(limit) => write!(f, "stopped after {limit} entries; begin further down"),
        }
    }
}
