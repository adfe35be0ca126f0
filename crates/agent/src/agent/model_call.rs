//! Model calls: the request, the call and its response.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tracing::Instrument as _;

use super::actions::{Moved, Point};
use super::next::NextModel;
use super::next_request::{self, NextRequest};
use super::unfinished_call::UnfinishedCall;
use super::watcher::{ThreadUpdate, Watcher};
use super::{AgentError, Thread};
use crate::id::ThreadId;
use crate::message::Content;
use crate::model::{
    Model, ModelDelta, ModelError, ModelErrorKind, ModelRequest, ModelResponse, ResponseAssembly, name_calls,
};
use crate::telemetry;
use crate::thread_state::{Event, NextStep};

/// The longest response, in bytes.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// The most tool calls in one response.
const MAX_CALLS: usize = 128;

impl Thread {
    /// Calls the model, and stores its response.
    pub(super) async fn make_model_call(&mut self, watcher: &dyn Watcher) -> Result<(), AgentError> {
        match self.call_middleware(Point::BeforeModel, watcher).await? {
            Moved::No | Moved::Again | Moved::ToModel => {}
            Moved::Settled | Moved::Away => return Ok(()),
        }
        if self.state.next() != NextStep::CallModel {
            return Ok(());
        }
        let made = next_request::make(self.context());
        let NextRequest { request, tools, changes, added } =
            self.held.keep_during(&*self.agent.store, made).await??;
        self.tools = Some(tools);
        let model = Arc::clone(&self.agent.model);
        let changed = (!changes.is_empty()).then_some(Event::StateChanged { changes });
        let added = (!added.is_empty()).then_some(Event::MessagesAdded { messages: added });
        self.note_start(&*model, changed.into_iter().chain(added).collect(), watcher).await?;
        let (context, middleware) = (self.context(), &self.middleware[..]);
        let next = NextModel { request, model, context, middleware, watcher };
        let response = self.held.keep_during(&*self.agent.store, next.call()).await?;
        let event = match response.map(with_unique_call_ids) {
            Ok(response) => Event::ModelResponded {
                model: response.model,
                message: response.message,
                usage: response.usage,
                finish: response.finish,
            },
            Err(error) => Event::ModelFailed { error },
        };
        self.store(vec![event], watcher).await
    }

    /// Notes the start of a model call, and stores the events that belong to it.
    ///
    /// A repeated model call costs tokens and has no other effect, so its start is usually stored with its response.
    /// After a call that was cut off, the start is stored first. So a process that dies in every model call reaches the
    /// limit of model calls.
    async fn note_start(
        &mut self,
        model: &dyn Model,
        mut before: Vec<Event>,
        watcher: &dyn Watcher,
    ) -> Result<(), AgentError> {
        let called = Event::ModelCalled { model: model.name().to_owned() };
        let was_cut_off = self.is_resumed || !self.unstored_start.is_empty();
        if was_cut_off || !before.is_empty() {
            before.push(called);
            self.store(before, watcher).await?;
            self.is_resumed = false;
            return Ok(());
        }
        self.store(Vec::new(), watcher).await?;
        self.apply(&called)?;
        self.unstored_start.push(called);
        Ok(())
    }

    /// The request that the model would get now, before any middleware wraps the call. Nothing is stored.
    ///
    /// # Errors
    ///
    /// A middleware or the store failed.
    pub async fn preview(&mut self) -> Result<ModelRequest, AgentError> {
        self.catch_up_if_ahead().await?;
        let made = next_request::make(self.context());
        Ok(self.held.keep_during(&*self.agent.store, made).await??.request)
    }
}

/// A response in which each tool call has its own id. A middleware may have built the response.
fn with_unique_call_ids(mut response: ModelResponse) -> ModelResponse {
    if let Content::Assistant { parts } = &mut response.message.content {
        name_calls(parts);
    }
    response
}

/// Calls a model for a thread, and waits for its whole response.
pub(crate) async fn call_model(
    model: &dyn Model,
    request: ModelRequest,
    thread: &ThreadId,
    watcher: &dyn Watcher,
) -> Result<ModelResponse, ModelError> {
    let span = telemetry::model_call(thread, model.name());
    let response = receive(model, request, watcher).instrument(span.clone()).await;
    telemetry::record_response(&span, &response);
    response
}

async fn receive(
    model: &dyn Model,
    request: ModelRequest,
    watcher: &dyn Watcher,
) -> Result<ModelResponse, ModelError> {
    let mut unfinished = UnfinishedCall::new(model, request.clone(), watcher);
    let mut stream = match model.call(request).await {
        Ok(stream) => stream,
        // The provider refused it.
        Err(error) => {
            unfinished.finish();
            return Err(error);
        }
    };
    let mut assembly = ResponseAssembly::new(model.name());
    let mut bytes = 0_usize;
    while let Some(delta) = stream.next().await {
        let delta = delta?;
        unfinished.note(&delta);
        bytes = bytes.saturating_add(delta.weight());
        if bytes > MAX_RESPONSE_BYTES {
            let message = format!("the response has more than {MAX_RESPONSE_BYTES} bytes");
            return Err(ModelError::new(model.name(), ModelErrorKind::Malformed, message));
        }
        match &delta {
            ModelDelta::Text(text) => watcher.update(ThreadUpdate::Text(text)),
            ModelDelta::Reasoning(text) => watcher.update(ThreadUpdate::Reasoning(text)),
            _ => {}
        }
        assembly.push(delta);
    }
    let response = assembly.finish();
    if response.message.tool_calls().nth(MAX_CALLS).is_some() {
        let message = format!("the response has more than {MAX_CALLS} tool calls");
        return Err(ModelError::new(model.name(), ModelErrorKind::Malformed, message));
    }
    unfinished.finish();
    Ok(response)
}
