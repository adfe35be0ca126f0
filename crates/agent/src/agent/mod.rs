//! The agent: a model, tools and middleware, and the threads that it works on.

mod actions;
mod builder;
mod error;
mod lease;
mod log;
mod model_call;
mod next;
pub(crate) mod next_request;
mod options;
mod reply;
mod thread;
mod tool_calls;
mod turn;
mod unfinished_call;
mod watcher;

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

pub use self::actions::BY_MIDDLEWARE;
pub use self::builder::AgentBuilder;
pub use self::error::AgentError;
use self::lease::HeldLease;
pub(crate) use self::model_call::call_model;
pub use self::next::{NextModel, NextTool};
pub use self::options::AgentOptions;
pub use self::reply::{ReplyTo, WaitingCall};
pub use self::thread::Thread;
pub use self::turn::TurnStatus;
pub use self::watcher::{NoWatcher, ThreadUpdate, Watcher};
use crate::id::ThreadId;
use crate::middleware::contract::MiddlewareFactory;
use crate::model::Model;
use crate::thread::{Lease, ThreadStore, sub_agent_threads};
use crate::thread_state::{Event, StateChange, TurnLimits};
use crate::tool::{Tool, ToolSelection};

/// An agent: a model with tools and middleware. Clones are handles to the same agent.
///
/// ```
/// # use std::sync::Arc;
/// # use prowess_agent::{Agent, AgentError, FunctionTool, Model, NoWatcher, ThreadId, ToolAnswer};
/// # use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct Add { numbers: Vec<i64> }
/// async fn ask(model: Arc<dyn Model>) -> Result<String, AgentError> {
///     let add = FunctionTool::new("add", "Adds numbers.", |add: Add| async move {
///         Ok(ToolAnswer::text(add.numbers.iter().sum::<i64>().to_string()))
///     });
///     let agent = Agent::builder(model).prompt("You count for others.").tool(Arc::new(add)).build()?;
///     let mut thread = agent.open(ThreadId::new()).await?;
///     thread.say("What is 1 + 2 + 3?", &NoWatcher).await?;
///     Ok(thread.last_response().unwrap_or_default())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AgentError> {
/// # let call = ScriptedTurn::new().call("add", serde_json::json!({"numbers": [1, 2, 3]}));
/// # let model = Scripted::new([call, ScriptedTurn::new().expect(ScriptedExpect::new().last("6")).say("It is 6.")]);
/// # assert_eq!(ask(Arc::new(model)).await?, "It is 6.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Agent(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    name: Option<String>,
    model: Arc<dyn Model>,
    prompt: Option<String>,
    tools: Vec<Arc<dyn Tool>>,
    selection: ToolSelection,
    middleware: Vec<Arc<dyn MiddlewareFactory>>,
    store: Arc<dyn ThreadStore>,
    options: AgentOptions,
}

impl Agent {
    /// Starts to build an agent with this model.
    pub fn builder(model: Arc<dyn Model>) -> AgentBuilder {
        AgentBuilder::new(model)
    }

    /// How long a thread stays leased to a process that died.
    pub fn lease(&self) -> Duration {
        self.0.options.lease
    }

    /// Opens a thread, or creates it.
    ///
    /// # Errors
    ///
    /// Another process works on the thread, the store cannot read it, a middleware cannot work in it, or two tools have
    /// the same name.
    pub async fn open(&self, id: ThreadId) -> Result<Thread, AgentError> {
        let held = self.0.take_lease(&id).await?;
        self.open_held(held).await
    }

    /// Opens a thread with a lease that you took, such as that of a [`Claim`](crate::queue::Claim). You release it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use prowess_agent::{Agent, MemoryThreads, NoWatcher, ThreadId, ThreadStore};
    /// use prowess_models::{Scripted, ScriptedTurn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Arc::new(MemoryThreads::new());
    /// let model = Scripted::new([ScriptedTurn::new().say("Hello.")]);
    /// let agent = Agent::builder(Arc::new(model)).store(store.clone()).build()?;
    ///
    /// let lease = store.lease(&ThreadId::new(), "worker 1", Duration::from_secs(30)).await?;
    /// let mut thread = agent.open_leased(lease.clone()).await?;
    /// thread.say("Hi.", &NoWatcher).await?;
    /// thread.close().await?;
    /// assert!(agent.open(lease.thread.clone()).await.is_err(), "the lease is still yours");
    /// store.release(&lease).await?;
    /// assert!(agent.open(lease.thread).await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The store cannot read the thread, a middleware cannot work in it, or two tools have the same name.
    pub async fn open_leased(&self, lease: Lease) -> Result<Thread, AgentError> {
        self.open_held(HeldLease::given(lease)).await
    }

