//! The limits that end a search early.

use std::fmt;

/// A limit that a search reached. The results are right, but there are more.
///
/// Its text tells a person or a model what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Cap {
    /// The search found this many results.
    Results(usize),
    /// The search visited this many entries.
    Visited(usize),
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Results(limit) => write!(f, "stopped at {limit} results; narrow the search"),
            Self::Visited(limit) => {
                write!(f, "stopped after {limit} entries; search in a directory further down")
            }
        }
    }
}
