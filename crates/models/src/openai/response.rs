//! Decodes a response of chat completions.

use std::collections::VecDeque;

use prowess_agent::model::{Finish, ModelErrorKind};
use prowess_agent::telemetry::response_model;
use prowess_agent::{ModelDelta, Usage};
use serde_json::Value;

use super::tool_calls::CallFragments;
use crate::http::{Decoder, Failure, Progress, ProviderError, SseEvent, parse_event};

/// Decodes one response.
#[derive(Debug, Default)]
pub(crate) struct ChatDecoder {
    calls: CallFragments,
    finish: Option<Finish>,
    /// Whether the response contains a refusal, whatever its finish reason is.
    is_refused: bool,
    /// Whether the model's name was recorded.
    is_named: bool,
}

impl Decoder for ChatDecoder {
    fn read(&mut self, event: &SseEvent, deltas: &mut VecDeque<ModelDelta>) -> Result<Progress, Failure> {
        let data = event.text().trim();
        if data.is_empty() {
            return Ok(Progress::More);
        }
        if data == "[DONE]" {
            self.finish.get_or_insert_default();
            self.end(deltas)?;
            return Ok(Progress::Done);
        }
        let chunk = parse_event(data)?;
        if is_error(event, &chunk)
            && let Some(error) = ProviderError::in_json(&chunk)
        {
            return Err(error.into_failure());
        }
        if let Some(model) = chunk["model"].as_str().filter(|_| !self.is_named) {
            self.is_named = true;
            response_model(model);
        }
        if let Some(usage) = usage(&chunk["usage"]) {
            deltas.push_back(ModelDelta::Usage(usage));
        }
        let choices = chunk["choices"].as_array();
        let is_first = |choice: &&Value| choice["index"].as_u64().unwrap_or(0) == 0;
        for choice in choices.into_iter().flatten().filter(is_first) {
            self.choice(choice, deltas)?;
        }
        Ok(Progress::More)
    }

    fn end(&mut self, deltas: &mut VecDeque<ModelDelta>) -> Result<(), Failure> {
        let finish = self.finish.ok_or_else(Failure::broken_off)?;
        deltas.push_back(ModelDelta::Finish(if self.is_refused { Finish::Refused } else { finish }));
        Ok(())
    }
}

impl ChatDecoder {
    fn choice(&mut self, choice: &Value, deltas: &mut VecDeque<ModelDelta>) -> Result<(), Failure> {
        let delta = &choice["delta"];
        let mut say = |text: String, say: fn(String) -> ModelDelta| {
            if !text.is_empty() {
                deltas.push_back(say(text));
            }
        };
        // Two names of the same field. A server that sends both sends the same text twice.
        let reasoning = ["reasoning_content", "reasoning"].iter().map(|key| text(&delta[*key]));
        say(reasoning.into_iter().find(|text| !text.is_empty()).unwrap_or_default(), ModelDelta::Reasoning);
        say(text(&delta["content"]), ModelDelta::Text);
        let refusal = text(&delta["refusal"]);
        self.is_refused |= !refusal.is_empty();
        say(refusal, ModelDelta::Text);
        for fragment in delta["tool_calls"].as_array().into_iter().flatten() {
            self.calls.add(fragment, deltas)?;
        }
        match choice["finish_reason"].as_str() {
            None | Some("") => {}
            Some("length") => self.finish = Some(Finish::Length),
            Some("content_filter") => self.finish = Some(Finish::Refused),
            Some("error") => {
                let message = "the provider failed in the middle of the response";
                return Err(Failure::new(ModelErrorKind::Overloaded, message));
            }
            Some(_) => self.finish = Some(Finish::Stop),
        }
        Ok(())
    }
}

/// Whether an event is an error, in one of the forms that servers use.
fn is_error(event: &SseEvent, chunk: &Value) -> bool {
    let has_error = chunk.get("error").is_some_and(|error| !error.is_null());
    has_error || chunk["object"] == "error" || event.event == "error"
}

/// A text, or the text in a list of parts.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

fn usage(value: &Value) -> Option<Usage> {
    let number = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
    let (input, output) = (number("/prompt_tokens"), number("/completion_tokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    let cached =
        number("/prompt_tokens_details/cached_tokens").or_else(|| number("/prompt_cache_hit_tokens"));
    Some(Usage::new(input.unwrap_or(0), output.unwrap_or(0)).cache_read(cached.unwrap_or(0)))
}