    async fn open_held(&self, held: HeldLease) -> Result<Thread, AgentError> {
        let inner = &self.0;
        let mut thread = Thread::new(Arc::clone(inner), held);
        match thread.catch_up().await {
            Ok(()) => Ok(thread),
            Err(error) => {
                // Another process may be able to open the thread, without waiting for the lease to end.
                let _ = thread.held.release(&*inner.store).await;
                Err(error)
            }
        }
    }

    /// Deletes a thread and the threads of its sub-agents. A thread that does not exist is no error.
    ///
    /// # Errors
    ///
    /// Another process works on the thread, or the store failed.
    pub async fn delete(&self, id: &ThreadId) -> Result<(), AgentError> {
        // The lease keeps other processes from starting a sub-agent meanwhile.
        let held = self.0.take_lease(id).await?;
        let deleted = self.delete_sub_agent_threads(id).await;
        self.0.store.release(&held.lease).await?;
        deleted?;
        Ok(self.0.store.delete(id).await?)
    }

    /// Deletes a thread whose lease you have, and the threads of its sub-agents. This ends the lease.
    ///
    /// # Errors
    ///
    /// The store failed, or another process took the lease.
    pub async fn delete_leased(&self, lease: &Lease) -> Result<(), AgentError> {
        self.delete_sub_agent_threads(&lease.thread).await?;
        self.0.store.release(lease).await?;
        Ok(self.0.store.delete(&lease.thread).await?)
    }

    /// Deletes the threads of a thread's sub-agents, and those of their sub-agents.
    async fn delete_sub_agent_threads(&self, id: &ThreadId) -> Result<(), AgentError> {
        let threads = sub_agent_threads(&*self.0.store, id).await?;
        // The deepest first: if this fails, the parents of the remaining threads can still be found.
        for id in threads.iter().rev() {
            self.0.store.delete(id).await?;
        }
        Ok(())
    }

    /// Creates a thread that begins with these state changes, unless it exists already.
    pub(crate) async fn seed(&self, id: &ThreadId, changes: Vec<StateChange>) -> Result<(), AgentError> {
        let held = self.0.take_lease(id).await?;
        let event = Event::StateChanged { changes };
        let seeded = match self.0.store.events(id, 0, 1).await {
            Ok(events) if events.is_empty() => self.0.store.append(&held.lease, 0, &[event]).await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        self.0.store.release(&held.lease).await?;
        Ok(seeded?)
    }

    /// The same agent with another name, store and limits.
    pub(crate) fn bounded(&self, name: &str, store: Arc<dyn ThreadStore>, limits: TurnLimits) -> Self {
        let mut inner = Inner::clone(&self.0);
        (inner.name, inner.store, inner.options.limits) = (Some(name.to_owned()), store, limits);
        Self(Arc::new(inner))
    }

    /// The same agent with one more middleware, before all others.
    pub(crate) fn with_middleware(&self, middleware: Arc<dyn MiddlewareFactory>) -> Self {
        let mut inner = Inner::clone(&self.0);
        inner.middleware.insert(0, middleware);
        Self(Arc::new(inner))
    }

    /// The limits of one turn.
    pub(crate) fn limits(&self) -> TurnLimits {
        self.0.options.limits
    }

    /// Whether the agent has a middleware of that name.
    pub(crate) fn has_middleware(&self, name: &str) -> bool {
        self.0.middleware.iter().any(|middleware| middleware.name() == name)
    }

    /// Which of all tools its model gets.
    pub(crate) fn selection(&self) -> &ToolSelection {
        &self.0.selection
    }
}

impl Inner {
    async fn take_lease(&self, id: &ThreadId) -> Result<HeldLease, AgentError> {
        let owner = format!("process {} ({})", std::process::id(), Uuid::now_v7().simple());
        let lease = self.store.lease(id, &owner, self.options.lease).await?;
        Ok(HeldLease::new(lease, self.options.lease))
    }
}
