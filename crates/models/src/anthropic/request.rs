//! Writes a request in the Messages format.

use std::collections::BTreeSet;
use std::sync::Arc;

use prowess_agent::ModelRequest;
use prowess_agent::message::Reasoning;
use prowess_agent::model::{ModelLimits, ToolChoice, ToolDefinition};
use serde_json::{Value, json};

use super::{DEFAULT_MAX_OUTPUT, PromptCache, Settings};
use crate::conversation::{
    AssistantBlock, ProviderRules, RoleMessage, UserBlock, arguments, decimal, max_output, role_messages,
};
use crate::http::Failure;

/// Reasoning goes back if the provider signed or encrypted it.
const RULES: ProviderRules = ProviderRules {
    accepts_reasoning: |thought| thought.redacted.is_some() || thought.signature.is_some(),
    call_id: |id| {
        id.chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
            .collect()
    },
    longest_call_id: usize::MAX,
    accepts_documents: true,
};

/// The body of a request.
pub(super) fn body(
    request: &ModelRequest,
    settings: &Settings,
    limits: ModelLimits,
) -> Result<Value, Failure> {
    let conversation = role_messages(request, RULES)?;
    let max_output = max_output(request, limits).unwrap_or(DEFAULT_MAX_OUTPUT);
    let mut body = json!({"model": settings.model, "max_tokens": max_output, "stream": true});
    let thinks = request
        .effort
        .is_some_and(|effort| settings.thinking.apply(effort, request, &conversation, &mut body));
    // A model that reasons accepts no temperature.
    if let Some(temperature) = request.temperature.and_then(decimal).filter(|_| !thinks) {
        body["temperature"] = temperature.into();
    }
    let mut messages: Vec<Value> = conversation.iter().map(message).collect();
    let mut system = system(request);
    let mut tools = tools(request);
    let mut choice = choice(&request.tool_choice);
    if tools.is_empty() {
        // Calls in the conversation need their tools, even if no tool may be called any more.
        (tools, choice) = (former_tools(&conversation), Some(json!({"type": "none"})));
    }
    if let Some(mark) = mark(settings.cache) {
        mark_stable(request, &mut tools, &mut system, &mark);
        mark_messages(&mut messages, &mark);
    }
    body["messages"] = messages.into();
    if !system.is_empty() {
        body["system"] = system.into();
    }
    if !tools.is_empty() {
        body["tools"] = tools.into();
        if let Some(choice) = choice {
            body["tool_choice"] = choice;
        }
    }
    Ok(body)
}

/// The same request for the endpoint that counts tokens. It accepts only fields that change the number of tokens.
pub(super) fn counted(mut body: Value) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|name, _| COUNTED.contains(&name.as_str()));
    }
    body
}

/// The fields of a request that the endpoint for counting accepts.
const COUNTED: [&str; 6] = ["model", "messages", "system", "tools", "tool_choice", "thinking"];

/// The system prompt: a block for each section that is not blank.
fn system(request: &ModelRequest) -> Vec<Value> {
    let sections = request.system.iter().filter(|section| !section.text.trim().is_empty());
    sections.map(|section| text(&section.text)).collect()
}

fn tools(request: &ModelRequest) -> Vec<Value> {
    let tool = |tool: &Arc<ToolDefinition>| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters});
    request.tools.iter().map(tool).collect()
}

/// The tools that were called in the conversation, with only their names.
fn former_tools(messages: &[RoleMessage<'_>]) -> Vec<Value> {
    let blocks = messages.iter().flat_map(|message| match message {
        RoleMessage::Assistant(blocks) => blocks.as_slice(),
        RoleMessage::User(_) => &[],
    });
    let names: BTreeSet<&str> = blocks
        .filter_map(|block| match block {
            AssistantBlock::Call { name, .. } => Some(name.as_str()),
            AssistantBlock::Text(_) | AssistantBlock::Reasoning(_) => None,
        })
        .collect();
    let tool = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    names.into_iter().map(tool).collect()
}

/// Which tool the model must call. `None` if it decides itself.
fn choice(choice: &ToolChoice) -> Option<Value> {
    Some(match choice {
        ToolChoice::Any => json!({"type": "any"}),
        ToolChoice::Named(name) => json!({"type": "tool", "name": name}),
        ToolChoice::None => json!({"type": "none"}),
        _ => return None,
    })
}

fn message(message: &RoleMessage<'_>) -> Value {
    match message {
        RoleMessage::User(blocks) => {
            json!({"role": "user", "content": blocks.iter().map(user_block).collect::<Vec<_>>()})
        }
        RoleMessage::Assistant(blocks) => {
            json!({"role": "assistant", "content": blocks.iter().map(assistant_block).collect::<Vec<_>>()})
        }
    }
}

fn user_block(block: &UserBlock<'_>) -> Value {
    match block {
        UserBlock::Result { id, text, is_error } => tool_result(id, text, *is_error),
        UserBlock::Text(said) => text(said),
        UserBlock::Image { url } => json!({"type": "image", "source": {"type": "url", "url": url}}),
        UserBlock::Document { url } => json!({"type": "document", "source": {"type": "url", "url": url}}),
    }
}

fn tool_result(id: &str, text: &str, is_error: bool) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": id});
    // The provider rejects an empty text, but accepts an answer without content.
    if !text.trim().is_empty() {
        block["content"] = text.into();
    }
    if is_error {
        block["is_error"] = true.into();
    }
    block
}

fn assistant_block(block: &AssistantBlock<'_>) -> Value {
    match block {
        AssistantBlock::Text(said) => text(said),
        AssistantBlock::Reasoning(Reasoning { redacted: Some(data), .. }) => {
            json!({"type": "redacted_thinking", "data": data})
        }
        AssistantBlock::Reasoning(thought) => {
            json!({"type": "thinking", "thinking": thought.text, "signature": thought.signature})
        }
        AssistantBlock::Call { id, name, call } => {
            json!({"type": "tool_use", "id": id, "name": name, "input": arguments(call)})
        }
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The mark at the end of a prefix that the provider should cache.
fn mark(cache: PromptCache) -> Option<Value> {
    match cache {
        PromptCache::Off => None,
        PromptCache::FiveMinutes => Some(json!({"type": "ephemeral"})),
        PromptCache::OneHour => Some(json!({"type": "ephemeral", "ttl": "1h"})),
    }
}

/// Marks the last tool and the last stable section. Four marks are allowed, and these are two.
fn mark_stable(request: &ModelRequest, tools: &mut [Value], system: &mut [Value], mark: &Value) {
    if let Some(tool) = tools.last_mut() {
        tool["cache_control"] = mark.clone();
    }
    let sections = request.system.iter().filter(|section| !section.text.trim().is_empty());
    let stable = sections.take_while(|section| section.is_stable).count();
    if let Some(section) = stable.checked_sub(1).and_then(|last| system.get_mut(last)) {
        section["cache_control"] = mark.clone();
    }
}

/// Marks the last two messages of the user: the end of this request, and the end of the one before it.
///
/// The provider looks back only about twenty blocks from a mark, and one message may have more.
fn mark_messages(messages: &mut [Value], mark: &Value) {
    let of_user = messages.iter_mut().rev().filter(|message| message["role"] == "user");
    for message in of_user.take(2) {
        if let Some(block) = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
            block["cache_control"] = mark.clone();
        }
    }
}
