//! Decodes a response in the Messages format.

use std::collections::{BTreeSet, VecDeque};

use prowess_agent::model::Finish;
use prowess_agent::telemetry::response_model;
use prowess_agent::{ModelDelta, Usage};
use serde_json::Value;

use crate::http::{Decoder, Failure, MAX_CALLS, Progress, ProviderError, SseEvent, parse_event};

/// Decodes one response.
#[derive(Debug, Default)]
pub(crate) struct MessagesDecoder {
    counts: TokenCounts,
    /// The blocks that are calls of our tools. The provider calls its own tools itself.
    calls: BTreeSet<usize>,
    finish: Option<Finish>,
}

/// The tokens as the provider counts them: the input does not include cached tokens.
#[derive(Debug, Default)]
struct TokenCounts {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_written: u64,
}

impl Decoder for MessagesDecoder {
    fn read(&mut self, event: &SseEvent, deltas: &mut VecDeque<ModelDelta>) -> Result<Progress, Failure> {
        if event.text().trim().is_empty() {
            return Ok(Progress::More);
        }
        let data = match parse_event(event.text()) {
            Ok(data) => data,
            // An unknown event need not be JSON.
            Err(_) if !event.event.is_empty() && !is_known(&event.event) => return Ok(Progress::More),
            Err(failure) => return Err(failure),
        };
        match data["type"].as_str().unwrap_or(&event.event) {
            "message_start" => {
                response_model(data["message"]["model"].as_str().unwrap_or_default());
                self.count_tokens(&data["message"]["usage"], deltas);
            }
            "content_block_start" => self.start_block(&data, deltas)?,
            "content_block_delta" => self.continue_block(&data, deltas),
            "message_delta" => {
                self.count_tokens(&data["usage"], deltas);
                if let Some(reason) = data["delta"]["stop_reason"].as_str() {
                    self.finish = Some(finish(reason));
                }
            }
            "message_stop" => {
                self.finish.get_or_insert_default();
                self.end(deltas)?;
                return Ok(Progress::Done);
            }
            "error" => {
                let error = ProviderError::in_json(&data).unwrap_or_default();
                return Err(error.into_failure());
            }
            _ => {}
        }
        Ok(Progress::More)
    }

    fn end(&mut self, deltas: &mut VecDeque<ModelDelta>) -> Result<(), Failure> {
        let finish = self.finish.ok_or_else(Failure::broken_off)?;
        deltas.push_back(ModelDelta::Finish(finish));
        Ok(())
    }
}

impl MessagesDecoder {
    /// Updates the token counts. A count that the event lacks stays.
    fn count_tokens(&mut self, usage: &Value, deltas: &mut VecDeque<ModelDelta>) {
        let counts = &mut self.counts;
        let fields = [
            ("input_tokens", &mut counts.input),
            ("output_tokens", &mut counts.output),
            ("cache_read_input_tokens", &mut counts.cache_read),
            ("cache_creation_input_tokens", &mut counts.cache_written),
        ];
        let mut has_counts = false;
        for (name, count) in fields {
            if let Some(tokens) = usage[name].as_u64() {
                (*count, has_counts) = (tokens, true);
            }
        }
        if has_counts {
            let input = counts.input.saturating_add(counts.cache_read).saturating_add(counts.cache_written);
            let usage = Usage::new(input, counts.output)
                .cache_read(counts.cache_read)
                .cache_written(counts.cache_written);
            deltas.push_back(ModelDelta::Usage(usage));
        }
    }

    /// A block starts. Most are empty at first.
    fn start_block(&mut self, data: &Value, deltas: &mut VecDeque<ModelDelta>) -> Result<(), Failure> {
        let block = &data["content_block"];
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str() {
            Some("text") => say(text("text"), ModelDelta::Text, deltas),
            Some("thinking") => {
                say(text("thinking"), ModelDelta::Reasoning, deltas);
                say(text("signature"), ModelDelta::ReasoningSignature, deltas);
            }
            Some("redacted_thinking") => say(text("data"), ModelDelta::RedactedReasoning, deltas),
            Some("tool_use") => {
                let index = index(data);
                self.calls.insert(index);
                if self.calls.len() > MAX_CALLS {
                    return Err(Failure::too_many_calls());
                }
                deltas.push_back(ModelDelta::ToolCall { index, id: text("id"), name: text("name") });
                // Gateways may send all arguments at once.
                if block["input"].as_object().is_some_and(|input| !input.is_empty()) {
                    deltas.push_back(ModelDelta::Arguments { index, piece: block["input"].to_string() });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A block continues.
    fn continue_block(&self, data: &Value, deltas: &mut VecDeque<ModelDelta>) {
        let delta = &data["delta"];
        let text = |key: &str| delta[key].as_str().unwrap_or_default().to_owned();
        match delta["type"].as_str() {
            Some("text_delta") => say(text("text"), ModelDelta::Text, deltas),
            Some("thinking_delta") => say(text("thinking"), ModelDelta::Reasoning, deltas),
            Some("signature_delta") => say(text("signature"), ModelDelta::ReasoningSignature, deltas),
            Some("input_json_delta") => {
                let (index, piece) = (index(data), text("partial_json"));
                if self.calls.contains(&index) && !piece.is_empty() {
                    deltas.push_back(ModelDelta::Arguments { index, piece });
                }
            }
            _ => {}
        }
    }
}

fn is_known(event: &str) -> bool {
    event.starts_with("message_") || event.starts_with("content_block_") || event == "error"
}

fn finish(reason: &str) -> Finish {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "refusal" => Finish::Refused,
        _ => Finish::Stop,
    }
}

/// The number of a block. It also identifies a tool call, because each is a block.
fn index(data: &Value) -> usize {
    data["index"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(0)
}

fn say(text: String, say: fn(String) -> ModelDelta, deltas: &mut VecDeque<ModelDelta>) {
    if !text.is_empty() {
        deltas.push_back(say(text));
    }
}
