//! Turns: say something, or end the turn in progress.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use prowess_agent::Message;
use prowess_agent::id::MessageId;
use prowess_agent::queue::{Post, Posted, QueueState};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;

use super::threads::{owned, replayed};
use super::{ApiError, ApiJson, ApiPath};
use crate::app::App;
use crate::auth::Writer;

/// The longest message, in bytes.
const MAX_TEXT: usize = 256 << 10;
/// The longest id that a client chooses, in bytes.
const MAX_ID: usize = 64;
/// How long a request waits to see whether a worker begins a turn, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// What happens to a message while a turn is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhileWorking {
    /// The request fails.
    #[default]
    Reject,
    /// The message waits until the turn ends.
    Queue,
    /// The turn ends, and the message begins the next one.
    Interrupt,
}

/// A message to the agent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTurn {
    /// The text. `/NAME` starts a skill.
    text: String,
    /// What happens while a turn is in progress, by default `reject`.
    #[serde(default)]
    mode: WhileWorking,
    /// An id of your own: letters, digits, `-` and `_`. A second request with the same id says nothing a second time.
    #[serde(default)]
    id: Option<String>,
}

/// The message that begins the turn.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StartedTurn {
    /// Its id.
    message: String,
}

/// Says something. The agent answers in the thread's events.
#[utoipa::path(post, path = "/threads/{thread}/turns", tag = "turns", params(("thread" = String, Path)), request_body = NewTurn, responses((status = 202, body = StartedTurn), (status = 409, description = "A turn is in progress", body = super::error::ApiErrorBody)))]
pub(super) async fn start(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath(id): ApiPath<String>,
    ApiJson(new): ApiJson<NewTurn>,
) -> Result<(StatusCode, Json<StartedTurn>), ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let mut message = Message::user(checked(&new.text)?);
    if let Some(own) = &new.id {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if own.is_empty() || own.len() > MAX_ID || !own.chars().all(is_plain) {
            return Err(ApiError::bad_request("An id has 1 to 64 letters, digits, `-` and `_`."));
        }
        message.id = MessageId::from(own.as_str());
    }
    let message_id = message.id.as_str().to_owned();
    say(&app, &thread, message, new.mode).await?;
    if thread.title.is_empty() {
        // Lists show it while the agent still works.
        app.threads.give_title(&thread.owner, &thread.id, &crate::worker::title_of(&new.text)).await?;
    }
    Ok((StatusCode::ACCEPTED, Json(StartedTurn { message: message_id })))
}

fn checked(text: &str) -> Result<&str, ApiError> {
    if text.len() > MAX_TEXT {
        return Err(ApiError::too_large(format!(
            "A message has at most {MAX_TEXT} bytes. Upload a file instead."
        )));
    }
    if text.trim().is_empty() {
        return Err(ApiError::bad_request("The text is empty."));
    }
    Ok(text)
}

/// Posts a message to a thread.
pub(crate) async fn say(
    app: &App,
    thread: &prowess_store::serve::OwnedThread,
    message: Message,
    mode: WhileWorking,
) -> Result<(), ApiError> {
    if mode != WhileWorking::Queue {
        let begun = Instant::now();
        let (replay, rests) = loop {
            let rests = app.queue.state(&thread.id).await? == QueueState::Rests;
            let (replay, _) = replayed(app, thread).await?;
            // A worker may only look at the thread, or be about to begin a turn.
            if rests || replay.turn.is_some() || begun.elapsed() > PATIENCE {
                let rests = rests && replay.turn.is_none();
                break (replay, rests);
            }
            tokio::time::sleep(LOOK).await;
        };
        let is_known = replay.state.messages().iter().any(|known| known.id == message.id);
        match mode {
            WhileWorking::Reject if !rests && !is_known => {
                return Err(ApiError::conflict(
                    "A turn is in progress. Wait, or use the mode `queue` or `interrupt`.",
                ));
            }
            WhileWorking::Interrupt => {
                if let Some(turn) = replay.turn.filter(|_| !is_known) {
                    app.inbox_of(&thread.owner).post(&thread.id, &Post::Cancel { turn }).await?;
                }
            }
            _ => {}
        }
    }
    let most = app.limits.waiting_messages;
    let Some(waits) = app.waiting.take(thread.id.as_str(), most, usize::MAX) else {
        return Err(ApiError::too_many(format!("At most {most} messages can wait in a thread.")));
    };
    if app.inbox_of(&thread.owner).post(&thread.id, &Post::Say { message }).await? == Posted::New {
        // The worker that takes it gives the place back.
        std::mem::forget(waits);
    }
    app.posted.notify_one();
    Ok(())
}

/// Ends the turn in progress, whatever it waits for.
#[utoipa::path(post, path = "/threads/{thread}/cancel", tag = "turns", params(("thread" = String, Path)), responses((status = 202), (status = 409, description = "No turn is in progress", body = super::error::ApiErrorBody)))]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath(id): ApiPath<String>,
) -> Result<StatusCode, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let (replay, _) = replayed(&app, &thread).await?;
    let turn = replay.turn.ok_or_else(|| ApiError::conflict("No turn is in progress."))?;
    app.inbox_of(&thread.owner).post(&thread.id, &Post::Cancel { turn }).await?;
    app.posted.notify_one();
    Ok(StatusCode::ACCEPTED)
}
