//! Turns: say something, or end the turn in progress.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use prowess_agent::Message;
use prowess_agent::id::MessageId;
use prowess_agent::queue::{Post, PostIf, Posted, Priority, QueueState};
use prowess_store::serve::OwnedThread;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;

use super::threads::owned;
use super::{ApiError, ApiJson, ApiPath};
use crate::app::App;
use crate::auth::{Caller, Writer};
use crate::queue::CANNOT_GO_ON;

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
    /// The turn ends. What waits begins the next ones, and the message is the last of them.
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
    /// How soon its turn begins if others wait, by default `normal`. `high` is for administrators.
    #[serde(default)]
    priority: Urgency,
}

/// How soon a turn begins if others wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Urgency {
    /// Behind others.
    Low,
    /// As everybody's.
    #[default]
    Normal,
    /// Before others.
    High,
}

impl From<Urgency> for Priority {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Low => Self::Low,
            Urgency::Normal => Self::Normal,
            Urgency::High => Self::High,
        }
    }
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
    let mut message = Message::user(&new.text);
    if let Some(own) = &new.id {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if own.is_empty() || own.len() > MAX_ID || !own.chars().all(is_plain) {
            return Err(ApiError::bad_request("An id has 1 to 64 letters, digits, `-` and `_`."));
        }
        message.id = MessageId::from(own.as_str());
    }
    let message_id = message.id.as_str().to_owned();
    if new.priority == Urgency::High && !caller.user.is_admin {
        return Err(ApiError::forbidden("Only an administrator gives a turn the priority `high`."));
    }
    let said = say(&app, &caller, &thread, message, new.mode, new.priority.into()).await;
    said.map_err(|unsaid| {
        unsaid.with_advice(
            "Wait for its end, or send the message with the mode `queue` or `interrupt`.",
            "Reply to it, or send the message with the mode `queue` or `interrupt`.",
        )
    })?;
    if thread.title.is_empty() {
        // Lists show it while the agent still works.
        app.threads.give_title(&thread.owner, &thread.id, &crate::worker::title_of(&new.text)).await?;
    }
    Ok((StatusCode::ACCEPTED, Json(StartedTurn { message: message_id })))
}

fn check(text: &str) -> Result<(), ApiError> {
    if text.len() > MAX_TEXT {
        return Err(ApiError::too_large(format!(
            "A message has at most {MAX_TEXT} bytes. Upload a file instead."
        )));
    }
    if text.trim().is_empty() {
        return Err(ApiError::bad_request("The text is empty."));
    }
    Ok(())
}

/// Refuses a caller who may use no more today.
pub(crate) async fn check_allowance(app: &App, caller: &Caller) -> Result<(), ApiError> {
    app.used_up(&caller.user, false).await?.map_or(Ok(()), |reason| Err(ApiError::too_many(reason)))
}

/// Why a message could not be said.
pub(crate) enum Unsaid {
    /// A turn is in progress.
    InTurn,
    /// A question of the turn in progress waits for a reply.
    Asks,
    /// The thread is a dead letter.
    Dead,
    /// Another error.
    Other(ApiError),
}

