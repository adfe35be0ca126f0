//! What a model can call.

mod function;

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::function::{FunctionTool, ToolFailure};
pub(crate) use self::function::{parsed, schema};
use crate::id::{CallId, MessageId, ThreadId};
use crate::middleware::{Heard, Moment, Occasion};
use crate::model::{Spent, ToolDefinition};
use crate::run::{Consulted, StateChange};
use crate::state::States;

/// How long a tool may take when it does not say otherwise.
pub const DEFAULT_TOOL_TIMEOUT: Duration = Duration::from_secs(600);

/// What a model can call.
#[async_trait]
pub trait Tool: Send + Sync + Debug {
    /// What a model is told of it.
    fn definition(&self) -> ToolDefinition;

    /// Whether a call that was cut off may be made again: it does nothing, or the same each time.
    fn is_idempotent(&self) -> bool {
        false
    }

    /// How long one call may take.
    fn timeout(&self) -> Duration {
        DEFAULT_TOOL_TIMEOUT
    }

    /// Does what it is for. A failure is an output, too: the model reads it.
    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput;
}

/// What stands around a call.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ToolContext<'a> {
    /// The thread.
    pub thread: &'a ThreadId,
    /// The call.
    pub call: &'a CallId,
    /// The name of the message that its result will be: no other call of the thread has it.
    pub message: &'a MessageId,
    /// The states as they were when the model made its calls.
    pub states: &'a States,
    /// What this tool asked a person about this call before, and the reply.
    pub consulted: Option<&'a Consulted>,
    /// Who hears how far it is.
    pub progress: &'a (dyn Fn(&str) + Send + Sync),
    pub(crate) moment: Moment<'a>,
}

impl ToolContext<'_> {
    /// Tells the parts of the agent of something; see [`Moment::announce`].
    pub async fn announce(&self, occasion: Occasion<'_>) -> Heard {
        self.moment.announce(occasion).await
    }
}

impl Debug for ToolContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("thread", self.thread)
            .field("call", self.call)
            .finish_non_exhaustive()
    }
}

/// What came of a call.
pub enum ToolOutput {
    /// This.
    Done(ToolAnswer),
    /// What this gives, once the calls before it in the same answer are done: for work that can be prepared at the
    /// same time, but takes effect in the order of the calls.
    InOrder(Box<dyn FnOnce() -> ToolAnswer + Send>),
    /// A question for a person, as a front end shows it. The call waits in the thread; once there is a reply the tool is
    /// called again, with [`ToolContext::consulted`].
    Ask(Value),
}

/// What a tool answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolAnswer {
    /// What the model reads.
    pub text: String,
    /// Whether it is an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// What changes with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<StateChange>,
    /// What other models were paid for it.
    #[serde(default, skip_serializing_if = "Spent::is_empty")]
    pub spent: Spent,
}

impl ToolAnswer {
    /// An answer that changes nothing.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// An error, for the model to read.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, ..Self::default() }
    }

    /// The same with a change.
    #[must_use]
    pub fn with(mut self, change: StateChange) -> Self {
        self.changes.push(change);
        self
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
        }
    }
}

/// Tools by their names, in the order in which a model is told of them.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    order: Vec<ToolDefinition>,
    by_name: BTreeMap<String, Arc<dyn Tool>>,
}

/// Two tools of one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are two tools `{0}`: leave one out, or give it another name")]
pub struct TwoOfOneName(pub String);

impl Tools {
    /// Adds a tool.
    ///
    /// # Errors
    ///
    /// There is one of its name.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), TwoOfOneName> {
        let definition = tool.definition();
        if self.by_name.contains_key(&definition.name) {
            return Err(TwoOfOneName(definition.name));
        }
        self.by_name.insert(definition.name.clone(), tool);
        self.order.push(definition);
        Ok(())
    }

    /// A tool by its name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.by_name.get(name)
    }

    /// What a model is told of them.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.order
    }

    /// What a model is told that calls what is not there.
    pub(crate) fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.order.iter().map(|tool| tool.name.as_str()).collect();
        let names = if names.is_empty() { "(none)".to_owned() } else { names.join(", ") };
        let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        format!("Error: there is no tool `{name}`. Tools: {names}.")
    }
}
