//! What came of a call, as data.

use prowess_permission::Refusal;
use prowess_skills::RunSummary;
use serde::{Deserialize, Serialize};

/// What came of a call, for whoever shows it. The model reads [`ToolAnswer::text`](super::ToolAnswer::text).
///
/// ```
/// use prowess_agent::tool::{RefusedBy, ToolData};
/// use prowess_agent::ToolAnswer;
///
/// let answer = ToolAnswer::refused("Error: the rules of this agent deny it.", RefusedBy::Rule);
/// assert_eq!(answer.data, Some(ToolData::Refused { by: RefusedBy::Rule, message: None }));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolData {
    /// It was not made, or not to its end: it was not allowed.
    Refused {
        /// Who or what said no.
        by: RefusedBy,
        /// What they said about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A command was run to its end.
    Ran(Box<RunSummary>),
}

impl From<&Refusal> for ToolData {
    fn from(refusal: &Refusal) -> Self {
        let (by, message) = match refusal {
            Refusal::Denied { .. } => (RefusedBy::Rule, None),
            Refusal::Rejected { message } => (RefusedBy::Person, message.clone()),
            _ => (RefusedBy::Nobody, None),
        };
        Self::Refused { by, message }
    }
}

/// Who or what said no to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusedBy {
    /// The person who was asked.
    Person,
    /// A rule, or a hook.
    Rule,
    /// Nobody: somebody had to be asked, and nobody was there.
    Nobody,
}
