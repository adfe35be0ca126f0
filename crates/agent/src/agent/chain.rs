//! Parts around a call: each is given what comes after it.

use std::sync::Arc;

use futures_util::StreamExt as _;
use serde_json::Value;
use tracing::Instrument as _;

use super::watch::{ThreadUpdate, Watcher};
use crate::id::{CallId, MessageId, ThreadId};
use crate::message::ToolCall;
use crate::middleware::{Middleware, MiddlewareContext};
use crate::model::{
    Model, ModelDelta, ModelError, ModelErrorKind, ModelRequest, ModelResponse, ResponseAssembly,
};
use crate::telemetry;
use crate::thread_state::Consultation;
use crate::tool::{Tool, ToolAnswer, ToolContext, ToolKind, ToolOutput};

/// The most bytes of one answer. A model that says more says nothing of use.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// The most calls of one answer.
const MAX_CALLS: usize = 128;

/// A call of a model, as the parts that follow make it. It can be made again, and changed before.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use prowess_agent::agent::NextModel;
/// use prowess_agent::model::ModelResponse;
/// use prowess_agent::{Middleware, MiddlewareContext, Model, ModelError};
///
/// /// Asks another model when the first one fails.
/// #[derive(Clone, Debug)]
/// struct Fallback(Arc<dyn Model>);
///
/// #[async_trait]
/// impl Middleware for Fallback {
///     fn name(&self) -> &str {
///         "fallback"
///     }
///
///     async fn wrap_model_call(&self, _: MiddlewareContext<'_>, next: NextModel<'_>) -> Result<ModelResponse, ModelError> {
///         let mut again = next.clone();
///         match next.ask().await {
///             Err(error) if error.kind.is_passing() => {
///                 again.model = Arc::clone(&self.0);
///                 again.ask().await
///             }
///             answer => answer,
///         }
///     }
/// }
/// # use prowess_agent::model::ModelErrorKind;
/// # use prowess_agent::{Agent, NoWatcher, ThreadId};
/// # use prowess_models::{Scripted, ScriptedTurn};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let busy = Scripted::new([ScriptedTurn::new().fail(ModelErrorKind::Overloaded, "busy")]);
/// # let part = Fallback(Arc::new(Scripted::new([ScriptedTurn::new().say("Hello!")])));
/// # let mut thread = Agent::builder(Arc::new(busy)).with(part).build()?.open(ThreadId::new()).await?;
/// # thread.say("Hi.", &NoWatcher).await?;
/// # assert_eq!(thread.answer().as_deref(), Some("Hello!"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct NextModel<'a> {
    /// What is asked.
    pub request: ModelRequest,
    /// Who is asked.
    pub model: Arc<dyn Model>,
    pub(super) moment: MiddlewareContext<'a>,
    pub(super) parts: &'a [Arc<dyn Middleware>],
    pub(super) watcher: &'a dyn Watcher,
}

impl std::fmt::Debug for NextModel<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NextModel").field("model", &self.model.name()).finish_non_exhaustive()
    }
}

impl NextModel<'_> {
    /// Makes the call.
    ///
    /// # Errors
    ///
    /// The model did not answer, or not to the end.
    pub async fn ask(mut self) -> Result<ModelResponse, ModelError> {
        match self.parts.split_first() {
            Some((part, rest)) => {
                self.parts = rest;
                part.wrap_model_call(self.moment, self).await
            }
            None => ask(&*self.model, self.request, self.moment.thread, self.watcher).await,
        }
    }
}

/// Asks a model for a thread, and waits for all that it says.
pub(crate) async fn ask(
    model: &dyn Model,
    request: ModelRequest,
    thread: &ThreadId,
    watcher: &dyn Watcher,
) -> Result<ModelResponse, ModelError> {
    let span = telemetry::chat(thread, model.name());
    let answer = hear(model, request, watcher).instrument(span.clone()).await;
    telemetry::answered(&span, &answer);
    answer
}

