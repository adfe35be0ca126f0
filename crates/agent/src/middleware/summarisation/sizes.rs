//! How many tokens messages and requests have. Each message is counted once.

use std::sync::{Arc, Mutex, PoisonError};

use crate::agent::next_request;
use crate::message::{AssistantPart, Content, Message, UserPart};
use crate::middleware::{MiddlewareContext, MiddlewareError};
use crate::model::{Model, ModelRequest, ToolDefinition};

/// The tokens of a message or tool call besides its text.
const OVERHEAD: u64 = 4;
/// The tokens that an image or a file counts for.
const MEDIA: u64 = 1500;

/// The tokens of the messages of one thread.
#[derive(Debug, Default)]
pub(super) struct MessageSizes {
    /// By the index of the message; 0 if it was not counted yet.
    messages: Mutex<Vec<u64>>,
    /// The tokens of each tool in the last counted request.
    tools: Mutex<Vec<(Arc<ToolDefinition>, u64)>>,
    /// The tokens of the prompt and the tools in the last call of this process. In another process they may differ.
    last_prompt: Mutex<Option<u64>>,
}

impl MessageSizes {
    /// Estimates the tokens of the next request: what the model counted last and what was added since, or else our own
    /// count.
    pub(super) async fn request(&self, context: MiddlewareContext<'_>) -> Result<u64, MiddlewareError> {
        let Some(counted) = self.by_model(context) else { return self.estimate(context).await };
        let last = *self.last_prompt.lock().unwrap_or_else(PoisonError::into_inner);
        match last {
            // A skill that was loaded since may have its text in the prompt.
            Some(last) => Ok((counted + self.next_prompt(context).await?).saturating_sub(last)),
            None => Ok(self.estimate(context).await?.max(counted)),
        }
    }

    /// What the model counted last, and the messages since.
    pub(super) fn by_model(&self, context: MiddlewareContext<'_>) -> Option<u64> {
        let (tokens, messages) = context.thread_state.counted()?;
        Some(tokens + self.total(context, messages..context.thread_state.messages().len()))
    }

    /// Our own count of the next request, with the prompt and the tools that it would have now.
    pub(super) async fn estimate(&self, context: MiddlewareContext<'_>) -> Result<u64, MiddlewareError> {
        let summary =
            context.thread_state.summary().map_or(0, |message| of_message(&**context.model, message));
        let messages = self.total(context, context.thread_state.seen());
        Ok(self.next_prompt(context).await? + summary + messages)
    }

    /// Notes the prompt and the tools of a model call.
    pub(super) fn note_call(&self, context: MiddlewareContext<'_>, request: &ModelRequest) {
        let tokens = self.prompt_and_tools(&**context.model, request);
        *self.last_prompt.lock().unwrap_or_else(PoisonError::into_inner) = Some(tokens);
    }

    /// The tokens of the prompt and the tools that the next request would have.
    async fn next_prompt(&self, context: MiddlewareContext<'_>) -> Result<u64, MiddlewareError> {
        let made = next_request::make(context).await;
        let made = made.map_err(|error| MiddlewareError::new("count the next request", error))?;
        Ok(self.prompt_and_tools(&**context.model, &made.request))
    }

    fn prompt_and_tools(&self, model: &dyn Model, request: &ModelRequest) -> u64 {
        let system = request.system.iter().map(|section| model.count_tokens(&section.text));
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = |(index, tool): (usize, &Arc<ToolDefinition>)| match known.get(index) {
            Some((same, tokens)) if Arc::ptr_eq(same, tool) => (Arc::clone(tool), *tokens),
            _ => (Arc::clone(tool), of_tool(model, tool)),
        };
        *known = request.tools.iter().enumerate().map(counted).collect();
        let tools = known.iter().map(|(_, tokens)| *tokens);
        system.chain(tools).sum()
    }

    /// How many of the last messages that the model sees have at most `most` tokens together.
    pub(super) fn fitting(&self, context: MiddlewareContext<'_>, most: u64) -> usize {
        let mut total = 0;
        let seen = (context.thread_state.cut()..context.thread_state.messages().len()).rev();
        self.counted(context, |size| {
            seen.take_while(|index| {
                total += size(*index);
                total <= most
            })
            .count()
        })
    }

    fn total(&self, context: MiddlewareContext<'_>, messages: impl Iterator<Item = usize>) -> u64 {
        self.counted(context, |size| messages.map(size).sum())
    }

    fn counted<T>(
        &self,
        context: MiddlewareContext<'_>,
        work: impl FnOnce(&mut dyn FnMut(usize) -> u64) -> T,
    ) -> T {
        let messages = context.thread_state.messages();
        let mut sizes = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.resize(messages.len(), 0);
        work(&mut |index| {
            if sizes[index] == 0 {
                sizes[index] = of_message(&**context.model, &messages[index]);
            }
            sizes[index]
        })
    }
}

/// Estimates the tokens of a tool's definition.
pub(super) fn of_tool(model: &dyn Model, tool: &ToolDefinition) -> u64 {
    let count = |text: &str| model.count_tokens(text);
    count(&tool.name) + count(&tool.description) + count(&tool.parameters.to_string()) + OVERHEAD
}

/// Estimates the tokens of a message; at least 1.
pub(super) fn of_message(model: &dyn Model, message: &Message) -> u64 {
    let count = |text: &str| model.count_tokens(text);
    let parts: u64 = match &message.content {
        Content::User { parts } => parts
            .iter()
            .map(|part| match part {
                UserPart::Text { text } => count(text),
                UserPart::Image(_) | UserPart::File(_) => MEDIA,
            })
            .sum(),
        Content::Assistant { parts } => parts
            .iter()
            .map(|part| match part {
                AssistantPart::Text { text } => count(text),
                AssistantPart::Reasoning(thought) => count(&thought.text),
                AssistantPart::ToolCall(call) => count(&call.name) + count(&call.arguments) + OVERHEAD,
            })
            .sum(),
        Content::Tool(result) => count(&result.text),
    };
    parts + OVERHEAD
}
