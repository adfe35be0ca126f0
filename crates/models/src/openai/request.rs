//! A request in the words of chat completions.

use prowess_agent::ModelRequest;
use prowess_agent::model::{Effort, ModelLimits, ToolChoice};
use serde_json::{Value, json};

use super::{EffortField, OutputLimitName, Settings};
use crate::conversation::{
    AssistantBlock, Rules, Turn, UserBlock, arguments_text, decimal, max_output, turns,
};
use crate::http::Failure;

/// Thoughts stay here: the wire format has no place for them, nor for documents at an address. Names of calls go back
/// as they came, as long as OpenAI takes them.
const RULES: Rules =
    Rules { takes_back: |_| false, call_id: str::to_owned, longest_call_id: 40, takes_documents: false };

/// The body of a request.
pub(super) fn body(
    request: &ModelRequest,
    settings: &Settings,
    limits: ModelLimits,
) -> Result<Value, Failure> {
    let mut messages = Vec::new();
    let system = request.system_text();
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system}));
    }
    for turn in turns(request, RULES)? {
        match turn {
            Turn::User(blocks) => user(blocks, &mut messages),
            Turn::Assistant(blocks) => messages.push(assistant(blocks)),
        }
    }
    let mut body = json!({
        "model": settings.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if let Some(most) = max_output(request, limits) {
        let name = match settings.output_limit {
            OutputLimitName::MaxCompletionTokens => "max_completion_tokens",
            OutputLimitName::MaxTokens => "max_tokens",
        };
        body[name] = most.into();
    }
    if let (Some(effort), EffortField::ReasoningEffort) = (request.effort, settings.effort) {
        body["reasoning_effort"] = effort_name(effort).into();
    }
    if let Some(temperature) = request.temperature.and_then(decimal) {
        body["temperature"] = temperature.into();
    }
    if !request.tools.is_empty() {
        body["tools"] = tools(request);
        if let Some(choice) = choice(&request.tool_choice) {
            body["tool_choice"] = choice;
        }
    }
    Ok(body)
}

fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        _ => "high",
    }
}

fn tools(request: &ModelRequest) -> Value {
    let tools = request.tools.iter().map(|tool| {
        json!({
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        })
    });
    tools.collect()
}

/// What a model has to call; nothing is said when it may do as it likes.
fn choice(choice: &ToolChoice) -> Option<Value> {
    Some(match choice {
        ToolChoice::Any => json!("required"),
        ToolChoice::Named(name) => json!({"type": "function", "function": {"name": name}}),
        ToolChoice::None => json!("none"),
        _ => return None,
    })
}

fn user(blocks: Vec<UserBlock<'_>>, messages: &mut Vec<Value>) {
    let mut parts = Vec::new();
    for block in blocks {
        parts.push(match block {
            UserBlock::Result { id, text, .. } => {
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
                continue;
            }
            UserBlock::Text(text) => json!({"type": "text", "text": text}),
            UserBlock::Image { url } => json!({"type": "image_url", "image_url": {"url": url}}),
            // None comes: the rules say so.
            UserBlock::Document { url } => json!({"type": "text", "text": url}),
        });
    }
    // Many servers know no parts but those of pictures.
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
    match texts {
        Some(texts) if texts.is_empty() => {}
        Some(texts) => messages.push(json!({"role": "user", "content": texts.join("\n\n")})),
        None => messages.push(json!({"role": "user", "content": parts})),
    }
}

fn assistant(blocks: Vec<AssistantBlock<'_>>) -> Value {
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    for block in blocks {
        match block {
            AssistantBlock::Text(text) => texts.push(text),
            AssistantBlock::Reasoning(_) => {}
            AssistantBlock::Call { id, name, call } => calls.push(json!({
                "id": id,
                "type": "function",
                // Servers that put calls into a template read the arguments, and fail on what is no JSON.
                "function": {"name": name, "arguments": arguments_text(call)},
            })),
        }
    }
    let content = if texts.is_empty() { Value::Null } else { texts.join("\n").into() };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}
