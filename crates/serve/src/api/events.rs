//! The events of a thread as they happen: server-sent events.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::HeaderMap;
use prowess_agent::queue::QueueState;
use prowess_agent::thread::ThreadError;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use utoipa::IntoParams;

use super::threads::owned;
use super::{ApiError, ApiPath, ApiQuery};
use crate::app::{App, Counted};
use crate::auth::{Caller, Reader};
use crate::live::{LiveThread, Piece, SoFar};
use crate::token_watch::WatchedToken;
use crate::view::{LoggedEvent, Replay, ThreadStatus};
use prowess_store::serve::OwnedThread;

/// How many events one request to the store reads. A stream holds no more of them.
const PAGE: usize = 64;
/// How often a stream looks for events that another process stored.
const LOOK: Duration = Duration::from_secs(3);
/// The same if other processes do all the work, and no signals of theirs arrive.
const OFTEN: Duration = Duration::from_millis(500);

fn look_every(app: &App) -> Duration {
    if app.role.is_worker() || app.relay.hears() { LOOK } else { OFTEN }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct StreamFrom {
    /// The number of the last event that you have. The header `Last-Event-ID` does the same. 0 is for all events.
    after: Option<u64>,
}

/// Streams the events of a thread. Stored events have an id. Pieces of text have none: a stored event replaces them.
#[utoipa::path(get, path = "/threads/{thread}/events", tag = "events", params(("thread" = String, Path), StreamFrom), responses((status = 200, description = "Server-sent events", content((LoggedEvent = "text/event-stream")))))]
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    Reader(caller): Reader,
    ApiPath(id): ApiPath<String>,
    ApiQuery(StreamFrom { after }): ApiQuery<StreamFrom>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let owned = owned(&app, &caller, &id).await?;
    let resumed = match headers.get("last-event-id") {
        Some(id) => {
            let id = id.to_str().ok().and_then(|id| id.trim().parse().ok());
            Some(
                id.ok_or_else(|| ApiError::bad_request("This `Last-Event-ID` is not a number of an event."))?,
            )
        }
        None => after,
    };
    let keep_alive = KeepAlive::new().interval(app.limits.keep_alive);
    let light = |known: &Replay| known.light(resumed.unwrap_or(u64::MAX));
    let place = StreamPlace::take(&app, &caller)?;
    let watching = Watching::begin(app, &owned, &caller, place, resumed, light).await?;
    let events = stream::unfold(watching, |mut watching| async move {
        let event = watching.next().await?;
        Some((Ok::<_, Infallible>(event.sse()), watching))
    });
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    let headers = response.headers_mut();
    headers.insert("cache-control", http::HeaderValue::from_static("no-store"));
    // Proxies must not wait for more.
    headers.insert("x-accel-buffering", http::HeaderValue::from_static("no"));
    Ok(response)
}

/// An event of a stream.
pub(crate) enum Streamed {
    /// From the log.
    Logged(Box<LoggedEvent>),
    /// Not stored.
    Live(&'static str, Value),
}

impl Streamed {
    fn sse(self) -> SseEvent {
        let (event, name, data) = match &self {
            Self::Logged(logged) => {
                let event = SseEvent::default().id(logged.number.to_string());
                (event, logged.event.name(), serde_json::to_string(logged))
            }
            Self::Live(name, data) => (SseEvent::default(), *name, serde_json::to_string(data)),
        };
        event.event(name).data(data.unwrap_or_else(|_| "{}".to_owned()))
    }
}

/// Somebody who watches a thread.
pub(crate) struct Watching {
    app: Arc<App>,
    owned: OwnedThread,
    live: Arc<LiveThread>,
    pieces: broadcast::Receiver<Piece>,
    replay: Replay,
    out: VecDeque<Streamed>,
    stop: watch::Receiver<bool>,
    token: WatchedToken,
    status: Option<ThreadStatus>,
    /// Events after this one are passed on.
    after: u64,
    phase: Phase,
    _place: StreamPlace,
}

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It reads what was stored before it began.
    CatchesUp,
    /// It waits for what happens.
    Follows,
    /// It has ended.
    Ended,
}

/// A place among the open event streams.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    _place: Counted,
}

impl StreamPlace {
    /// Takes a place, and gives back the one that the request has among those in progress.
    pub(crate) fn take(app: &App, caller: &Caller) -> Result<Self, ApiError> {
        let limits = &app.limits;
        let place = app.streams.take(&caller.user.id, limits.streams_per_user, limits.streams);
        let place =
            place.ok_or_else(|| ApiError::too_many("There are too many open event streams. Close some."))?;
        caller.give_places_back();
        Ok(Self { _place: place })
    }
}

impl Watching {
    /// Begins to watch. With `resumed`, all events after that one come first. `replay` is where the stream begins to read, and
    /// says how much it keeps.
    pub(crate) async fn begin(
        app: Arc<App>,
        owned: &OwnedThread,
        caller: &Caller,
        place: StreamPlace,
        resumed: Option<u64>,
        replay: impl FnOnce(&Replay) -> Replay,
    ) -> Result<Self, ApiError> {
        let (replay, last) = app.look_at(owned, |known| (replay(known), known.last)).await?;
        if resumed.is_some_and(|resumed| resumed > last) {
            return Err(ApiError::bad_request("This thread has no event with this number yet."));
        }
        let live = app.live.of(&owned.id);
        let pieces = live.begin_to_watch();
        Ok(Self {
            pieces,
            live,
            replay,
            out: VecDeque::new(),
            stop: app.stop.subscribe(),
            token: app.tokens.watch(caller.digest),
            status: None,
            // Without `resumed`, the events that are stored already do not come.
            after: resumed.unwrap_or(u64::MAX),
            phase: Phase::CatchesUp,
            owned: owned.clone(),
            app,
            _place: place,
        })
    }

