//! Writes a request in the format of chat completions.

use prowess_agent::ModelRequest;
use prowess_agent::model::{Effort, ModelLimits, ToolChoice};
use serde_json::{Value, json};

use super::{EffortField, OutputLimitName, Settings};
use crate::conversation::{
    AssistantBlock, ProviderRules, RoleMessage, UserBlock, arguments_text, decimal, max_output, role_messages,
};
use crate::http::Failure;

/// The format has no field for reasoning, and none for documents at an address. Ids of calls go back unchanged, if OpenAI
/// accepts their length.
const RULES: ProviderRules = ProviderRules {
    accepts_reasoning: |_| false,
    call_id: str::to_owned,
    longest_call_id: 40,
    accepts_documents: false,
};

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
    for message in role_messages(request, RULES)? {
        match message {
            RoleMessage::User(blocks) => user(blocks, &mut messages),
            RoleMessage::Assistant(blocks) => messages.push(assistant(blocks)),
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

/// Which tool the model must call. `None` if it decides itself.
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
            // The rules above allow none.
            UserBlock::Document { url } => json!({"type": "text", "text": url}),
        });
    }
    // Many servers accept a list of parts only for images.
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
                // Servers that put calls into a template parse the arguments, and fail if they are not JSON.
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
