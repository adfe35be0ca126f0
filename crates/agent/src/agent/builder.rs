//! Puts an agent together.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Agent, AgentError, AgentOptions, Inner};
use crate::middleware::MiddlewareFactory;
use crate::model::Model;
use crate::thread::{MemoryThreads, ThreadStore};
use crate::tool::{Tool, Tools};

/// Puts an agent together.
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
/// options.limits.steps = 5;
/// let agent = Agent::builder(Arc::new(Scripted::new([hello])))
///     .prompt("You greet.")
///     .with(Todos)
///     .options(options)
///     .build()?;
/// let mut thread = agent.open(ThreadId::new()).await?;
/// thread.say("Hi.", &NoWatcher).await?;
/// assert_eq!(thread.answer().as_deref(), Some("Hello!"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "an agent is there after `build`"]
pub struct AgentBuilder(Inner);

impl AgentBuilder {
    pub(super) fn new(model: Arc<dyn Model>) -> Self {
        Self(Inner {
            name: None,
            model,
            prompt: None,
            tools: Vec::new(),
            layers: Vec::new(),
            store: Arc::new(MemoryThreads::new()),
            options: AgentOptions::default(),
        })
    }

    /// What it is called where its turns are told of.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.name = Some(name.into());
        self
    }

    /// What the agent is for: the first section of its system prompt.
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.0.prompt = Some(prompt.into());
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.0.tools.push(tool);
        self
    }

    /// Adds a part, around which are all parts before it.
    pub fn with(mut self, layer: impl MiddlewareFactory + 'static) -> Self {
        self.0.layers.push(Arc::new(layer));
        self
    }

    /// Adds a part that others made.
    pub(crate) fn layer(mut self, layer: Arc<dyn MiddlewareFactory>) -> Self {
        self.0.layers.push(layer);
        self
    }

    /// Where threads are kept; in memory otherwise.
    pub fn store(mut self, store: Arc<dyn ThreadStore>) -> Self {
        self.0.store = store;
        self
    }

    /// How much it may do.
    pub fn options(mut self, options: AgentOptions) -> Self {
        self.0.options = options;
        self
    }

    /// The agent.
    ///
    /// # Errors
    ///
    /// Two tools or two parts have one name.
    pub fn build(self) -> Result<Agent, AgentError> {
        let mut tools = Tools::default();
        for tool in &self.0.tools {
            tools.add(Arc::clone(tool))?;
        }
        let mut names = BTreeSet::new();
        for layer in &self.0.layers {
            if !names.insert(layer.name()) {
                return Err(AgentError::TwoParts(layer.name().to_owned()));
            }
        }
        Ok(Agent(Arc::new(self.0)))
    }
}
