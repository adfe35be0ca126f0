//! What a tool call returns: an answer, or a question to a person.

use std::fmt::{self, Debug};

use prowess_permission::Question;
use serde::{Deserialize, Serialize};

use super::{RefusedBy, ToolData};
use crate::model::ModelUsage;
use crate::state::States;
use crate::thread::ThreadError;
use crate::thread_state::{CallQuestion, StateChange};

/// What a tool call returns.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use prowess_agent::model::ToolDefinition;
/// use prowess_agent::{
///     Agent, CallReply, NoWatcher, ThreadId, Tool, ToolAnswer, ToolContext, ToolOutput, TurnStatus,
/// };
/// use prowess_models::{Scripted, ScriptedTurn};
/// use prowess_permission::{Action, Kind, Question};
/// use serde_json::{Value, json};
///
/// /// Asks a person before it rings.
/// #[derive(Debug)]
/// struct Bell;
///
/// #[async_trait]
/// impl Tool for Bell {
///     fn definition(&self) -> Arc<ToolDefinition> {
///         let parameters = json!({"type": "object", "properties": {}});
///         ToolDefinition::new("ring", "Rings.", parameters).into()
///     }
///
///     async fn call(&self, _: Value, context: ToolContext<'_>) -> ToolOutput {
///         match context.consultation.and_then(|asked| asked.reply.as_ref()) {
///             None => {
///                 let action = Action::Other { title: "May I ring?".into(), details: [].into() };
///                 Question::new(Kind::TOOL, "ring").action(action).into()
///             }
///             Some(CallReply::Reject { .. }) => ToolAnswer::error("It may not ring.").into(),
///             Some(_) => ToolAnswer::text("Ding!").into(),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Scripted::new([ScriptedTurn::new().call("ring", json!({})), ScriptedTurn::new().say("It rang.")]);
/// let agent = Agent::builder(Arc::new(model)).tool(Arc::new(Bell)).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// let TurnStatus::Waiting(waiting) = thread.say("Ring.", &NoWatcher).await? else { panic!("it asks") };
/// thread.reply(&waiting[0], CallReply::Approve, &NoWatcher).await?;
/// assert_eq!(thread.last_response().as_deref(), Some("It rang."));
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub enum ToolOutput {
    /// The answer.
    Done(ToolAnswer),
    /// A function that returns the answer. It is for work that can be prepared at the same time as other calls, but must
    /// take effect in the order of the calls.
    ///
    /// The agent calls it once the earlier calls of the same response are answered or wait for a person. It gets the
    /// states with the changes of all answered calls, so a limit that it checks holds for all of them together.
    InOrder(Box<dyn FnOnce(&States) -> ToolAnswer + Send>),
    /// A question to a person. The call waits in the thread. After the reply the agent calls the tool again, with
    /// [`ToolContext::consultation`](super::ToolContext::consultation). If the person changes the arguments, the call begins
    /// again, without a consultation.
    Ask(Box<CallQuestion>),
    /// Nothing, because the store of threads failed during the work.
    ///
    /// The model gets no answer: the turn breaks off with the error. When the turn continues, the agent repeats the call
    /// if the tool allows that.
    Unstored(ThreadError),
}

/// The answer of a tool call.
///
/// ```
/// use prowess_agent::ToolAnswer;
///
/// assert_eq!(ToolAnswer::text("3 notes").text, "3 notes");
/// assert!(ToolAnswer::error("Error: there is no such directory.").is_error);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolAnswer {
    /// The text that the model reads.
    pub text: String,
    /// Whether the answer is an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// State changes that take effect with the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<StateChange>,
    /// The tokens that other models took for it.
    #[serde(default, skip_serializing_if = "ModelUsage::is_empty")]
    pub spent: ModelUsage,
    /// The outcome for programs that show the call, so that they need not parse the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ToolData>,
    /// The skill whose `allowed-tools` settled a question about the call, so that nobody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preapproved_by: Option<String>,
}

impl ToolAnswer {
    /// An answer without state changes.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// An error that the model reads.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, ..Self::default() }
    }

    /// An error because the call was refused.
    pub fn refused(text: impl Into<String>, by: RefusedBy) -> Self {
        Self { data: Some(ToolData::Refused { by, message: None, rule: None }), ..Self::error(text) }
    }

    /// Says which skill's `allowed-tools` settled a question about the call.
    #[must_use]
    pub fn preapproved_by(mut self, skill: Option<String>) -> Self {
        self.preapproved_by = skill.or(self.preapproved_by);
        self
    }

    /// Adds a state change.
    #[must_use]
    pub fn change(mut self, change: StateChange) -> Self {
        self.changes.push(change);
        self
    }
}

impl From<String> for ToolAnswer {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<Question> for ToolOutput {
    fn from(question: Question) -> Self {
        Self::Ask(Box::new(question.into()))
    }
}

impl From<ToolAnswer> for ToolOutput {
    fn from(answer: ToolAnswer) -> Self {
        Self::Done(answer)
    }
}

impl Debug for ToolOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(answer) => f.debug_tuple("Done").field(answer).finish(),
            Self::InOrder(_) => f.debug_tuple("InOrder").finish_non_exhaustive(),
            Self::Ask(question) => f.debug_tuple("Ask").field(question).finish(),
            Self::Unstored(error) => f.debug_tuple("Unstored").field(error).finish(),
        }
    }
}
