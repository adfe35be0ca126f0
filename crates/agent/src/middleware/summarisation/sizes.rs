//! How many tokens messages and requests have. Each message is counted once.

use std::ops::RangeFrom;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::message::{AssistantPart, Content, Message, UserPart};
use crate::middleware::MiddlewareContext;
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
    /// The tokens of the system prompt and the tools in the last counted request.
    prompt_and_tools: AtomicU64,
    /// The tokens of each tool in that request.
    tools: Mutex<Vec<(Arc<ToolDefinition>, u64)>>,
}

impl MessageSizes {
    /// Estimates the tokens of the next request: what the model counted last and the messages since, or else our own count.
    pub(super) fn request(&self, context: MiddlewareContext<'_>) -> u64 {
        let state = context.thread_state;
        match state.counted() {
            Some((tokens, messages)) => tokens + self.total(context, messages..),
            None => {
                let summary = state.summary().map_or(0, |message| tokens(&**context.model, message));
                self.prompt_and_tools.load(Ordering::Relaxed) + summary + self.total(context, state.cut()..)
            }
        }
    }

    /// Counts the system prompt and the tools of a request, unless the model counts itself.
    pub(super) fn note(&self, context: MiddlewareContext<'_>, request: &ModelRequest) {
        if context.thread_state.counted().is_some() {
            return;
        }
        let count = |text: &str| context.model.count_tokens(text);
        let system = request.system.iter().map(|section| count(&section.text));
        let of_tool = |tool: &ToolDefinition| {
            count(&tool.name) + count(&tool.description) + count(&tool.parameters.to_string()) + OVERHEAD
        };
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = |(index, tool): (usize, &Arc<ToolDefinition>)| match known.get(index) {
            Some((same, tokens)) if Arc::ptr_eq(same, tool) => (Arc::clone(tool), *tokens),
            _ => (Arc::clone(tool), of_tool(tool)),
        };
        *known = request.tools.iter().enumerate().map(counted).collect();
        let tools = known.iter().map(|(_, tokens)| *tokens);
        self.prompt_and_tools.store(system.chain(tools).sum(), Ordering::Relaxed);
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

    fn total(&self, context: MiddlewareContext<'_>, from: RangeFrom<usize>) -> u64 {
        self.counted(context, |size| (from.start..context.thread_state.messages().len()).map(size).sum())
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
                sizes[index] = tokens(&**context.model, &messages[index]);
            }
            sizes[index]
        })
    }
}

/// Estimates the tokens of a message; at least 1.
fn tokens(model: &dyn Model, message: &Message) -> u64 {
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
