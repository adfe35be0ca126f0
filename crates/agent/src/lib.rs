//! Messages, the run as a state machine, tools, middleware and durable threads: the loop that skills live in.

/// The programs of the README are tests, and those of the page about embedding; parts of programs say `ignore` there.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/embedding.md")]
struct Documents;

mod agent;
mod backends;
mod cost;
mod id;
mod message;
mod middleware;
mod model;
pub mod parts;
mod run;
mod state;
pub mod telemetry;
mod thread;
mod tool;

pub use agent::{
    Agent, AgentBuilder, AgentError, AgentOptions, DeepAgent, NextModel, NextTool, NoWatcher, ReplyTo, Sight,
    Thread, Turn, Waiting, Watcher,
};
pub use backends::Backends;
pub use cost::{Cost, ModelPrice, Price, PriceError, Prices};
pub use id::{CallId, MAX_THREAD_ID, MessageId, ThreadId, ThreadIdProblem};
pub use message::{AssistantPart, Content, Media, Message, Reasoning, ToolCall, ToolResult, UserPart};
pub use middleware::{Act, Heard, Jump, Layer, Middleware, Moment, Occasion};
pub use model::{
    Assembled, Assembly, Delta, Effort, Finish, Model, ModelError, ModelErrorKind, ModelLimits, ModelRequest,
    ModelStream, PromptSection, Spent, ToolChoice, ToolDefinition, Usage,
};
pub use run::{
    Call, Consulted, DEFAULT_MAX_STEPS, EVENT_VERSION, Effect, Event, Misplaced, Outcome, Reply, Run,
    RunLimits, StateChange,
};
pub use state::{AnyState, State, States};
pub use thread::{Lease, MemoryThreads, StoredEvent, ThreadError, ThreadInfo, ThreadStore};
pub use tool::{
    DEFAULT_TOOL_TIMEOUT, FunctionTool, Tool, ToolAnswer, ToolContext, ToolFailure, ToolOutput, Tools,
    TwoOfOneName,
};

/// What tests of this crate's users need: suites for their own implementations.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::thread::testing::thread_store_suite;
}
