//! Threads: create, list, search, read, rename, fork, delete and export.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use prowess_agent::middleware::FollowedFiles;
use prowess_agent::queue::{Claim, Post, QueueState, TurnQueue};
use prowess_agent::thread::ThreadError;
use prowess_agent::thread_state::Event;
use prowess_agent::{AgentError, ThreadId};
use prowess_store::serve::OwnedThread;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::{ApiError, ApiJson, ApiPath, ApiQuery, Items, Page};
use crate::app::App;
use crate::auth::{Caller, Reader, Writer};
use crate::view::{
    LoadedSkillView, LoggedEvent, MessageRole, MessageView, QuestionView, Replay, ThreadView, TodoView,
};

/// How many events one request to the store reads.
const PAGE: usize = 1000;
/// The longest title, in bytes.
const MAX_TITLE: usize = 400;
/// The longest search, in characters.
const MAX_SEARCH: usize = 100;
/// How long a deletion that died keeps a thread for itself. A deletion renews its claim.
const DELETION: Duration = Duration::from_secs(60);
/// How long a deletion waits for a worker that has no turn to work on, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);

/// A thread with its conversation.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct WholeThread {
    #[serde(flatten)]
    thread: ThreadView,
    /// The conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<MessageView>>,
    /// Messages that wait until the agent can take them.
    queued: Vec<QueuedMessage>,
    /// The questions that wait.
    questions: Vec<QuestionView>,
    /// The skills that are loaded.
    skills: Vec<LoadedSkillView>,
    /// The agent's list of steps.
    todos: Vec<TodoView>,
    /// The number of the last event.
    last: u64,
}

/// A message that waits.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct QueuedMessage {
    /// Its id.
    id: String,
    /// Its text.
    text: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct PartsOf {
    /// Whether the answer has the conversation, by default `true`.
    messages: bool,
}

impl Default for PartsOf {
    fn default() -> Self {
        Self { messages: true }
    }
}

/// A new thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NewThread {
    /// Its title. Without one, the first message becomes the title.
    title: Option<String>,
    /// The agent. There is one at the moment.
    agent: Option<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct Search {
    /// Words that the title or the conversation contains, at most 100 characters. Of a long conversation, the beginning and the
    /// end count.
    search: Option<String>,
}

/// The owned thread that a path names. A thread of somebody else does not exist.
pub(crate) async fn owned(app: &App, caller: &Caller, id: &str) -> Result<OwnedThread, ApiError> {
    let missing = || ApiError::not_found(format_args!("thread `{}`", prowess_base::text::escaped_start(id)));
    let thread: ThreadId = id.parse().map_err(|_| missing())?;
    app.threads.get(&caller.user.id, &thread).await?.ok_or_else(missing)
}

/// All events of a thread.
async fn all_events(app: &App, owned: &OwnedThread) -> Result<Vec<LoggedEvent>, ApiError> {
    let (mut replay, last) = app.look_at(owned, |known| (known.light(0), known.last)).await?;
    let mut logged = Vec::new();
    while replay.last < last {
        let page = app.log_of(&owned.owner).events(&owned.id, replay.last, PAGE).await?;
        if page.is_empty() {
            break;
        }
        logged.extend(page.iter().map(|stored| replay.read(stored)));
    }
    Ok(logged)
}

/// A thread as lists show it. Its summary may be older than the state of the queue, but not newer.
async fn view(app: &App, thread: &OwnedThread) -> Result<ThreadView, ApiError> {
    Ok(ThreadView::new(thread, app.queue.state(&thread.id).await?))
}

