//! How many tokens requests, tools and messages have, as a model counts text.

use super::{Model, ModelRequest, ToolDefinition};
use crate::message::{AssistantPart, Content, Message, UserPart};

/// The tokens of a message or tool call besides its text.
const OVERHEAD: u64 = 4;
/// The tokens that an image or a file counts for.
const MEDIA: u64 = 1500;

/// Counts the tokens of a request.
pub(crate) fn request_tokens(model: &dyn Model, request: &ModelRequest) -> u64 {
    let system: u64 = request.system.iter().map(|section| model.count_tokens(&section.text)).sum();
    let tools: u64 = request.tools.iter().map(|tool| tool_tokens(model, tool)).sum();
    let messages: u64 = request.messages.iter().map(|message| message_tokens(model, message)).sum();
    system + tools + messages
}

/// Counts the tokens of a tool's definition.
pub(crate) fn tool_tokens(model: &dyn Model, tool: &ToolDefinition) -> u64 {
    let count = |text: &str| model.count_tokens(text);
    count(&tool.name) + count(&tool.description) + count(&tool.parameters.to_string()) + OVERHEAD
}

/// Counts the tokens of a message; at least 1.
pub(crate) fn message_tokens(model: &dyn Model, message: &Message) -> u64 {
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
