//! A request in the words of Messages.

use std::collections::BTreeSet;
use std::sync::Arc;

use prowess_agent::ModelRequest;
use prowess_agent::message::Reasoning;
use prowess_agent::model::{ModelLimits, ToolChoice, ToolDefinition};
use serde_json::{Value, json};

use super::{DEFAULT_MAX_OUTPUT, PromptCache, Settings};
use crate::conversation::{AssistantBlock, Rules, Turn, UserBlock, arguments, decimal, max_output, turns};
use crate::http::Failure;

/// Thoughts go back when the provider can prove them its own.
const RULES: Rules = Rules {
    takes_back: |thought| thought.redacted.is_some() || thought.signature.is_some(),
    call_id: |id| {
        id.chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
            .collect()
    },
    longest_call_id: usize::MAX,
    takes_documents: true,
};

/// The body of a request.
pub(super) fn body(
    request: &ModelRequest,
    settings: &Settings,
    limits: ModelLimits,
) -> Result<Value, Failure> {
    let turns = turns(request, RULES)?;
    let max_output = max_output(request, limits).unwrap_or(DEFAULT_MAX_OUTPUT);
    let mut body = json!({"model": settings.model, "max_tokens": max_output, "stream": true});
    let thinks =
        request.effort.is_some_and(|effort| settings.thinking.put(effort, request, &turns, &mut body));
    // A model that thinks takes no temperature.
    if let Some(temperature) = request.temperature.and_then(decimal).filter(|_| !thinks) {
        body["temperature"] = temperature.into();
    }
    let mut messages: Vec<Value> = turns.iter().map(message).collect();
    let mut system = system(request);
    let mut tools = tools(request);
    let mut choice = choice(&request.tool_choice);
    if tools.is_empty() {
        // Calls in the conversation need their tools, also where none may be called any more.
        (tools, choice) = (former_tools(&turns), Some(json!({"type": "none"})));
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

/// The system prompt, a block for each section that says something.
fn system(request: &ModelRequest) -> Vec<Value> {
    let sections = request.system.iter().filter(|section| !section.text.trim().is_empty());
    sections.map(|section| text(&section.text)).collect()
}

fn tools(request: &ModelRequest) -> Vec<Value> {
    let tool = |tool: &Arc<ToolDefinition>| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters});
    request.tools.iter().map(tool).collect()
}

/// The tools that were called in a conversation, by their names alone.
fn former_tools(turns: &[Turn<'_>]) -> Vec<Value> {
    let blocks = turns.iter().flat_map(|turn| match turn {
        Turn::Assistant(blocks) => blocks.as_slice(),
        Turn::User(_) => &[],
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

/// What a model has to call; nothing is said when it may do as it likes.
fn choice(choice: &ToolChoice) -> Option<Value> {
    Some(match choice {
        ToolChoice::Any => json!({"type": "any"}),
        ToolChoice::Named(name) => json!({"type": "tool", "name": name}),
        ToolChoice::None => json!({"type": "none"}),
        _ => return None,
    })
}

fn message(turn: &Turn<'_>) -> Value {
    match turn {
        Turn::User(blocks) => {
            json!({"role": "user", "content": blocks.iter().map(user_block).collect::<Vec<_>>()})
        }
        Turn::Assistant(blocks) => {
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
    // Empty text is refused; no content is not.
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

/// The mark on what ends a prefix that the provider is to keep.
fn mark(cache: PromptCache) -> Option<Value> {
    match cache {
        PromptCache::Off => None,
        PromptCache::FiveMinutes => Some(json!({"type": "ephemeral"})),
        PromptCache::OneHour => Some(json!({"type": "ephemeral", "ttl": "1h"})),
    }
}

/// Marks the last tool and the last section that stays, two of the four marks that there may be.
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

/// Marks the last two turns of the user: the end of this request, and that of the one before it. The provider looks
/// back only some twenty blocks from a mark, and one turn may have more.
fn mark_messages(messages: &mut [Value], mark: &Value) {
    let of_user = messages.iter_mut().rev().filter(|message| message["role"] == "user");
    for message in of_user.take(2) {
        if let Some(block) = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
            block["cache_control"] = mark.clone();
        }
    }
}