/// Lists your threads. The one that changed last comes first.
#[utoipa::path(get, path = "/threads", tag = "threads", params(Page, Search), responses((status = 200, body = Items<ThreadView>), (status = 503, description = "The search took too long", body = super::ApiErrorBody)))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiQuery(page): ApiQuery<Page>,
    ApiQuery(Search { search }): ApiQuery<Search>,
) -> Result<Json<Items<ThreadView>>, ApiError> {
    let search = search.as_deref().map(str::trim).filter(|search| !search.is_empty());
    if search.is_some_and(|search| search.chars().nth(MAX_SEARCH).is_some()) {
        return Err(ApiError::bad_request(format!("A search has at most {MAX_SEARCH} characters.")));
    }
    let (threads, next) = match search {
        Some(search) => find(&app, &caller, search.to_owned(), page).await?,
        None => app.threads.list(&caller.user.id, None, page.after.as_deref(), page.limit()).await?,
    };
    let items = threads.iter().map(|(thread, state)| ThreadView::new(thread, *state)).collect();
    Ok(Json(Items { items, next }))
}

/// Searches the threads of a caller. A client that goes away ends no search, so its place is kept until then.
async fn find(
    app: &App,
    caller: &Caller,
    search: String,
    page: Page,
) -> Result<(Vec<(OwnedThread, QueueState)>, Option<String>), ApiError> {
    let (user, limits) = (caller.user.id.clone(), &app.limits);
    let place = app.searches.take(&user, limits.searches_per_user, limits.searches);
    let busy = || ApiError::too_many("Too many searches run at once. Try again.").retry_after(1);
    let (place, threads) = (place.ok_or_else(busy)?, app.threads.clone());
    let searched = tokio::spawn(async move {
        let found = threads.list(&user, Some(&search), page.after.as_deref(), page.limit()).await;
        drop(place);
        found
    });
    Ok(searched.await.map_err(|error| ApiError::internal(&error))??)
}

/// Creates a thread.
#[utoipa::path(post, path = "/threads", tag = "threads", request_body = NewThread, responses((status = 201, body = ThreadView)))]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiJson(new): ApiJson<NewThread>,
) -> Result<(StatusCode, Json<ThreadView>), ApiError> {
    if new.agent.is_some_and(|agent| agent != app.agent) {
        return Err(ApiError::bad_request(format!("There is no such agent; there is `{}`.", app.agent)));
    }
    let title = checked_title(new.title.unwrap_or_default())?;
    let thread = create_thread(&app, &caller, &ThreadId::new(), &title).await?;
    Ok((StatusCode::CREATED, Json(ThreadView::new(&thread, QueueState::Rests))))
}

/// Gives a new thread to a caller.
pub(crate) async fn create_thread(
    app: &App,
    caller: &Caller,
    id: &ThreadId,
    title: &str,
) -> Result<OwnedThread, ApiError> {
    let (user, most) = (&caller.user.id, app.limits.threads_per_user);
    if app.threads.count(user).await? >= most {
        return Err(ApiError::conflict(format!("You have {most} threads. Delete some.")));
    }
    Ok(app.threads.create(user, id, &app.agent, title).await?)
}

fn checked_title(title: String) -> Result<String, ApiError> {
    if title.len() > MAX_TITLE {
        return Err(ApiError::bad_request(format!("A title has at most {MAX_TITLE} bytes.")));
    }
    Ok(title)
}

/// Reads a thread with its conversation.
#[utoipa::path(get, path = "/threads/{thread}", tag = "threads", params(("thread" = String, Path), PartsOf), responses((status = 200, body = WholeThread)))]
pub(super) async fn read(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(id): ApiPath<String>,
    ApiQuery(parts): ApiQuery<PartsOf>,
) -> Result<Json<WholeThread>, ApiError> {
    let before = owned(&app, &caller, &id).await?;
    if parts.messages {
        caller.read_whole(&app)?;
    }
    // A thread that rests has stored everything before.
    let state = app.queue.state(&before.id).await?;
    let waiting = app.inbox_of(&before.owner).waiting(&before.id).await?;
    let owned = owned(&app, &caller, &id).await?;
    let mut thread = ThreadView::new(&owned, state);
    let whole = |replay: &Replay| {
        let questions = replay.questions();
        thread.waiting = questions.len();
        let queued = waiting.into_iter().filter_map(|entry| match entry.post {
            // The worker may have stored it since.
            Post::Say { message, .. } if !replay.has(message.id.as_str()) => {
                Some(QueuedMessage { id: message.id.as_str().to_owned(), text: message.text() })
            }
            _ => None,
        });
        WholeThread {
            thread,
            messages: parts.messages.then(|| replay.messages()),
            queued: queued.collect(),
            questions,
            last: replay.last,
            skills: replay.skills.clone(),
            todos: replay.todos.clone(),
        }
    };
    Ok(Json(app.look_at(&owned, whole).await?))
}

