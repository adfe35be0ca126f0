//! Messages, the run as a state machine, tools, middleware and durable threads: the loop that skills live in.
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
//! // A tool is a function of typed arguments.
//! let add = FunctionTool::new("add", "Adds numbers.", |add: Add| async move {
//!     Ok(ToolAnswer::text(add.numbers.iter().sum::<i64>().to_string()))
//! });
//! // This model says what a script tells; `OpenAi` and `Anthropic` of `prowess-models` say more.
//! let model = Scripted::new([
//!     ScriptedTurn::new().call("add", json!({"numbers": [1, 2, 3]})),
//!     ScriptedTurn::new().expect(ScriptedExpect::new().last("6")).say("It is 6."),
//! ]);
//! let agent = Agent::builder(Arc::new(model)).prompt("You count for others.").tool(Arc::new(add)).build()?;
//!
//! // What happens in a thread is stored before it is shown: another process can go on with it.
//! let mut thread = agent.open(ThreadId::new()).await?;
//! thread.say("What is 1 + 2 + 3?", &NoWatcher).await?;
//! assert_eq!(thread.answer().as_deref(), Some("It is 6."));
//! # Ok(())
//! # }
//! ```
//!
//! [`DeepAgent`] is the whole agent by one call: skills, files, memory, todos, sub-agents, approval, hooks and
//! summaries. [`Agent`] has what you give it: a [`Model`], [`Tool`]s, and [`parts`], each a [`Middleware`] that may own
//! tools, sections of the prompt and a [`State`], and take part in every turn.
//!
//! A [`Thread`] is a log of [`Event`]s in a [`ThreadStore`], and a [`ThreadState`] is what they come to: which messages there
//! are, and whether the model is to be asked, tools are to be called, or a person is to answer. It does no I/O.
//!
//! Features, all off by default: `run` (commands of hooks and files of workspaces, in the sandbox), `otel` (spans to an
//! OpenTelemetry collector), and `testing`, which has the suite that every store of threads passes, for your own.

/// The programs of the README are tests, and those of the page about embedding; parts of programs say `ignore` there.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/embedding.md")]
struct Documents;

pub mod agent;
pub mod backends;
pub mod cost;
mod deep;
pub mod id;
pub mod json;
pub mod message;
pub mod middleware;
pub mod model;

pub mod server_words;
pub mod state;
pub mod telemetry;
pub mod thread;
pub mod thread_state;
pub mod tool;

pub use agent::{
    Agent, AgentBuilder, AgentError, AgentOptions, NoWatcher, Thread, ThreadUpdate, TurnStatus, WaitingCall,
    Watcher,
};
pub use cost::Prices;
pub use deep::DeepAgent;
pub use id::ThreadId;
pub use message::{Message, ToolCall, ToolResult};
pub use middleware::{Middleware, MiddlewareAction, MiddlewareContext, MiddlewareFactory};
pub use model::{Model, ModelDelta, ModelError, ModelRequest, Usage};
pub use state::{State, States};
pub use thread::{MemoryThreads, ThreadStore};
pub use thread_state::{CallReply, Event, ThreadState, TurnLimits, TurnOutcome};
pub use tool::{FunctionTool, Tool, ToolAnswer, ToolContext, ToolOutput, Tools};

/// What tests of this crate's users need: suites for their own implementations.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::thread::testing::thread_store_suite;
}
