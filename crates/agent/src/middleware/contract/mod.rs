//! What a middleware is: the traits that the agent's core calls.
//!
//! The core knows these types and no middleware. Your middleware can do whatever the shipped ones can.

mod action;
mod context;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

pub use self::action::{Jump, MiddlewareAction};
pub(crate) use self::context::Watched;
pub use self::context::{Announcement, MiddlewareContext, Reaction};
use crate::agent::{NextModel, NextTool};
use crate::id::ThreadId;
use crate::message::Message;
use crate::model::{ModelError, ModelResponse, PromptSection};
use crate::state::{AnyState, States};
use crate::thread_state::{StateChange, TurnOutcome};
use crate::tool::{Tool, ToolOutput};

/// Creates a middleware for each thread that the agent opens.
///
/// A [`Middleware`] that implements `Clone` is its own factory: the agent clones it for each thread.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use prowess_agent::middleware::{MiddlewareError, Sections};
/// use prowess_agent::model::PromptSection;
/// use prowess_agent::{Middleware, MiddlewareContext, MiddlewareFactory, States, ThreadId};
///
/// /// Tells each thread its own name.
/// #[derive(Debug)]
/// struct Named;
///
/// #[derive(Debug)]
/// struct Opened(String);
///
/// #[async_trait]
/// impl MiddlewareFactory for Named {
///     fn name(&self) -> &str {
///         "named"
///     }
///
///     async fn open(&self, thread: &ThreadId, _: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
///         Ok(Arc::new(Opened(format!("This is thread {thread}."))))
///     }
/// }
///
/// #[async_trait]
/// impl Middleware for Opened {
///     fn name(&self) -> &str {
///         "named"
///     }
///
///     async fn sections(&self, _: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
///         Ok(PromptSection { owner: "named".into(), text: self.0.clone(), is_stable: true }.into())
///     }
/// }
/// ```
#[async_trait]
pub trait MiddlewareFactory: Send + Sync + Debug {
    /// The name of the middleware. The thread stores its state under this name.
    fn name(&self) -> &str;

    /// The state in an empty thread, if the middleware has a state.
    fn state(&self) -> Option<Box<dyn AnyState>> {
        None
    }

    /// Creates the middleware for one thread. `states` are the states that the thread's log describes.
    ///
    /// # Errors
    ///
    /// Says why the middleware cannot work in this thread.
    async fn open(&self, thread: &ThreadId, states: &States) -> Result<Arc<dyn Middleware>, MiddlewareError>;
}

#[async_trait]
impl<M: Middleware + Clone + 'static> MiddlewareFactory for M {
    fn name(&self) -> &str {
        Middleware::name(self)
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Middleware::state(self)
    }

    async fn open(&self, _: &ThreadId, _: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        Ok(Arc::new(self.clone()))
    }
}