/// A change of a thread.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadChange {
    /// The new title.
    title: String,
}

/// Renames a thread.
#[utoipa::path(patch, path = "/threads/{thread}", tag = "threads", params(("thread" = String, Path)), request_body = ThreadChange, responses((status = 200, body = ThreadView)))]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath(id): ApiPath<String>,
    ApiJson(change): ApiJson<ThreadChange>,
) -> Result<Json<ThreadView>, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    app.threads.rename(&caller.user.id, &thread.id, &checked_title(change.title)?).await?;
    let thread = owned(&app, &caller, &id).await?;
    Ok(Json(view(&app, &thread).await?))
}

/// Deletes a thread with everything that belongs to it.
#[utoipa::path(delete, path = "/threads/{thread}", tag = "threads", params(("thread" = String, Path)), responses((status = 204)))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath(id): ApiPath<String>,
) -> Result<StatusCode, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    // No worker takes the thread meanwhile.
    let claim = claim_at_rest(&app, &thread).await?;
    let queue = app.inbox_of(&thread.owner);
    let deleted = tokio::select! {
        biased;
        deleted = delete_claimed(&app, &thread, &claim) => deleted,
        never = keep(&*queue, &claim) => match never {},
    };
    if let Err(error) = deleted {
        // It was queued, or can rest.
        queue.give_back(&claim, Duration::ZERO).await?;
        return Err(error);
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Claims a thread for its deletion, unless a turn is in progress that nobody has cancelled.
async fn claim_at_rest(app: &App, thread: &OwnedThread) -> Result<Claim, ApiError> {
    let (queue, begun) = (app.inbox_of(&thread.owner), Instant::now());
    loop {
        if let Some(claim) = queue.claim_thread(&thread.id, "deletion", DELETION).await? {
            return Ok(claim);
        }
        // Looked up before the log is read: a post that was taken has had its effect there.
        let waiting = queue.waiting(&thread.id).await?;
        let works = |replay: &Replay| {
            let is_cancelled = waiting
                .iter()
                .any(|entry| matches!(entry.post, Post::Cancel { turn } if Some(turn) == replay.turn));
            let says_more = waiting.iter().any(
                |entry| matches!(&entry.post, Post::Say { message, .. } if !replay.has(message.id.as_str())),
            );
            says_more || (replay.turn.is_some() && !is_cancelled)
        };
        if app.look_at(thread, works).await? {
            return Err(ApiError::conflict("The agent works on the thread. Cancel its turn first."));
        }
        // A worker may only look at the thread.
        if begun.elapsed() > PATIENCE {
            return Err(ApiError::conflict("The server still looks at the thread. Try again."));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Keeps the claim of a deletion: many files take long.
async fn keep(queue: &dyn TurnQueue, claim: &Claim) -> Infallible {
    loop {
        tokio::time::sleep(claim.lease.lasts / 3).await;
        if let Err(error) = queue.keep(claim).await {
            tracing::warn!(thread = %claim.thread(), %error, "Could not keep a thread for its deletion");
        }
    }
}

/// Deletes a thread that no worker has. The owner's entry goes with the log, and the files before both: as long as the entry is
/// there, the deletion can be repeated.
async fn delete_claimed(app: &App, thread: &OwnedThread, claim: &Claim) -> Result<(), ApiError> {
    let served = app.agents.thread(&thread.owner, &thread.id).await?;
    app.agents.remove(&thread.owner, &thread.id).await?;
    match served.agent.delete_leased(&claim.lease).await {
        Ok(()) | Err(AgentError::Thread(ThreadError::NotFound(_))) => {}
        Err(AgentError::Thread(error)) => return Err(error.into()),
        Err(error) => return Err(ApiError::internal(&error)),
    }
    app.replays.forget(&thread.id);
    app.threads.delete(&thread.owner, &thread.id).await?;
    app.inbox_of(&thread.owner).forget(&thread.id).await?;
    Ok(())
}

/// How much of a thread a fork has.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ForkOf {
    /// The number of the last event. Without it, the fork has all events. A fork never has a part of a turn: it ends before the
    /// turn that is in progress then.
    through: Option<u64>,
}

/// Makes a thread that begins like this one.
#[utoipa::path(post, path = "/threads/{thread}/fork", tag = "threads", params(("thread" = String, Path)), request_body = ForkOf, responses((status = 201, body = ThreadView)))]
pub(super) async fn fork(
    State(app): State<Arc<App>>,
    Writer(caller): Writer,
    ApiPath(id): ApiPath<String>,
    ApiJson(fork): ApiJson<ForkOf>,
) -> Result<(StatusCode, Json<ThreadView>), ApiError> {
    let from = owned(&app, &caller, &id).await?;
    // What a person approved in a turn must happen once, and a turn goes on in one thread only.
    let (through, last) = app
        .look_at(&from, |replay| (replay.before_turn(fork.through.unwrap_or(replay.last)), replay.last))
        .await?;
    if fork.through.is_some_and(|through| through > last) {
        return Err(ApiError::bad_request(format!("The thread has {last} events.")));
    }
    let title = if from.title.is_empty() { String::new() } else { format!("{} (fork)", from.title) };
    let thread = fork_thread(&app, &caller, &from, through, &title).await?;
    // A worker looks at it, so that lists show what waits in it.
    app.inbox_of(&caller.user.id).wake(&thread.id).await?;
    app.tell_posted(&thread.id);
    Ok((StatusCode::CREATED, Json(view(&app, &thread).await?)))
}

/// Makes a thread that has the first events of another one, and its files. If the client goes away, it is made all the same.
pub(crate) async fn fork_thread(
    app: &Arc<App>,
    caller: &Caller,
    from: &OwnedThread,
    through: u64,
    title: &str,
) -> Result<OwnedThread, ApiError> {
    let place = app.forks.take(&caller.user.id, app.limits.forks_per_user, app.limits.forks);
    let busy = || ApiError::too_many("Too many threads are forked at once. Try again.").retry_after(1);
    let place = place.ok_or_else(busy)?;
    let (app, caller, from, title) = (Arc::clone(app), caller.clone(), from.clone(), title.to_owned());
    let forked = tokio::spawn(async move {
        let forked = copy_thread(&app, &caller, &from, through, &title).await;
        drop(place);
        forked
    });
    forked.await.map_err(|error| ApiError::internal(&error))?
}

async fn copy_thread(
    app: &App,
    caller: &Caller,
    from: &OwnedThread,
    through: u64,
    title: &str,
) -> Result<OwnedThread, ApiError> {
    let user = &caller.user.id;
    check_followed(app, from).await?;
    let thread = create_thread(app, caller, &ThreadId::new(), title).await?;
    let forked = async {
        let (mut files, mut named) = (FollowedFiles::default(), Vec::new());
        if through > 0 {
            app.log_of(&from.owner).fork(&from.id, through, &thread.id).await?;
            if app.agents.followed_files().is_some() {
                (files, named) = files_of_log(app, &thread).await?;
            }
        }
        Ok::<_, ApiError>(app.agents.fork(user, &from.id, &thread.id, &files, &named).await?)
    };
    if let Err(error) = forked.await {
        let _ = app.agents.remove(user, &thread.id).await;
        app.threads.delete(user, &thread.id).await?;
        return Err(error);
    }
    Ok(thread)
}

/// Checks that the log of a thread knows its files, if they follow it. If not, a worker stores them.
async fn check_followed(app: &App, thread: &OwnedThread) -> Result<(), ApiError> {
    let Some(followed) = app.agents.followed_files() else { return Ok(()) };
    let is_known = app.look_at(thread, |replay| replay.files.inventory().is_some()).await?;
    if is_known || !followed.has_files_from_before(&thread.id).await {
        return Ok(());
    }
    app.inbox_of(&thread.owner).wake(&thread.id).await?;
    app.tell_posted(&thread.id);
    Err(ApiError::conflict(
        "The files of this thread are not in the object store yet. Try again in a moment.",
    ))
}

/// What the log of a thread says about its files, and the digests of all inventories and contents that it names.
async fn files_of_log(app: &App, thread: &OwnedThread) -> Result<(FollowedFiles, Vec<String>), ApiError> {
    let log = app.log_of(&thread.owner);
    let (mut files, mut named, mut last) = (FollowedFiles::default(), BTreeSet::new(), 0);
    loop {
        let page = log.events(&thread.id, last, PAGE).await?;
        for stored in &page {
            last = stored.number;
            let Event::StateChanged { changes } = &stored.event else { continue };
            for change in changes {
                files.read(change);
                named.extend(FollowedFiles::named_by(change));
            }
        }
        if page.len() < PAGE {
            return Ok((files, named.into_iter().collect()));
        }
    }
}

/// The form of an export.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ExportFormat {
    /// For a person.
    #[default]
    Markdown,
    /// All events.
    Json,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct ExportOf {
    /// The form, by default Markdown.
    format: ExportFormat,
}

/// Exports a thread.
#[utoipa::path(get, path = "/threads/{thread}/export", tag = "threads", params(("thread" = String, Path), ExportOf), responses((status = 200, content((String = "text/markdown"), (Vec<LoggedEvent> = "application/json")))))]
pub(super) async fn export(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(id): ApiPath<String>,
    ApiQuery(ExportOf { format }): ApiQuery<ExportOf>,
) -> Result<Response, ApiError> {
    let thread = owned(&app, &caller, &id).await?;
    caller.read_whole(&app)?;
    let (mut response, mime, ending) = match format {
        ExportFormat::Json => {
            (Json(all_events(&app, &thread).await?).into_response(), "application/json", "json")
        }
        ExportFormat::Markdown => {
            let messages = app.look_at(&thread, Replay::messages).await?;
            (markdown(&thread.title, &messages).into_response(), "text/markdown; charset=utf-8", "md")
        }
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(mime));
    if let Ok(name) = format!("attachment; filename=\"thread-{}.{ending}\"", thread.id).parse() {
        headers.insert(CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

fn markdown(title: &str, messages: &[MessageView]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    if !title.is_empty() {
        let _ = writeln!(text, "# {title}\n");
    }
    for message in messages {
        let who = match message.role {
            MessageRole::User if message.by.is_some() => "Agent",
            MessageRole::User => "Person",
            MessageRole::Assistant => "Model",
            MessageRole::Tool => "Tool",
        };
        let _ = writeln!(text, "## {who}\n");
        if message.role == MessageRole::Tool {
            // A fence that is longer than any in the text.
            let fence = "`".repeat(longest_run(&message.text, '`').max(2) + 1);
            let _ = writeln!(text, "{fence}\n{}\n{fence}\n", message.text);
        } else if !message.text.is_empty() {
            let _ = writeln!(text, "{}\n", without_headings(&message.text));
        }
        for call in &message.calls {
            let fence = "`".repeat(longest_run(&call.arguments.to_string(), '`').max(2) + 1);
            let _ = writeln!(text, "Calls `{}`:\n\n{fence}json\n{}\n{fence}\n", call.name, call.arguments);
        }
    }
    text
}

/// A text that cannot pass for the beginning of another message.
fn without_headings(text: &str) -> String {
    let line = |line: &str| match line.trim_start() {
        heading if heading.starts_with("# ") || heading.starts_with("## ") => format!("\\{heading}"),
        _ => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn longest_run(text: &str, of: char) -> usize {
    text.split(|c| c != of).map(str::len).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_pass_for_another_message() {
        let text = "Yes.\n\n## Person\n\n  # Title\n### Part\n#tag";
        assert_eq!(without_headings(text), "Yes.\n\n\\## Person\n\n\\# Title\n### Part\n#tag");
    }
}
