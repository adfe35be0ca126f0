//! Chat completions: each request is a new thread.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::HeaderMap;
use prowess_agent::ThreadId;
use serde_json::{Value, json};

use super::error::streamed;
use super::input::{ChatRequest, said};
use super::turn::{Said, Turn};
use super::{checked_agent, events, seconds};
use crate::api::{ApiError, ApiJson, StreamPlace, check_allowance, create};
use crate::app::App;
use crate::auth::{Reader, Writer};
use crate::view::UsageView;

/// Asks the agent in a new thread. Its answer is the text of the whole turn. A question ends the answer with a link to it.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "openai", request_body = ChatRequest, responses((status = 200, description = "A chat completion, or a stream of its pieces", content((Object = "application/json"), (String = "text/event-stream"))), (status = 404, description = "There is no such agent", body = super::error::OpenAiErrorBody)))]
pub(super) async fn complete(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    _: Reader,
    headers: HeaderMap,
    ApiJson(request): ApiJson<ChatRequest>,
) -> Result<Response, ApiError> {
    request.other.check()?;
    let model = checked_agent(&app, &request.model)?;
    let text = said(None, &request.messages)?;
    check_allowance(&app, &caller).await?;
    // Nothing happens for a client that cannot see it.
    let place = StreamPlace::take(&app, &caller)?;
    let thread = create(&app, &caller, &ThreadId::new(), "").await?;
    let (mut turn, _) = Turn::begin(&app, &caller, place, &thread, text, &headers).await?;
    let completion = Completion { id: format!("chatcmpl-{}", thread.id), created: seconds(), model };
    if request.stream == Some(true) {
        let with_usage = request.stream_options.and_then(|options| options.include_usage) == Some(true);
        return Ok(stream_of(completion, turn, with_usage));
    }
    let mut text = String::new();
    while let Some(said) = turn.next().await {
        match said {
            Said::Piece(piece) => text.push_str(&piece),
            Said::End => break,
            Said::Failed { message, .. } => return Err(ApiError::failed(message)),
        }
    }
    let message = json!({"role": "assistant", "content": text, "refusal": null});
    let mut whole = completion.with("chat.completion", "message", &message, Some("stop"));
    whole["usage"] = usage(&turn.usage);
    Ok(Json(whole).into_response())
}

struct Completion {
    id: String,
    created: u64,
    model: String,
}

impl Completion {
    fn with(&self, object: &str, field: &str, value: &Value, finish: Option<&str>) -> Value {
        let choice = json!({"index": 0, field: value, "logprobs": null, "finish_reason": finish});
        self.of(object, &[choice])
    }

    fn of(&self, object: &str, choices: &[Value]) -> Value {
        json!({"id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices})
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> SseEvent {
        data(&self.with("chat.completion.chunk", "delta", delta, finish))
    }
}

fn data(value: &Value) -> SseEvent {
    SseEvent::default().data(value.to_string())
}

fn stream_of(completion: Completion, turn: Turn, with_usage: bool) -> Response {
    let first = completion.chunk(&json!({"role": "assistant", "content": ""}), None);
    let state = (completion, turn, vec![first].into_iter());
    events(stream::unfold(state, move |(completion, mut turn, mut out)| async move {
        loop {
            if let Some(event) = out.next() {
                return Some((Ok::<_, Infallible>(event), (completion, turn, out)));
            }
            out = match turn.next().await? {
                Said::Piece(piece) => vec![completion.chunk(&json!({"content": piece}), None)],
                Said::Failed { message, code } => vec![data(&streamed(&message, &code))],
                Said::End => {
                    let mut last = vec![completion.chunk(&json!({}), Some("stop"))];
                    if with_usage {
                        let mut counted = completion.of("chat.completion.chunk", &[]);
                        counted["usage"] = usage(&turn.usage);
                        last.push(data(&counted));
                    }
                    last.push(SseEvent::default().data("[DONE]"));
                    last
                }
            }
            .into_iter();
        }
    }))
}

fn usage(usage: &UsageView) -> Value {
    let input = usage.input.saturating_add(usage.cached);
    json!({
        "prompt_tokens": input,
        "completion_tokens": usage.output,
        "total_tokens": input.saturating_add(usage.output),
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": 0},
    })
}
