//! The parts that an agent is made of.

mod approval;
pub(crate) mod consult;
mod cost_limit;
mod eviction;
mod files;
mod frame;
mod hooks;
mod memory;
mod skills;
mod state_files;
mod subagents;
mod summarisation;
mod todos;
#[cfg(feature = "run")]
mod workspace_files;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use prowess_permission::Question;

use crate::agent::{NextModel, NextTool};
use crate::id::{CallId, ThreadId};
use crate::message::{Message, ToolCall};
use crate::model::{Model, ModelError, ModelResponse, ModelUsage, PromptSection};
use crate::state::{AnyState, States};
use crate::thread::ThreadStore;
use crate::thread_state::{StateChange, ThreadState, TurnOutcome};
use crate::tool::{Tool, ToolData, ToolKind, ToolOutput, Tools};

pub use self::approval::Approval;
pub use self::cost_limit::CostLimit;
pub use self::eviction::Eviction;
pub use self::files::Files;
#[cfg(feature = "run")]
pub use self::hooks::SandboxedHooks;
pub use self::hooks::{
    DEFAULT_HOOK_TIMEOUT, HookCommand, HookCommands, HookConfigError, HookEvent, HookExit, HookProblem,
    HookRan, HookSet, HookSkill, Hooks, MAX_HOOK_OUTPUT, MAX_HOOK_TIMEOUT, MAX_HOOKS,
};
pub use self::memory::{MAX_MEMORY_BYTES, Memory};
pub use self::skills::{SkillUse, Skills, SkillsState};
pub use self::state_files::{MAX_STATE_BYTES, MAX_STATE_FILES, StateFiles};
pub use self::subagents::SubAgents;
pub use self::summarisation::{
    Compaction, Keep, Summarisation, SummarisationOptions, Trigger, TruncateArguments,
};
pub use self::todos::{Todo, TodoStatus, Todos};
#[cfg(feature = "run")]
pub use self::workspace_files::WorkspaceFiles;
pub use crate::thread::sub_agent_threads;

/// A part of an agent, before there is a thread: it says what state it has, and opens itself for a thread.
///
/// Every [`Middleware`] in an `Arc` is one, for parts that keep nothing of a thread but their state.
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
    /// Its name. Its state and its prompt sections are under it.
    fn name(&self) -> &str;

    /// Its state in an empty thread, if it has any.
    fn state(&self) -> Option<Box<dyn AnyState>> {
        None
    }

    /// The part for one thread, whose states are those of its log.
    ///
    /// # Errors
    ///
    /// Why it cannot do its work in this thread.
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

/// A part of an agent in a thread: it may own tools, prompt sections and state, and take part at six places.
///
/// Parts are asked in their order, and from the last to the first when a turn is to end; what wraps something is around
/// all parts after it. When a hook fails the turn stays
/// where it is: [`crate::Thread::go_on`] asks it again. After a crash, too, a hook may be asked again for the same moment.
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
/// /// Lets no tool be called.
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
/// let agent = Agent::builder(Arc::new(model)).with(HandsOff).with(Todos).build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("Plan.", &NoWatcher).await?;
/// assert_eq!(thread.answer().as_deref(), Some("I see."));
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Middleware: Any + Send + Sync + Debug {
    /// Its name.
    fn name(&self) -> &str;

    /// Its state in an empty thread, if it has any.
    fn state(&self) -> Option<Box<dyn AnyState>> {
        None
    }

    /// The tools that it brings; asked for before every call of a model, and before the calls it makes.
    fn tools(&self, _: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    /// What it adds to the system prompt; asked for before every call of a model, and by [`crate::Thread::preview`], which
    /// stores none of the changes. So it keeps nothing of what it did: it gives the same for the same moment.
    async fn sections(&self, _: MiddlewareContext<'_>) -> Result<Sections, MiddlewareError> {
        Ok(Sections::default())
    }

    /// A turn begins.
    async fn before_agent(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(Vec::new())
    }

    /// The model is to be asked.
    async fn before_model(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(Vec::new())
    }

    /// Around a call of the model.
    async fn wrap_model_call(
        &self,
        moment: MiddlewareContext<'_>,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let _ = moment;
        next.ask().await
    }

    /// The model has answered; its calls, if there are any, are to be made.
    async fn after_model(&self, _: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(Vec::new())
    }

    /// Around a call of a tool.
    async fn wrap_tool_call(&self, moment: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        let _ = moment;
        next.call().await
    }

    /// A turn is to end. [`MiddlewareAction::Tell`] and [`Jump::Model`] let it go on, unless it took all that it may or someone
    /// ended it.
    async fn after_agent(
        &self,
        _: MiddlewareContext<'_>,
        _: &TurnOutcome,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        Ok(Vec::new())
    }

    /// What changed in its state while nobody asked it, such as files that a tool wrote. It is asked for whenever
    /// something is stored, and stored before that; what was given is not given again.
    fn unstored(&self) -> Vec<StateChange> {
        Vec::new()
    }

    /// Another part is about to do something, or did it.
    async fn hear(&self, _: MiddlewareContext<'_>, _: Announcement<'_>) -> Reaction {
        Reaction::default()
    }
}

/// What a part adds to the system prompt.
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
pub struct Sections {
    /// Its sections.
    pub sections: Vec<PromptSection>,
    /// What has to change for them to be true: it is stored before the model is asked.
    pub changes: Vec<StateChange>,
}

impl From<Vec<PromptSection>> for Sections {
    fn from(sections: Vec<PromptSection>) -> Self {
        Self { sections, changes: Vec::new() }
    }
}

impl From<PromptSection> for Sections {
    fn from(section: PromptSection) -> Self {
        vec![section].into()
    }
}

/// Why a part could not do its work. [`AgentError::Part`](crate::AgentError::Part) says which part it was.
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
    /// The thread has no state of its: the part that was opened is not the one that the agent was built with.
    #[error("its state is missing")]
    NoState,
    /// Something that it needs failed.
    #[error("could not {action}: {source}")]
    Failed {
        /// What it was to do, such as "read the rules".
        action: String,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl MiddlewareError {
    /// Something that it needs failed: what it was to do, such as "read the rules", and what happened.
    pub fn new(
        action: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Failed { action: action.into(), source: source.into() }
    }
}

/// What a part is about to do, or did, that no hook shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Announcement<'a> {
    /// The first messages that the model sees are to be taken out of its sight.
    Compacting {
        /// How many.
        messages: usize,
    },
    /// A sub-agent is to begin.
    SubAgentStarts {
        /// Which one.
        name: &'a str,
        /// What it is to do.
        task: &'a str,
    },
    /// A sub-agent has ended.
    SubAgentStopped {
        /// Which one.
        name: &'a str,
        /// What it answered.
        answer: &'a str,
    },
    /// The thread is to be closed by this process.
    SessionEnds,
}

/// What parts say to what they hear.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reaction {
    /// Why it should not be done. It is too late for what was done.
    pub objection: Option<String>,
    /// What changes with it. Whoever tells of something stores it.
    pub changes: Vec<StateChange>,
}

