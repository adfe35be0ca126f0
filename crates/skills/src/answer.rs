//! Answers of operations and of tool calls.

use prowess_permission::Refusal;
use serde_json::Value;

use crate::delta::SkillDelta;
use crate::error::SkillError;
use crate::run_summary::RunSummary;

/// The answer of an operation on skills.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SkillAnswer {
    /// The text for the model.
    pub text: String,
    /// The changes of state; empty if nothing changes.
    pub deltas: Vec<SkillDelta>,
    /// The answer as data, if it is more than text.
    pub data: Option<Value>,
    /// The summary of the run, if a command ran to its end.
    pub ran: Option<Box<RunSummary>>,
    /// The skill whose `allowed-tools` settled a question about it, so that nobody was asked.
    pub preapproved_by: Option<String>,
}

/// The answer of a tool call.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct SkillToolAnswer {
    /// The text for the model.
    pub text: String,
    /// Whether the call failed. Then nothing has changed.
    pub is_error: bool,
    /// The changes of state.
    pub deltas: Vec<SkillDelta>,
    /// The answer as data, if it is more than text.
    pub data: Option<Value>,
    /// The summary of the run, if a command ran to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran: Option<Box<RunSummary>>,
    /// The skill whose `allowed-tools` settled a question about it, so that nobody was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preapproved_by: Option<String>,
    /// The refusal, if the call had no permission.
    #[serde(skip)]
    pub refusal: Option<Refusal>,
}

impl From<Result<SkillAnswer, SkillError>> for SkillToolAnswer {
    fn from(result: Result<SkillAnswer, SkillError>) -> Self {
        match result {
            Ok(SkillAnswer { text, deltas, data, ran, preapproved_by }) => {
                Self { text, is_error: false, deltas, data, ran, preapproved_by, refusal: None }
            }
            Err(error) => Self {
                text: error.for_model(),
                is_error: true,
                deltas: Vec::new(),
                data: None,
                ran: None,
                preapproved_by: None,
                refusal: error.refusal().cloned(),
            },
        }
    }
}
