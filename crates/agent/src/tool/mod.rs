//! Tools: functions that a model can call.

mod answer;
mod data;
mod function;
mod kind;
pub(crate) mod permission;
#[cfg(feature = "run")]
mod reported_output;
mod selection;
mod tools;

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

pub use self::answer::{ToolAnswer, ToolOutput};
pub use self::data::{ChangeKind, ChangedFile, RefusedBy, ToolData};
pub use self::function::{FunctionTool, ToolFailure};
pub(crate) use self::function::{parsed, schema};
pub use self::kind::ToolKind;
#[cfg(feature = "run")]
pub(crate) use self::reported_output::ReportedOutput;
pub use self::selection::ToolSelection;
pub use self::tools::{DuplicateTool, Tools};
use crate::agent::{ThreadUpdate, Watcher};
use crate::id::{CallId, MessageId, ThreadId};
use crate::middleware::contract::{Announcement, MiddlewareContext, Reaction};
use crate::model::ToolDefinition;
use crate::state::States;
use crate::thread_state::Consultation;

/// How long a tool call may take, unless the tool says otherwise.
pub const DEFAULT_TOOL_TIMEOUT: Duration = Duration::from_secs(600);

/// A function that a model can call.
///
/// [`FunctionTool`] is simpler. Implement this trait if the tool needs its thread, or asks a person.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use prowess_agent::model::ToolDefinition;
/// use prowess_agent::tool::ToolKind;
/// use prowess_agent::{Tool, ToolAnswer, ToolContext, ToolOutput};
/// use serde_json::{Value, json};
///
/// /// Says in which thread it was called.
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
/// let parameters = json!({"type": "object", "properties": {}});
/// let definition = ToolDefinition::new("where_am_i", "Returns the thread's name.", parameters);
/// let tool = WhereAmI(Arc::new(definition));
/// assert_eq!(tool.kind(), ToolKind::Other);
/// assert!(!tool.is_idempotent(), "unless it says so");
/// ```
#[async_trait]
pub trait Tool: Send + Sync + Debug {
    /// The tool as the model sees it. The agent asks before every model call, so create it once and share it.
    fn definition(&self) -> Arc<ToolDefinition>;

    /// The kind of work that the tool does. Middleware decide by this, never by the name.
    fn kind(&self) -> ToolKind {
        ToolKind::Other
    }

    /// The label of the MCP server that has the tool, if its kind is [`ToolKind::Server`].
    fn server(&self) -> Option<&str> {
        None
    }

    /// Whether a call that was cut off can be repeated: it changes nothing, or does the same each time.
    ///
    /// By default, the tool's kind decides.
    fn is_idempotent(&self) -> bool {
        self.kind().is_idempotent()
    }

    /// How long one call may take.
    fn timeout(&self) -> Duration {
        DEFAULT_TOOL_TIMEOUT
    }

    /// Does the work. A failure is an answer too: the model reads it.
    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput;
}

/// What a tool sees of the call and its thread.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ToolContext<'a> {
    /// The thread.
    pub thread: &'a ThreadId,
    /// The call.
    pub call: &'a CallId,
    /// The id of the message with the answer. No other call of the thread has it.
    pub message: &'a MessageId,
    /// The states as they were when the model made its calls.
    pub states: &'a States,
    /// The question that this tool asked a person about this call, and the reply.
    pub consultation: Option<&'a Consultation>,
    /// Reports progress to the watcher: one or more lines, without the last line break.
    pub progress: &'a (dyn Fn(&str) + Send + Sync),
    pub(crate) watcher: &'a dyn Watcher,
    pub(crate) middleware: MiddlewareContext<'a>,
}

impl<'a> ToolContext<'a> {
    /// What middleware see during this call.
    pub fn middleware(&self) -> MiddlewareContext<'a> {
        self.middleware
    }

    /// Tells the person something, through the watcher of the thread.
    pub fn notice(&self, text: &str) {
        self.watcher.update(ThreadUpdate::Notice(text));
    }

    /// Announces something to all middleware; see [`MiddlewareContext::announce`].
    pub async fn announce(&self, announcement: Announcement<'_>) -> Reaction {
        self.middleware.announce(announcement).await
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
