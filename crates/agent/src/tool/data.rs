//! The outcome of a tool call, as data for programs.

use prowess_permission::{Refusal, Rule, RuleSource};
use prowess_skills::RunSummary;
use serde::{Deserialize, Serialize};

/// The outcome of a call, for programs that show it. The model reads [`ToolAnswer::text`](super::ToolAnswer::text).
///
/// ```
/// use prowess_agent::tool::{RefusedBy, ToolData};
/// use prowess_agent::ToolAnswer;
///
/// let answer = ToolAnswer::refused("Error: the rules of this agent deny it.", RefusedBy::Rule);
/// assert_eq!(answer.data, Some(ToolData::Refused { by: RefusedBy::Rule, message: None, rule: None }));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolData {
    /// The call was refused.
    Refused {
        /// Who or what refused it.
        by: RefusedBy,
        /// The reason that they gave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The rule that refused it, with the rule's source. The model does not learn it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<Box<(RuleSource, Rule)>>,
    },
    /// A run finished.
    Ran(Box<RunSummary>),
    /// A file was written, edited or copied.
    ChangedFile(Box<ChangedFile>),
}

/// A file that a call changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChangedFile {
    /// Its path, as the model sees it.
    pub path: String,
    /// Its real path on this machine, if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disk: Option<String>,
    /// Its size after the change.
    pub bytes: u64,
    /// What happened to it.
    pub change: ChangeKind,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// Text in it was replaced.
    Edited,
    /// Another file took its place.
    Replaced,
}

impl From<&Refusal> for ToolData {
    fn from(refusal: &Refusal) -> Self {
        let (by, message, rule) = match refusal {
            Refusal::Denied { rule, .. } => (RefusedBy::Rule, None, rule.clone()),
            Refusal::Rejected { message } => (RefusedBy::Person, message.clone(), None),
            _ => (RefusedBy::Nobody, None, None),
        };
        Self::Refused { by, message, rule }
    }
}

/// Who or what refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusedBy {
    /// The person who was asked.
    Person,
    /// A rule, or a hook.
    Rule,
    /// Nobody: a person had to be asked, and none was there.
    Nobody,
}
