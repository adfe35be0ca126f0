//! Responses: each one is a turn of a thread, which later ones can continue.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::HeaderMap;
use prowess_agent::ThreadId;
use prowess_store::serve::OwnedThread;
use serde_json::{Value, json};

use super::input::ResponseRequest;
use super::turn::{Said, Turn};
use super::{checked_agent, events, seconds};
use crate::api::{ApiError, ApiJson, StreamPlace, check_allowance, create, fork, owned};
use crate::app::App;
use crate::auth::{Caller, Reader, Writer};
use crate::view::UsageView;

/// Asks the agent in a new thread, or in that of an earlier response. A question ends the response with a link to it.
#[utoipa::path(post, path = "/v1/responses", tag = "openai", request_body = ResponseRequest, responses((status = 200, description = "A response, or a stream of its events", content((Object = "application/json"), (String = "text/event-stream"))), (status = 404, description = "There is no such response or agent", body = super::error::OpenAiErrorBody), (status = 409, description = "A turn is in progress, or a question waits", body = super::error::OpenAiErrorBody)))]
pub(super) async fn respond(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    _: Reader,
    headers: HeaderMap,
    ApiJson(request): ApiJson<ResponseRequest>,
) -> Result<Response, ApiError> {
    request.other.check()?;
    let model = checked_agent(&app, &request.model)?;
    let text = request.input.said(request.instructions.as_deref())?;
    check_allowance(&app, &caller).await?;
    // Nothing happens for a client that cannot see it.
    let place = StreamPlace::take(&app, &caller)?;
    let previous = request.previous_response_id;
    let thread = match &previous {
        Some(id) => thread_of(&app, &caller, id).await?,
        None => create(&app, &caller, &ThreadId::new(), "").await?,
    };
    let (mut turn, message) = Turn::begin(&app, &caller, place, &thread, text, &headers).await?;
    let response = Responding {
        id: format!("resp_{}_{message}", thread.id),
        item: format!("msg_{message}"),
        created: seconds(),
        model,
        instructions: request.instructions,
        previous,
        metadata: request.metadata.filter(Value::is_object).unwrap_or_else(|| json!({})),
        text: String::new(),
    };
    if request.stream == Some(true) {
        return Ok(stream_of(response, turn));
    }
    let mut response = response;
    while let Some(said) = turn.next().await {
        match said {
            Said::Piece(piece) => response.text.push_str(&piece),
            Said::End => break,
            Said::Failed { message, .. } => return Err(ApiError::failed(message)),
        }
    }
    Ok(Json(response.whole("completed", Some(&turn.usage), &Value::Null)).into_response())
}

/// The thread that continues a response: its own, or a copy if the thread has gone on since.
async fn thread_of(app: &Arc<App>, caller: &Caller, id: &str) -> Result<OwnedThread, ApiError> {
    let missing =
        || ApiError::not_found(format_args!("response `{}`", prowess_base::text::escaped_start(id)));
    let (thread, message) =
        id.strip_prefix("resp_").and_then(|id| id.rsplit_once('_')).ok_or_else(missing)?;
    let thread = owned(app, caller, thread).await.map_err(|_| missing())?;
    let turn = app.look_at(&thread, |replay| replay.turn_of(message)).await?;
    match turn.ok_or_else(missing)? {
        (Some(ended), true) => fork(app, caller, &thread, ended, "").await,
        _ => Ok(thread),
    }
}

/// A response in progress.
struct Responding {
    id: String,
    /// The id of its message.
    item: String,
    created: u64,
    model: String,
    instructions: Option<String>,
    previous: Option<String>,
    metadata: Value,
    text: String,
}

impl Responding {
    fn part(&self) -> Value {
        json!({"type": "output_text", "text": self.text, "annotations": [], "logprobs": []})
    }

    fn message(&self, status: &str) -> Value {
        let content = if status == "completed" { vec![self.part()] } else { Vec::new() };
        json!({"id": self.item, "type": "message", "status": status, "role": "assistant", "content": content})
    }

    fn whole(&self, status: &str, usage: Option<&UsageView>, error: &Value) -> Value {
        let output = if status == "completed" { vec![self.message(status)] } else { Vec::new() };
        let usage = usage.map(|usage| {
            let input = usage.input.saturating_add(usage.cached);
            json!({
                "input_tokens": input,
                "input_tokens_details": {"cached_tokens": usage.cached},
                "output_tokens": usage.output,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": input.saturating_add(usage.output),
            })
        });
        json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": false,
            "error": error,
            "incomplete_details": null,
            "instructions": self.instructions,
            "max_output_tokens": null,
            "metadata": self.metadata,
            "model": self.model,
            "output": output,
            "parallel_tool_calls": true,
            "previous_response_id": self.previous,
            "reasoning": {"effort": null, "summary": null},
            "store": true,
            "temperature": null,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
            "truncation": "disabled",
            "usage": usage,
        })
    }
}

struct Streaming {
    response: Responding,
    turn: Turn,
    number: u64,
    out: VecDeque<SseEvent>,
}

impl Streaming {
    fn push(&mut self, name: &str, mut event: Value) {
        event["type"] = name.into();
        event["sequence_number"] = self.number.into();
        self.number += 1;
        self.out.push_back(SseEvent::default().event(name).data(event.to_string()));
    }

    fn push_in_message(&mut self, name: &str, mut event: Value) {
        event["item_id"] = self.response.item.as_str().into();
        (event["output_index"], event["content_index"]) = (0.into(), 0.into());
        self.push(name, event);
    }

    fn begin(&mut self) {
        let begun = self.response.whole("in_progress", None, &Value::Null);
        self.push("response.created", json!({"response": begun}));
        self.push("response.in_progress", json!({"response": begun}));
        let item = self.response.message("in_progress");
        self.push("response.output_item.added", json!({"output_index": 0, "item": item}));
        let part = self.response.part();
        self.push_in_message("response.content_part.added", json!({"part": part}));
    }

    fn take(&mut self, said: Said) {
        match said {
            Said::Piece(piece) => {
                self.push_in_message("response.output_text.delta", json!({"delta": piece, "logprobs": []}));
                self.response.text.push_str(&piece);
            }
            Said::End => {
                let text = json!({"text": self.response.text, "logprobs": []});
                self.push_in_message("response.output_text.done", text);
                let part = self.response.part();
                self.push_in_message("response.content_part.done", json!({"part": part}));
                let item = self.response.message("completed");
                self.push("response.output_item.done", json!({"output_index": 0, "item": item}));
                let whole = self.response.whole("completed", Some(&self.turn.usage), &Value::Null);
                self.push("response.completed", json!({"response": whole}));
            }
            Said::Failed { message, .. } => {
                let error = json!({"code": "server_error", "message": message});
                let whole = self.response.whole("failed", Some(&self.turn.usage), &error);
                self.push("response.failed", json!({"response": whole}));
            }
        }
    }
}

fn stream_of(response: Responding, turn: Turn) -> Response {
    let mut streaming = Streaming { response, turn, number: 0, out: VecDeque::new() };
    streaming.begin();
    events(stream::unfold(streaming, |mut streaming| async move {
        loop {
            if let Some(event) = streaming.out.pop_front() {
                return Some((Ok::<_, Infallible>(event), streaming));
            }
            let said = streaming.turn.next().await?;
            streaming.take(said);
        }
    }))
}
