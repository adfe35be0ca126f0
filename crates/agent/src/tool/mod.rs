//! What a model can call.

mod act;
mod data;
mod function;

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prowess_permission::Question;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::act::ToolKind;
pub use self::data::{RefusedBy, ToolData};
pub use self::function::{FunctionTool, ToolFailure};
pub(crate) use self::function::{parsed, schema};
use crate::id::{CallId, MessageId, ThreadId};
use crate::middleware::{Announcement, MiddlewareContext, Reaction};
use crate::model::{ModelUsage, ToolDefinition};
use crate::state::States;
use crate::thread::ThreadError;
use crate::thread_state::{CallQuestion, Consultation, StateChange};

/// How long a tool may take when it does not say otherwise.
pub const DEFAULT_TOOL_TIMEOUT: Duration = Duration::from_secs(600);

/// What a model can call.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use prowess_agent::model::ToolDefinition;
/// use prowess_agent::tool::ToolKind;
/// use prowess_agent::{Tool, ToolAnswer, ToolContext, ToolOutput};
/// use serde_json::{Value, json};
///
/// /// `FunctionTool` needs less; this is for tools that know their thread, or ask a person.
/// #[derive(Debug)]
/// struct WhereAmI(Arc<ToolDefinition>);
///
/// #[async_trait]
/// impl Tool for WhereAmI {
///     fn definition(&self) -> Arc<ToolDefinition> {
///         Arc::clone(&self.0)
///     }
///
///     async fn call(&self, _: Value, context: ToolContext<'_>) -> ToolOutput {
///         ToolAnswer::text(context.thread.as_str()).into()
///     }
/// }
///
/// let tool = WhereAmI(Arc::new(ToolDefinition {
///     name: "where_am_i".into(),
///     description: "Tells the thread's name.".into(),
///     parameters: json!({"type": "object", "properties": {}}),
/// }));
/// assert_eq!(tool.act(), ToolKind::Other);
/// assert!(!tool.is_idempotent(), "unless it says so");
/// ```
#[async_trait]
pub trait Tool: Send + Sync + Debug {
    /// What a model is told of it: asked for in every step, and so made once and shared.
    fn definition(&self) -> Arc<ToolDefinition>;

    /// What it does. Parts go by this, and never by its name.
    fn act(&self) -> ToolKind {
        ToolKind::Other
    }

    /// Whether a call that was cut off may be made again: it does nothing, or the same each time. By default as its act is.
    fn is_idempotent(&self) -> bool {
        self.act().is_idempotent()
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
    pub consulted: Option<&'a Consultation>,
    /// Who hears how far it is.
    pub progress: &'a (dyn Fn(&str) + Send + Sync),
    pub(crate) moment: MiddlewareContext<'a>,
}

impl<'a> ToolContext<'a> {
    /// The moment of the turn that the call is made in.
    pub fn moment(&self) -> MiddlewareContext<'a> {
        self.moment
    }

