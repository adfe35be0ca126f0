//! AG-UI 1.0: one request is a run, and its answer is the stream of the run's events.

mod input;
mod translate;

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use prowess_agent::Message;
use prowess_agent::id::MessageId;
use prowess_agent::queue::Priority;
use prowess_backend::{EntryKind, VirtualPath};
use prowess_store::serve::OwnedThread;
use prowess_workspace::tree::PROJECT;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::input::{AgUiMessage, RunAgentInput, derived_thread};
use self::translate::{Ids, Translator};
use crate::api::{
    ApiError, ApiJson, ApiPath, Replied, StreamPlace, WhileWorking, answer, check_allowance, create,
    files_of, no_question, say,
};
use crate::app::App;
use crate::auth::{Approver, Caller, Reader, Writer};
use crate::elsewhere::quoting;
use crate::follow::{Followed, Following};
use crate::view::{Asked, EventView, MessageView, Replay};

/// The most files of the project that the state of a run lists.
const MAX_FILES: usize = 200;
/// The longest id of a thread or a run, in bytes.
const MAX_ID: usize = 1024;

/// The routes.
pub(crate) fn router() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(run))
}

/// Runs the agent for an AG-UI client. Says what is new in the conversation, replies to interrupts, and streams the events of
/// the run. A run that says nothing new joins the turn in progress.
#[utoipa::path(post, path = "/agui/{agent}", tag = "ag-ui", params(("agent" = String, Path, description = "The agent, `prowess`")), request_body = RunAgentInput, responses((status = 200, description = "The events of AG-UI 1.0", content((Object = "text/event-stream"))), (status = 409, description = "A turn is in progress, or waits for replies", body = crate::api::ApiErrorBody)))]
async fn run(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    _: Reader,
    approver: Result<Approver, ApiError>,
    ApiPath(agent): ApiPath<String>,
    ApiJson(input): ApiJson<RunAgentInput>,
) -> Result<Response, ApiError> {
    if agent != app.agent {
        return Err(ApiError::not_found(format_args!(
            "agent `{}`",
            prowess_base::text::escaped_start(&agent)
        )));
    }
    if input.thread_id.is_empty() || input.thread_id.len() > MAX_ID || input.run_id.len() > MAX_ID {
        return Err(ApiError::bad_request(format!(
            "A `threadId` has 1 to {MAX_ID} bytes, a `runId` at most as many."
        )));
    }
    // Nothing happens for a client that cannot see it.
    let place = StreamPlace::take(&app, &caller)?;
    let thread = thread(&app, &caller, &input.thread_id).await?;
    let replay = app.look_at(&thread, Replay::clone).await?;
    let new = new_messages(&replay, &thread, &input.messages)?;
    let mut notices = Vec::new();
    let ignored = [(&input.tools, "call tools of the client"), (&input.context, "read `context`")];
    for (given, what) in ignored {
        if given.as_ref().is_some_and(|given| !given.is_empty()) {
            notices.push(format!("The agent does not {what}."));
        }
    }
    let (replies, mut has_replied) = (input.resume.as_deref().unwrap_or_default(), false);
    if !replies.is_empty() {
        let Approver(caller) = approver?;
        let resumed = resume(&app, &caller, &thread, &replay, replies).await?;
        has_replied = resumed.has_replied;
        notices.extend(resumed.notices);
    }
    let mut said = Vec::new();
    for (index, message) in new.iter().enumerate() {
        // Replies let the turn go on, so what is said with them waits.
        let mode = if index == 0 && !has_replied { WhileWorking::Reject } else { WhileWorking::Queue };
        say(&app, &caller, &thread, message.clone(), mode, Priority::Normal).await.map_err(|unsaid| {
            unsaid.with_advice(
                "Send a run without a new message to join it, and the message after its end.",
                "Send the reply in `resume`. A message of the same run waits for the end of the turn.",
            )
        })?;
        said.push(MessageView::from(message));
    }
    let awaited = said.last().map(|message| message.id.clone());
    let files = files(&app, &thread).await;
    let ids = Ids { thread: input.thread_id, run: input.run_id };
    let mut translator = Translator::new(ids, thread.id.as_str(), &replay, files, &said);
    let last = replay.last;
    let following =
        Following::begin(Arc::clone(&app), &thread, &caller, place, last, awaited, |_| replay).await?;
    for notice in notices {
        translator.notice(&notice);
    }
    let keep_alive = KeepAlive::new().interval(app.limits.keep_alive);
    let run = Run { app, thread, following, translator };
    let events = stream::unfold(run, |mut run| async move {
        let event = run.next().await?;
        Some((Ok::<_, Infallible>(SseEvent::default().data(event.to_string())), run))
    });
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    let headers = response.headers_mut();
    headers.insert("cache-control", http::HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", http::HeaderValue::from_static("no"));
    Ok(response)
}

/// The thread that a client means. It begins when the client first names it.
async fn thread(app: &App, caller: &Caller, id: &str) -> Result<OwnedThread, ApiError> {
    let user = &caller.user.id;
    if let Ok(id) = id.parse()
        && let Some(thread) = app.threads.get(user, &id).await?
    {
        return Ok(thread);
    }
    let id = derived_thread(user, id);
    match app.threads.get(user, &id).await? {
        Some(thread) => Ok(thread),
        None => {
            check_allowance(app, caller).await?;
            create(app, caller, &id, "").await
        }
    }
}

/// What the client's conversation has that the thread does not have.
fn new_messages(
    replay: &Replay,
    thread: &OwnedThread,
    messages: &[AgUiMessage],
) -> Result<Vec<Message>, ApiError> {
    let known = replay.messages();
    let prefix = format!("{}-", thread.id);
    let is_known = |message: &AgUiMessage| {
        let id = message.own_id();
        // Responses and answers have ids that runs gave them.
        message.id.starts_with(&prefix) || known.iter().any(|known| known.id == id)
    };
    let last = messages.iter().rposition(is_known);
    let new = &messages[last.map_or(0, |last| last + 1)..];
    let user = |message: &AgUiMessage, text: &str| {
        let mut own = Message::user(text);
        own.id = MessageId::from(message.own_id().as_str());
        own
    };
    // A conversation that began elsewhere.
    if known.is_empty()
        && let Some(at) = new.iter().rposition(AgUiMessage::is_user)
        && new[..at].iter().any(|message| !message.is_user())
    {
        let before: Vec<_> = new[..at].iter().map(AgUiMessage::elsewhere).collect();
        return Ok(vec![user(&new[at], &quoting(&before, &new[at].said()?))]);
    }
    let new = new.iter().filter(|message| message.is_user());
    new.map(|message| Ok(user(message, &message.said()?))).collect()
}

/// What became of replies to questions.
struct Resumed {
    /// About replies that had no effect.
    notices: Vec<String>,
    /// Whether one had an effect.
    has_replied: bool,
}

/// Replies to questions.
async fn resume(
    app: &App,
    caller: &Caller,
    thread: &OwnedThread,
    replay: &Replay,
    entries: &[input::ResumeEntry],
) -> Result<Resumed, ApiError> {
    let too_late = |id: &str| {
        let id = prowess_base::text::escaped_start(id);
        format!("The reply to question {id} had no effect: somebody replied before, or its turn ended.")
    };
    let (mut notices, mut replies) = (Vec::new(), Vec::new());
    // All are checked before the first one has an effect.
    for entry in entries {
        let id = &entry.interrupt_id;
        let new = entry.reply()?;
        match replay.question_of(id) {
            Asked::Waits(question) => {
                let kind = new.reply;
                let reply = new.call_reply(&question)?;
                replies.push((id, question, kind, reply));
            }
            Asked::Settled => notices.push(too_late(id)),
            Asked::Never => return Err(no_question(id)),
        }
    }
    let mut has_replied = false;
    for (id, question, kind, reply) in replies {
        match answer(app, caller, thread, &question, kind, reply).await? {
            Replied::First => has_replied = true,
            Replied::TooLate => notices.push(too_late(id)),
        }
    }
    Ok(Resumed { notices, has_replied })
}

/// The files at the top of the project. A run goes on without them.
async fn files(app: &App, thread: &OwnedThread) -> Vec<Value> {
    let listed =
        async { files_of(app, thread).await.ok()?.ls(&VirtualPath::parse(PROJECT).ok()?).await.ok() };
    let entries = listed.await.map(|listing| listing.entries).unwrap_or_default();
    let file = |entry: &prowess_backend::Entry| {
        let is_directory = entry.kind == EntryKind::Directory;
        let kind = if is_directory { "directory" } else { "file" };
        json!({"path": entry.path.as_str(), "kind": kind, "bytes": (!is_directory).then_some(entry.size)})
    };
    entries.iter().take(MAX_FILES).map(file).collect()
}

/// A run in progress.
struct Run {
    app: Arc<App>,
    thread: OwnedThread,
    following: Following,
    translator: Translator,
}

impl Run {
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.translator.pop() {
                return Some(event);
            }
            let followed = self.following.next().await?;
            self.translator.take(&followed, self.following.replay());
            if let Followed::Logged(logged) = &followed
                && let EventView::ToolAnswered { data: Some(data), .. } = &logged.event
                && matches!(data["kind"].as_str(), Some("changed_file" | "ran"))
            {
                self.translator.files(files(&self.app, &self.thread).await);
            }
        }
    }
}