impl<E: Into<ApiError>> From<E> for Unsaid {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

impl Unsaid {
    /// The error, with what the client can do about a turn in progress and about a question.
    pub(crate) fn with_advice(self, in_turn: &str, asks: &str) -> ApiError {
        match self {
            Self::InTurn => ApiError::conflict(format!("A turn is in progress. {in_turn}")),
            Self::Asks => ApiError::conflict(format!("A question waits for a reply. {asks}")),
            Self::Dead => ApiError::conflict(CANNOT_GO_ON),
            Self::Other(error) => error,
        }
    }
}

/// Posts a message to a thread.
pub(crate) async fn say(
    app: &App,
    caller: &Caller,
    thread: &OwnedThread,
    message: Message,
    mode: WhileWorking,
    priority: Priority,
) -> Result<(), Unsaid> {
    check(&message.text())?;
    check_allowance(app, caller).await?;
    let id = message.id.as_str().to_owned();
    let post = Post::Say { message, priority };
    match mode {
        WhileWorking::Queue => {}
        WhileWorking::Reject => return post_at_rest(app, thread, &post, &id).await,
        WhileWorking::Interrupt => {
            // The message comes first: if it is refused, the turn goes on.
            let turn = turn_to_end(app, thread, &id).await?;
            post_one_more(app, thread, &post).await?;
            if let Some(turn) = turn {
                app.inbox_of(&thread.owner).post(&thread.id, &Post::Cancel { turn }).await?;
                app.tell_posted(&thread.id);
            }
            return Ok(());
        }
    }
    Ok(post_one_more(app, thread, &post).await?)
}

/// Refuses a post if too many wait in all threads of the user.
async fn check_room(app: &App, thread: &OwnedThread) -> Result<(), ApiError> {
    let most = app.limits.waiting_posts_per_user;
    if app.threads.posts(&thread.owner).await?.messages >= most {
        return Err(ApiError::too_many(format!("At most {most} messages can wait in all your threads.")));
    }
    Ok(())
}

/// Posts a message to a thread that rests.
async fn post_at_rest(app: &App, thread: &OwnedThread, post: &Post, id: &str) -> Result<(), Unsaid> {
    check_room(app, thread).await?;
    let begun = Instant::now();
    loop {
        // A turn that waits for a person is in progress too.
        let looked = app.look_at(thread, |replay| {
            (replay.turn.is_some() && !replay.has(id), !replay.questions().is_empty())
        });
        let (is_in_turn, asks) = looked.await?;
        let posted = if is_in_turn {
            Posted::Refused
        } else {
            app.inbox_of(&thread.owner).post_if(&thread.id, post, PostIf::Rests).await?
        };
        if posted != Posted::Refused {
            app.tell_posted(&thread.id);
            return Ok(());
        }
        if app.queue.state(&thread.id).await? == QueueState::Dead {
            return Err(Unsaid::Dead);
        }
        // A worker may only look at the thread.
        if is_in_turn || begun.elapsed() > PATIENCE {
            return Err(if asks { Unsaid::Asks } else { Unsaid::InTurn });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The turn that a message ends. A worker may be about to begin it.
async fn turn_to_end(app: &App, thread: &OwnedThread, id: &str) -> Result<Option<u64>, ApiError> {
    let begun = Instant::now();
    loop {
        let rests = app.queue.state(&thread.id).await? == QueueState::Rests;
        let (turn, is_known) = app.look_at(thread, |replay| (replay.turn, replay.has(id))).await?;
        if is_known {
            return Ok(None);
        }
        if turn.is_some() || rests || begun.elapsed() > PATIENCE {
            return Ok(turn);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Posts something to a thread unless too much waits there.
pub(super) async fn post_one_more(app: &App, thread: &OwnedThread, post: &Post) -> Result<(), ApiError> {
    check_room(app, thread).await?;
    let most = app.limits.waiting_posts;
    if app.inbox_of(&thread.owner).post_if(&thread.id, post, PostIf::FewerWait(most)).await?
        == Posted::Refused
    {
        return Err(ApiError::too_many(format!("At most {most} messages can wait in a thread.")));
    }
    app.tell_posted(&thread.id);
    Ok(())
}

/// Ends the turn in progress, whatever it waits for. A dead thread goes on with what waits after it.
#[utoipa::path(post, path = "/threads/{thread}/cancel", tag = "turns", params(("thread" = String, Path)), responses((status = 202), (status = 409, description = "No turn is in progress", body = super::error::ApiErrorBody)))]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath(id): ApiPath<String>,
) -> Result<StatusCode, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    let end = match app.look_at(&thread, |replay| replay.turn).await? {
        Some(turn) => Post::Cancel { turn },
        // No worker could begin the turn. This lets them take the thread again.
        None if app.queue.state(&thread.id).await? == QueueState::Dead => {
            Post::End { id: uuid::Uuid::now_v7().simple().to_string() }
        }
        None => return Err(ApiError::conflict("No turn is in progress.")),
    };
    let inbox = app.inbox_of(&thread.owner);
    if inbox.post(&thread.id, &end).await? == Posted::Known {
        // A cancelled turn that no worker could end is worth another attempt.
        inbox.retry(&thread.id).await?;
    }
    app.tell_posted(&thread.id);
    Ok(StatusCode::ACCEPTED)
}