    /// Reads one page of what was stored before. When there is no more, says what was said so far.
    async fn catch_up(&mut self) -> Result<(), ApiError> {
        // Looked up before the log is read: a thread that rested by then has stored everything.
        let queued = self.app.queue.state(&self.owned.id).await?;
        let (so_far, pieces) = self.live.watch();
        // What is said now is valid if no event was stored since the log was read.
        if self.read_page().await? > 0 {
            return Ok(());
        }
        self.pieces = pieces;
        let status = self.status_of(queued);
        self.status = Some(status);
        self.push_so_far(&so_far, status);
        (self.phase, self.after) = (Phase::Follows, 0);
        Ok(())
    }

    fn push_so_far(&mut self, so_far: &SoFar, status: ThreadStatus) {
        let nothing = SoFar::default();
        // What a stored event has replaced comes no more.
        let SoFar { text, reasoning, progress, .. } =
            if so_far.ends < self.replay.ends { &nothing } else { so_far };
        let shown = |(call, text): (&String, &String)| (call.clone(), self.replay.shown_lines(text));
        let progress: BTreeMap<String, String> = progress.iter().map(shown).collect();
        let data = json!({"text": text, "reasoning": reasoning, "progress": progress, "status": status});
        self.out.push_back(Streamed::Live("live", data));
    }

    /// Reads a page of what was stored since. Returns how many events there were.
    async fn read_page(&mut self) -> Result<usize, ApiError> {
        let log = self.app.log_of(&self.owned.owner);
        let page = match log.events(&self.owned.id, self.replay.last, PAGE).await {
            Err(ThreadError::NotFound(_)) if self.replay.last == 0 => Vec::new(),
            page => page?,
        };
        for stored in &page {
            let logged = self.replay.read(stored);
            if logged.number > self.after {
                self.out.push_back(Streamed::Logged(Box::new(logged)));
            }
        }
        Ok(page.len())
    }

    fn status_of(&self, queued: QueueState) -> ThreadStatus {
        ThreadStatus::of(queued, !self.replay.questions().is_empty())
    }

    /// What the thread is like after the events so far.
    pub(crate) fn replay(&self) -> &Replay {
        &self.replay
    }

    /// Reads what was stored since. Returns whether that was all of it.
    async fn follow_log(&mut self) -> Result<bool, ApiError> {
        let is_all = self.read_page().await? < PAGE;
        if !is_all {
            // What happened in between comes after the rest.
            self.phase = Phase::CatchesUp;
        }
        Ok(is_all)
    }

    async fn look(&mut self) -> Result<(), ApiError> {
        let queued = self.app.queue.state(&self.owned.id).await?;
        if !self.follow_log().await? {
            return Ok(());
        }
        let status = self.status_of(queued);
        if self.status != Some(status) {
            self.status = Some(status);
            self.out.push_back(Streamed::Live("status", json!({"status": status})));
        }
        Ok(())
    }

    /// The next event; `None` if the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Streamed> {
        loop {
            if let Some(event) = self.out.pop_front() {
                return Some(event);
            }
            if self.phase == Phase::Ended {
                return None;
            }
            let happened = tokio::select! {
                biased;
                _ = self.stop.wait_for(|stops| *stops) => None,
                () = self.token.revoked() => None,
                () = std::future::ready(()), if self.phase == Phase::CatchesUp => Some(Piece::Status),
                // A stream that was too slow, or whose thread nobody keeps, begins again.
                piece = self.pieces.recv() => piece.ok(),
                () = tokio::time::sleep(look_every(&self.app)) => Some(Piece::Status),
            };
            let told = match happened {
                Some(_) if self.phase == Phase::CatchesUp => self.catch_up().await.map_err(Some),
                Some(piece) => self.tell(piece).await,
                None => Err(None),
            };
            if let Err(error) = told {
                if let Some(error) = error {
                    tracing::warn!(thread = %self.owned.id, error = error.message(), "A stream of events ended");
                }
                self.phase = Phase::Ended;
                self.out.push_back(Streamed::Live("resume", json!({})));
            }
        }
    }

    /// Passes on what happened.
    async fn tell(&mut self, piece: Piece) -> Result<(), Option<ApiError>> {
        let (name, data) = match piece {
            // What is stored while a worker works does not change the status.
            Piece::Stored if self.status == Some(ThreadStatus::Working) => {
                return self.follow_log().await.map(drop).map_err(Some);
            }
            Piece::Stored | Piece::Status => return self.look().await.map_err(Some),
            Piece::Text(ends, _) | Piece::Reasoning(ends, _) | Piece::Progress(ends, ..)
                if ends < self.replay.ends =>
            {
                return Ok(());
            }
            Piece::Text(_, text) => ("text", json!({"text": text})),
            Piece::Reasoning(_, text) => ("reasoning", json!({"text": text})),
            Piece::Progress(_, call, text) => {
                ("progress", json!({"call": call, "text": self.replay.shown_lines(&text)}))
            }
            Piece::Notice(text) => ("notice", json!({"text": self.replay.shown(&text)})),
            Piece::Again(_) => {
                let status = self.status.unwrap_or(ThreadStatus::Working);
                self.push_so_far(&SoFar::default(), status);
                return Ok(());
            }
        };
        self.out.push_back(Streamed::Live(name, data));
        Ok(())
    }
}