    /// Tells the parts of the agent of something; see [`MiddlewareContext::announce`].
    pub async fn announce(&self, occasion: Announcement<'_>) -> Reaction {
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
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use prowess_agent::model::ToolDefinition;
/// use prowess_agent::{Agent, CallReply, NoWatcher, TurnStatus, ThreadId, Tool, ToolAnswer, ToolContext, ToolOutput};
/// use prowess_models::{Scripted, ScriptedTurn as Says};
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
///         ToolDefinition { name: "ring".into(), description: "Rings.".into(), parameters }.into()
///     }
///
///     async fn call(&self, _: Value, context: ToolContext<'_>) -> ToolOutput {
///         match context.consulted.and_then(|asked| asked.reply.as_ref()) {
///             None => {
///                 let action = Action::Other { title: "May I ring?".into(), details: [].into() };
///                 Question::new(Kind::TOOL, "ring").to(action).into()
///             }
///             Some(CallReply::Reject { .. }) => ToolAnswer::error("It may not ring.").into(),
///             Some(_) => ToolAnswer::text("Ding!").into(),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Scripted::new([Says::new().call("ring", json!({})), Says::new().say("It rang.")]);
/// let agent = Agent::builder(Arc::new(model)).tool(Arc::new(Bell)).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// let TurnStatus::Waiting(waiting) = thread.say("Ring.", &NoWatcher).await? else { panic!("it asks") };
/// thread.reply(&waiting[0], CallReply::Approve, &NoWatcher).await?;
/// assert_eq!(thread.answer().as_deref(), Some("It rang."));
/// # Ok(())
/// # }
/// ```
pub enum ToolOutput {
    /// This.
    Done(ToolAnswer),
    /// The answer that this function gives, once the calls before it in the same answer are done or wait for a person: for
    /// work that can be prepared at the same time, but takes effect in the order of the calls.
    ///
    /// It is given the states with the changes of all calls of the same answer that are answered by then, so that a limit
    /// which it checks holds for all of them together.
    InOrder(Box<dyn FnOnce(&States) -> ToolAnswer + Send>),
    /// A question for a person. The call waits in the thread; once there is a reply the tool is
    /// called again, with [`ToolContext::consulted`].
    Ask(Box<CallQuestion>),
    /// Nothing: the store of threads failed in the middle of the work. That is no answer for a model: the turn ends with
    /// the error, and going on makes the call again if its tool says that it may be.
    Unstored(ThreadError),
}

/// What a tool answers.
///
/// ```
/// use prowess_agent::ToolAnswer;
///
/// assert_eq!(ToolAnswer::text("3 notes").text, "3 notes");
/// assert!(ToolAnswer::error("Error: there is no such directory.").is_error);
/// ```
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
    #[serde(default, skip_serializing_if = "ModelUsage::is_empty")]
    pub spent: ModelUsage,
    /// What came of it, for whoever shows it: nobody has to read the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ToolData>,
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

    /// An error, because someone or something would not have the call made.
    pub fn refused(text: impl Into<String>, by: RefusedBy) -> Self {
        Self { data: Some(ToolData::Refused { by, message: None }), ..Self::error(text) }
    }

    /// The same with a change.
    #[must_use]
    pub fn with(mut self, change: StateChange) -> Self {
        self.changes.push(change);
        self
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
            Self::Ask(asking) => f.debug_tuple("Ask").field(asking).finish(),
            Self::Unstored(error) => f.debug_tuple("Unstored").field(error).finish(),
        }
    }
}

/// Tools by their names, in the order in which a model is told of them.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::{FunctionTool, ToolAnswer, Tools};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Nothing {}
///
/// let ping = |_: Nothing| async { Ok(ToolAnswer::text("pong")) };
/// let tool = || Arc::new(FunctionTool::new("ping", "Answers.", ping));
/// let mut tools = Tools::default();
/// tools.add(tool())?;
/// assert_eq!(tools.definitions()[0].name, "ping");
/// assert!(tools.add(tool()).is_err(), "there is one of its name");
/// # Ok::<(), prowess_agent::tool::DuplicateTool>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tools {
    order: Vec<Arc<ToolDefinition>>,
    by_name: BTreeMap<Named, Arc<dyn Tool>>,
}

/// A definition, in the order of names.
#[derive(Clone, Debug)]
struct Named(Arc<ToolDefinition>);

impl Borrow<str> for Named {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Named {}

impl PartialOrd for Named {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Named {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name.cmp(&other.0.name)
    }
}

/// Two tools of one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are two tools `{0}`: leave one out, or give it another name")]
pub struct DuplicateTool(pub String);

impl Tools {
    /// Adds a tool.
    ///
    /// # Errors
    ///
    /// There is one of its name.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), DuplicateTool> {
        let definition = tool.definition();
        if self.by_name.contains_key(definition.name.as_str()) {
            return Err(DuplicateTool(definition.name.clone()));
        }
        self.by_name.insert(Named(Arc::clone(&definition)), tool);
        self.order.push(definition);
        Ok(())
    }

    /// A tool by its name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.by_name.get(name)
    }

    /// What a model is told of them.
    pub fn definitions(&self) -> &[Arc<ToolDefinition>] {
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