async fn hear(
    model: &dyn Model,
    request: ModelRequest,
    watcher: &dyn Watcher,
) -> Result<ModelResponse, ModelError> {
    let mut stream = model.ask(request).await?;
    let mut assembly = ResponseAssembly::new(model.name());
    let mut bytes = 0_usize;
    while let Some(delta) = stream.next().await {
        let delta = delta?;
        bytes = bytes.saturating_add(delta.weight());
        if bytes > MAX_ANSWER_BYTES {
            let message = format!("it said more than {MAX_ANSWER_BYTES} bytes");
            return Err(ModelError::new(model.name(), ModelErrorKind::Malformed, message));
        }
        match &delta {
            ModelDelta::Text(text) => watcher.update(ThreadUpdate::Text(text)),
            ModelDelta::Reasoning(text) => watcher.update(ThreadUpdate::Reasoning(text)),
            _ => {}
        }
        assembly.push(delta);
    }
    let answer = assembly.finish();
    if answer.message.tool_calls().nth(MAX_CALLS).is_some() {
        let message = format!("it made more than {MAX_CALLS} calls at once");
        return Err(ModelError::new(model.name(), ModelErrorKind::Malformed, message));
    }
    Ok(answer)
}

/// A call of a tool, as the parts that follow make it.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_agent::agent::NextTool;
/// use prowess_agent::{Middleware, MiddlewareContext, ToolOutput};
///
/// /// Tells how long tools take.
/// #[derive(Clone, Debug)]
/// struct Timed;
///
/// #[async_trait]
/// impl Middleware for Timed {
///     fn name(&self) -> &str {
///         "timed"
///     }
///
///     async fn wrap_tool_call(&self, _: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
///         let (name, begun) = (next.call.name.clone(), std::time::Instant::now());
///         let output = next.call().await;
///         eprintln!("{name} took {:?}", begun.elapsed());
///         output
///     }
/// }
/// ```
#[derive(Clone, Copy)]
pub struct NextTool<'a> {
    /// The call.
    pub call: &'a ToolCall,
    /// Its arguments.
    pub arguments: &'a Value,
    /// Whether a person let it pass.
    pub approved: bool,
    /// Whether that person wants such calls never to be asked about again.
    pub always: bool,
    pub(super) consulted: Option<&'a Consultation>,
    pub(super) message: &'a MessageId,
    pub(super) tool: &'a dyn Tool,
    pub(super) moment: MiddlewareContext<'a>,
    pub(super) parts: &'a [Arc<dyn Middleware>],
    pub(super) watcher: &'a dyn Watcher,
}

impl std::fmt::Debug for NextTool<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NextTool").field("call", &self.call).finish_non_exhaustive()
    }
}

impl NextTool<'_> {
    /// What its tool does.
    pub fn act(&self) -> ToolKind {
        self.tool.act()
    }

    /// A name for what this call makes, which no other call of the thread has. It is safe as the name of a file.
    pub fn place(&self) -> &str {
        self.message.as_str()
    }

    /// Makes the call.
    pub async fn call(mut self) -> ToolOutput {
        if let Some((part, rest)) = self.parts.split_first() {
            self.parts = rest;
            return part.wrap_tool_call(self.moment, self).await;
        }
        let (watcher, id): (&dyn Watcher, &CallId) = (self.watcher, &self.call.id);
        let progress = |text: &str| watcher.update(ThreadUpdate::Progress(id, text));
        let (thread, states) = (self.moment.thread, self.moment.states);
        let context = ToolContext {
            thread,
            call: id,
            message: self.message,
            states,
            consulted: self.consulted,
            progress: &progress,
            moment: self.moment,
        };
        let limit = self.tool.timeout();
        let called = tokio::time::timeout(limit, self.tool.call(self.arguments.clone(), context)).await;
        called.unwrap_or_else(|_| {
            ToolAnswer::error(format!("Error: the tool took longer than {} seconds.", limit.as_secs())).into()
        })
    }
}
