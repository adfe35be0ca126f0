//! Builds an agent.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Agent, AgentError, AgentOptions, Inner};
use crate::middleware::contract::MiddlewareFactory;
use crate::model::Model;
use crate::thread::{MemoryThreads, ThreadStore};
use crate::tool::{Tool, ToolSelection, Tools};

/// Builds an [`Agent`].
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::middleware::Todos;
/// use prowess_agent::{Agent, AgentOptions, NoWatcher, ThreadId};
/// use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hello = ScriptedTurn::new().expect(ScriptedExpect::new().system("You greet.").tool("write_todos")).say("Hello!");
/// let mut options = AgentOptions::default();
/// options.limits.model_calls = 5;
/// let agent = Agent::builder(Arc::new(Scripted::new([hello])))
///     .prompt("You greet.")
///     .middleware(Todos)
///     .options(options)
///     .build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("Hi.", &NoWatcher).await?;
/// assert_eq!(thread.last_response().as_deref(), Some("Hello!"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct AgentBuilder(Inner);

impl AgentBuilder {
    pub(super) fn new(model: Arc<dyn Model>) -> Self {
        Self(Inner {
            name: None,
            model,
            prompt: None,
            tools: Vec::new(),
            selection: ToolSelection::default(),
            middleware: Vec::new(),
            store: Arc::new(MemoryThreads::new()),
            options: AgentOptions::default(),
        })
    }

    /// The agent's name in telemetry.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.name = Some(name.into());
        self
    }

    /// The first section of the system prompt: what the agent is for.
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.0.prompt = Some(prompt.into());
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.0.tools.push(tool);
        self
    }

    /// The tools that the model gets, of all that the agent and its middleware have. Default: all.
    pub fn select_tools(mut self, selection: ToolSelection) -> Self {
        self.0.selection = selection;
        self
    }

    /// Adds a middleware. Those that were added before wrap it.
    pub fn middleware(self, middleware: impl MiddlewareFactory + 'static) -> Self {
        self.shared_middleware(Arc::new(middleware))
    }

    /// Adds a middleware that several agents share.
    pub(crate) fn shared_middleware(mut self, middleware: Arc<dyn MiddlewareFactory>) -> Self {
        self.0.middleware.push(middleware);
        self
    }

    /// The store that keeps the threads. Default: memory.
    pub fn store(mut self, store: Arc<dyn ThreadStore>) -> Self {
        self.0.store = store;
        self
    }

    /// How much the agent may do.
    pub fn options(mut self, options: AgentOptions) -> Self {
        self.0.options = options;
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    ///
    /// Two tools or two middleware have the same name.
    pub fn build(self) -> Result<Agent, AgentError> {
        let mut tools = Tools::default();
        for tool in &self.0.tools {
            tools.add(Arc::clone(tool))?;
        }
        let mut names = BTreeSet::new();
        for middleware in &self.0.middleware {
            if !names.insert(middleware.name()) {
                return Err(AgentError::DuplicateMiddleware(middleware.name().to_owned()));
            }
        }
        Ok(Agent(Arc::new(self.0)))
    }
}