/// A component of an agent that adds tools, prompt sections and state, and can act at six points of a turn.
///
/// The agent calls its middleware in the order in which you added them. At the end of a turn it calls them in reverse.
/// The first middleware wraps all others. If a method fails, the turn stays where it is, and
/// [`crate::Thread::go_on`] calls the method again. After a crash, too, a method can be called a second time for the
/// same point.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use prowess_agent::agent::NextTool;
/// use prowess_agent::{Agent, Middleware, MiddlewareContext, NoWatcher, ThreadId, ToolAnswer, ToolOutput};
/// use prowess_agent::middleware::Todos;
/// use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
/// use serde_json::json;
///
/// /// Answers every tool call itself.
/// #[derive(Clone, Debug)]
/// struct HandsOff;
///
/// #[async_trait]
/// impl Middleware for HandsOff {
///     fn name(&self) -> &str {
///         "hands_off"
///     }
///
///     async fn wrap_tool_call(&self, _: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
///         ToolAnswer::error(format!("Hands off {}.", next.call.name)).into() // or `next.call().await`
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Scripted::new([
///     ScriptedTurn::new().call("write_todos", json!({"todos": []})),
///     ScriptedTurn::new().expect(ScriptedExpect::new().last("Hands off write_todos.")).say("I see."),
/// ]);
/// let agent = Agent::builder(Arc::new(model)).middleware(HandsOff).middleware(Todos).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("Plan.", &NoWatcher).await?;
/// assert_eq!(thread.last_response().as_deref(), Some("I see."));
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Middleware: Any + Send + Sync + Debug {
    /// The name of the middleware.
    fn name(&self) -> &str;

    /// The state in an empty thread, if the middleware has a state.
    fn state(&self) -> Option<Box<dyn AnyState>> {
        None
    }

    /// The tools that the middleware adds. The agent asks before every model call, and before it makes tool calls.
    fn tools(&self, _: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    /// The sections that the middleware adds to the system prompt, and the messages that it adds to the conversation.
    ///
    /// The agent asks before every model call. [`crate::Thread::preview`] asks too, and stores no changes. So the
    /// method must not remember that it was called: it returns the same value for the same context.
    async fn sections(&self, _: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        Ok(Sections::default())
    }

    /// Called when a turn begins.
    async fn before_agent(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(Vec::new())
    }

    /// Called before each model call.
    async fn before_model(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(Vec::new())
    }

    /// How the model sees a message of the conversation, if not as it is stored. The number is the message's place in the
    /// thread. The agent asks before every model call.
    fn shown(&self, _: MiddlewareContext<'_>, _: usize, _: &Message) -> Option<Message> {
        None
    }

    /// Wraps a model call.
    async fn wrap_model_call(
        &self,
        context: MiddlewareContext<'_>,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let _ = context;
        next.call().await
    }

    /// Called after a model's response, before its tool calls are made.
    async fn after_model(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(Vec::new())
    }

    /// Wraps a tool call.
    async fn wrap_tool_call(&self, context: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        let _ = context;
        next.call().await
    }

    /// Called before a turn ends.
    ///
    /// [`MiddlewareAction::AddMessages`] and [`Jump::Model`] let the turn continue, unless it reached a limit or someone ended
    /// it.
    async fn after_agent(
        &self,
        _: MiddlewareContext<'_>,
        _: &TurnOutcome,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(Vec::new())
    }

    /// State changes that happened outside of a call, such as files that a tool wrote.
    ///
    /// The agent asks whenever it stores events, and stores these changes first. Each change is returned once.
    fn unstored(&self) -> Vec<StateChange> {
        Vec::new()
    }

    /// Called when another middleware is about to do something, or has done it.
    async fn on_announcement(&self, _: MiddlewareContext<'_>, _: Announcement<'_>) -> Reaction {
        Reaction::default()
    }
}

/// The sections that a middleware adds to the system prompt, and the messages that it adds to the conversation.
///
/// ```
/// use prowess_agent::middleware::Sections;
/// use prowess_agent::model::PromptSection;
///
/// let section = PromptSection { owner: "manners".into(), text: "Be brief.".into(), is_stable: true };
/// let sections = Sections::from(section); // and no change of state
/// assert!(sections.changes.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Sections {
    /// The sections.
    pub sections: Vec<PromptSection>,
    /// State changes that make the sections and the messages true. The agent stores them before the model call.
    pub changes: Vec<StateChange>,
    /// Messages for the model at the end of the conversation. The agent stores them before the model call, as messages that
    /// no person wrote. A text that changes belongs here: a change of the prompt makes providers read the whole conversation
    /// again.
    pub messages: Vec<Message>,
}

impl From<Vec<PromptSection>> for Sections {
    fn from(sections: Vec<PromptSection>) -> Self {
        Self { sections, ..Self::default() }
    }
}

impl From<PromptSection> for Sections {
    fn from(section: PromptSection) -> Self {
        vec![section].into()
    }
}

/// Why a middleware failed. [`AgentError::Middleware`](crate::AgentError::Middleware) says which one it was.
///
/// ```
/// use prowess_agent::middleware::MiddlewareError;
///
/// let error = std::fs::read("/no/such/rules").map_err(|error| MiddlewareError::new("read the rules", error));
/// assert!(error.unwrap_err().to_string().starts_with("could not read the rules: "));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MiddlewareError {
    /// The thread has no state for the middleware: the agent was built with another one.
    #[error("its state is missing")]
    NoState,
    /// Something that the middleware needs failed.
    #[error("could not {action}: {source}")]
    Failed {
        /// What the middleware tried, such as "read the rules".
        action: String,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something that the middleware needs does not answer now.
    #[error("could not {action} yet: {source}")]
    Unavailable {
        /// What the middleware tried.
        action: String,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl MiddlewareError {
    /// Reports that `action`, such as "read the rules", failed because of `source`.
    pub fn new(
        action: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Failed { action: action.into(), source: source.into() }
    }

    /// Reports the same about something that may answer later, such as a server that is out of reach.
    pub fn unavailable(
        action: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unavailable { action: action.into(), source: source.into() }
    }

    /// Whether the same can work later, although nothing about the thread changes.
    ///
    /// ```
    /// use prowess_agent::middleware::MiddlewareError;
    ///
    /// assert!(MiddlewareError::unavailable("restore files", "the store is out of reach").passes());
    /// assert!(!MiddlewareError::new("restore files", "a file is damaged").passes());
    /// ```
    pub fn passes(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
