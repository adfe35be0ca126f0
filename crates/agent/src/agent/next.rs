//! What a middleware wraps: the rest of a model call or of a tool call.

use std::sync::Arc;

use serde_json::Value;

use super::call_model;
use super::watcher::{ThreadUpdate, Watcher};
use crate::id::{CallId, MessageId};
use crate::message::ToolCall;
use crate::middleware::contract::{Middleware, MiddlewareContext};
use crate::model::{Model, ModelError, ModelRequest, ModelResponse};
use crate::thread_state::Consultation;
use crate::tool::{Tool, ToolAnswer, ToolContext, ToolKind, ToolOutput};

/// The rest of a model call: the middleware that follow, then the model. It can be changed, and repeated.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use prowess_agent::agent::NextModel;
/// use prowess_agent::model::ModelResponse;
/// use prowess_agent::{Middleware, MiddlewareContext, Model, ModelError};
///
/// /// Calls another model if the first one fails.
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
///         match next.call().await {
///             Err(error) if error.kind.is_passing() => {
///                 again.model = Arc::clone(&self.0);
///                 again.call().await
///             }
///             response => response,
///         }
///     }
/// }
/// # use prowess_agent::model::ModelErrorKind;
/// # use prowess_agent::{Agent, NoWatcher, ThreadId};
/// # use prowess_models::{Scripted, ScriptedTurn};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let busy = Scripted::new([ScriptedTurn::new().fail(ModelErrorKind::Overloaded, "busy")]);
/// # let fallback = Fallback(Arc::new(Scripted::new([ScriptedTurn::new().say("Hello!")])));
/// # let mut thread = Agent::builder(Arc::new(busy)).middleware(fallback).build()?.open(ThreadId::new()).await?;
/// # thread.say("Hi.", &NoWatcher).await?;
/// # assert_eq!(thread.last_response().as_deref(), Some("Hello!"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct NextModel<'a> {
    /// The request.
    pub request: ModelRequest,
    /// The model that is called.
    pub model: Arc<dyn Model>,
    pub(super) context: MiddlewareContext<'a>,
    pub(super) middleware: &'a [Arc<dyn Middleware>],
    pub(super) watcher: &'a dyn Watcher,
}

impl std::fmt::Debug for NextModel<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NextModel").field("model", &self.model.name()).finish_non_exhaustive()
    }
}

impl NextModel<'_> {
    /// Tells the person something, through the watcher of the thread.
    pub fn notice(&self, text: &str) {
        self.watcher.update(ThreadUpdate::Notice(text));
    }

    /// Makes the call.
    ///
    /// # Errors
    ///
    /// The model failed, or its response broke off.
    pub async fn call(mut self) -> Result<ModelResponse, ModelError> {
        match self.middleware.split_first() {
            Some((middleware, rest)) => {
                self.middleware = rest;
                middleware.wrap_model_call(self.context, self).await
            }
            None => call_model(&*self.model, self.request, self.context.thread, self.watcher).await,
        }
    }
}

/// The rest of a tool call: the middleware that follow, then the tool.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_agent::agent::NextTool;
/// use prowess_agent::{Middleware, MiddlewareContext, ToolOutput};
///
/// /// Reports how long tools take.
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
    /// Whether a person approved it.
    pub approved: bool,
    /// Whether that person replied "always".
    pub always: bool,
    pub(super) consultation: Option<&'a Consultation>,
    pub(super) message: &'a MessageId,
    pub(super) tool: &'a dyn Tool,
    pub(super) context: MiddlewareContext<'a>,
    pub(super) middleware: &'a [Arc<dyn Middleware>],
    pub(super) watcher: &'a dyn Watcher,
}

impl std::fmt::Debug for NextTool<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NextTool").field("call", &self.call).finish_non_exhaustive()
    }
}

impl NextTool<'_> {
    /// The kind of work that the tool does.
    pub fn kind(&self) -> ToolKind {
        self.tool.kind()
    }

    /// A name that no other call of the thread has. It is safe as the name of a file.
    pub fn unique_name(&self) -> &str {
        self.message.as_str()
    }

    /// Makes the call.
    pub async fn call(mut self) -> ToolOutput {
        if let Some((middleware, rest)) = self.middleware.split_first() {
            self.middleware = rest;
            return middleware.wrap_tool_call(self.context, self).await;
        }
        let (watcher, id): (&dyn Watcher, &CallId) = (self.watcher, &self.call.id);
        let progress = |text: &str| watcher.update(ThreadUpdate::Progress(id, text));
        let (thread, states) = (self.context.thread, self.context.states);
        let context = ToolContext {
            thread,
            call: id,
            message: self.message,
            states,
            consultation: self.consultation,
            progress: &progress,
            watcher,
            middleware: self.context,
        };
        let limit = self.tool.timeout();
        let called = tokio::time::timeout(limit, self.tool.call(self.arguments.clone(), context)).await;
        called.unwrap_or_else(|_| {
            ToolAnswer::error(format!("Error: the tool took longer than {} seconds.", limit.as_secs())).into()
        })
    }
}