/// What a part sees when it is asked.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MiddlewareContext<'a> {
    /// The thread.
    pub thread: &'a ThreadId,
    /// Its conversation, and where its turn stands.
    pub run: &'a ThreadState,
    /// The states of all parts.
    pub states: &'a States,
    /// The agent's own model.
    pub model: &'a Arc<dyn Model>,
    /// Where its thread is kept.
    pub(crate) store: &'a Arc<dyn ThreadStore>,
    pub(crate) parts: &'a [Arc<dyn Middleware>],
    /// Those that the model was told of last.
    pub(crate) tools: Option<&'a Tools>,
}

impl<'a> MiddlewareContext<'a> {
    /// Another part of the agent, by its type.
    pub(crate) fn part<P: Middleware>(self) -> Option<&'a P> {
        self.parts.iter().find_map(|part| (&**part as &dyn Any).downcast_ref())
    }

    /// What the tool of a call does. Without one of that name nobody knows: the agent was another one when the call was
    /// made, or the model made the name up.
    pub fn act(self, tool: &str) -> Option<ToolKind> {
        Some(self.tools?.get(tool)?.act())
    }

    /// Tells all parts of something. The first objection counts.
    pub async fn announce(self, occasion: Announcement<'_>) -> Reaction {
        let mut all = Reaction::default();
        for part in self.parts {
            let heard = part.hear(self, occasion).await;
            all.objection = all.objection.or(heard.objection);
            all.changes.extend(heard.changes);
        }
        all
    }
}

/// What a part wants done.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_agent::middleware::{Jump, MiddlewareError};
/// use prowess_agent::{Middleware, MiddlewareAction, MiddlewareContext, TurnOutcome};
///
/// /// Ends a turn after ten messages.
/// #[derive(Clone, Debug)]
/// struct ShortTalk;
///
/// #[async_trait]
/// impl Middleware for ShortTalk {
///     fn name(&self) -> &str {
///         "short_talk"
///     }
///
///     async fn before_model(&self, moment: MiddlewareContext<'_>) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
///         if moment.run.messages().len() < 10 {
///             return Ok(Vec::new());
///         }
///         Ok(vec![MiddlewareAction::Jump(Jump::End(TurnOutcome::Stopped { reason: "we have talked enough".into() }))])
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MiddlewareAction {
    /// A change of its state.
    Change(StateChange),
    /// After the model: this call waits for a person.
    Ask {
        /// The call.
        call: CallId,
        /// What is asked.
        question: Box<Question>,
    },
    /// After the model: this call needs nobody's word. What the rules deny stays denied.
    Approve {
        /// The call.
        call: CallId,
    },
    /// After the model: this call is not made, and its answer is this.
    Answer {
        /// The call.
        call: CallId,
        /// What the model reads.
        text: String,
        /// Whether it is an error.
        is_error: bool,
        /// What came of it, for whoever shows it.
        data: Option<ToolData>,
    },
    /// The model no longer sees the first messages, but a summary of them.
    Compact {
        /// How many.
        cut: usize,
        /// What it sees in their place.
        summary: Message,
        /// What the summary cost.
        spent: ModelUsage,
    },
    /// The model is told this, as if a user said it. A turn that is to end goes on.
    Tell(Vec<Message>),
    /// The turn goes on elsewhere.
    Jump(Jump),
}

/// Where a turn goes on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Jump {
    /// At the model, which is told this: calls that were not made are answered as such.
    Model(Vec<Message>),
    /// At the tools: these calls are made as if the model had made them.
    Tools(Vec<ToolCall>),
    /// At its end.
    End(TurnOutcome),
    /// At this place: what the part changed is stored, and the part is asked again, to do what must not be done before.
    /// Nothing happens if it changed nothing, or wants it too often.
    Again,
}
