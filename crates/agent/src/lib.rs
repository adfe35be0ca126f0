//! Build agents that work in durable threads.
//!
//! An agent is a model with tools and middleware. It works on threads: stored conversations that survive restarts, and
//! that another process can continue. [`Agent::deep_builder`] builds the complete agent, with skills, files, memory, todos,
//! sub-agents, tool permissions, hooks and summarisation.
//!
//! ```
//! use std::sync::Arc;
//! use prowess_agent::{Agent, FunctionTool, NoWatcher, ThreadId, ToolAnswer};
//! use prowess_models::{ScriptedExpect, Scripted, ScriptedTurn};
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add {
//!     /// The numbers to add.
//!     numbers: Vec<i64>,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A tool is a function with typed arguments.
//! let add = FunctionTool::new("add", "Adds numbers.", |add: Add| async move {
//!     Ok(ToolAnswer::text(add.numbers.iter().sum::<i64>().to_string()))
//! });
//! // This model follows a script. `prowess-models` also has `OpenAi` and `Anthropic`.
//! let model = Scripted::new([
//!     ScriptedTurn::new().call("add", json!({"numbers": [1, 2, 3]})),
//!     ScriptedTurn::new().expect(ScriptedExpect::new().last("6")).say("It is 6."),
//! ]);
//! let agent = Agent::builder(Arc::new(model)).prompt("You count for others.").tool(Arc::new(add)).build()?;
//!
//! // The thread stores everything before it shows it, so another process can continue it.
//! let mut thread = agent.open(ThreadId::new()).await?;
//! thread.say("What is 1 + 2 + 3?", &NoWatcher).await?;
//! assert_eq!(thread.last_response().as_deref(), Some("It is 6."));
//! # Ok(())
//! # }
//! ```
//!
//! # The five types to know
//!
//! - [`Agent`]: a model, tools and middleware. [`Agent::open`] opens a thread.
//! - [`Thread`]: the handle to a thread. [`Thread::say`] starts a turn, [`Thread::reply`] replies to its questions.
//! - [`Tool`]: a function that the model can call. [`FunctionTool`] makes one from a Rust function.
//! - [`Middleware`]: a component that adds tools, prompt sections and state, and can wrap calls. [`middleware`] has those
//!   that prowess ships.
//! - [`Model`]: the model that the agent calls. The crate `prowess-models` implements it.
//!
//! A [`Thread`] is a log of [`Event`]s in a [`ThreadStore`]. [`ThreadState`] is the result of applying them. It does no
//! I/O: it says what comes next, and the agent does it.
//!
//! # Features
//!
//! All are off by default. `run`: hooks that are commands, and files in workspaces, in the sandbox. `otel`: spans to an
//! OpenTelemetry collector. `testing`: the test suite for your own thread store.

/// Builds the programs in the README and in the page about embedding, and runs those that have a `main`.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/embedding.md")]
struct Documents;

pub mod agent;
pub mod backends;
pub mod cost;
mod deep_agent;
pub mod id;
pub mod json;
pub mod message;
pub mod middleware;
pub mod model;
pub mod queue;
pub mod server_text;
pub mod state;
pub mod telemetry;
pub mod thread;
pub mod thread_state;
pub mod tool;
#[cfg(feature = "run")]
pub mod tree_files;

pub use agent::{
    Agent, AgentBuilder, AgentError, AgentOptions, NoWatcher, Thread, ThreadUpdate, TurnStatus, WaitingCall,
    Watcher,
};
pub use cost::Prices;
pub use deep_agent::DeepAgentBuilder;
pub use id::ThreadId;
pub use message::{Message, ToolCall, ToolResult};
pub use middleware::{Middleware, MiddlewareAction, MiddlewareContext, MiddlewareFactory};
pub use model::{Model, ModelDelta, ModelError, ModelRequest, Usage};
pub use state::{State, States};
pub use thread::{MemoryThreads, ThreadStore};
pub use thread_state::{CallReply, Event, ThreadState, TurnLimits, TurnOutcome};
pub use tool::{FunctionTool, Tool, ToolAnswer, ToolContext, ToolOutput, Tools};

/// Test suites for your own implementations of this crate's traits.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::queue::testing::turn_queue_suite;
    pub use crate::thread::testing::thread_store_suite;
}
