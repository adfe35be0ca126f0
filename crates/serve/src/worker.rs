//! Workers: they claim threads with work, take in what was posted, and let the agent work until the thread rests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prowess_agent::agent::ReplyTo;
use prowess_agent::middleware::Summarisation;
use prowess_agent::model::ModelUsage;
use prowess_agent::queue::{Claim, Finished, Inbox, InboxEntry, Post, QueueError};
use prowess_agent::thread::ThreadError;
use prowess_agent::thread_state::NextStep;
use prowess_agent::{AgentError, Event, Thread, ThreadId, TurnStatus};
use prowess_base::text::escaped_start;
use prowess_store::serve::{OwnedThread, OwnedThreadError, Summary};
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior};

use crate::agents::{BoxError, ServedThread};
use crate::app::App;
use crate::live::{LiveThread, Piece};
use crate::view::Replay;

/// How often pieces of text are passed on.
const PIECES: Duration = Duration::from_millis(100);
/// How often a worker looks for posts and queued threads that nobody told it about: another process can post them.
const LOOK: Duration = Duration::from_millis(500);
/// How long a thread waits after its worker failed, times the number of failures.
const RETRY: Duration = Duration::from_secs(2);
/// After how many failures in a row the turn is ended.
const MAX_FAILURES: u32 = 5;
/// How much of a conversation the search of threads looks in, in characters.
const SEARCHED: usize = 16 << 10;
/// The longest title that is made from a message, in characters.
const MAX_TITLE: usize = 80;
/// How many events one request to the store reads.
const PAGE: usize = 1000;

/// Works until the server stops. Then it waits for its threads to rest.
pub(crate) async fn run(app: Arc<App>) {
    let room = Arc::new(Semaphore::new(app.limits.turns));
    let name = format!("process {}", std::process::id());
    let mut stop = app.stop.subscribe();
    while !*stop.borrow_and_update() {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match app.queue.claim(&name, app.limits.claim).await {
            Ok(Some(claim)) => {
                let app = Arc::clone(&app);
                tokio::spawn(async move {
                    work(&app, claim).await;
                    drop(permit);
                });
                continue;
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "Could not look for queued threads"),
        }
        drop(permit);
        tokio::select! {
            () = app.posted.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
            _ = stop.changed() => {}
        }
    }
    // Whoever has a permit still works.
    let all = u32::try_from(app.limits.turns).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(app.limits.drain, room.acquire_many(all)).await;
}

/// Works on a claimed thread, and ends the claim.
async fn work(app: &App, claim: Claim) {
    let thread = claim.thread.clone();
    let live = app.live.of(&thread);
    live.tell(Piece::Status);
    // A claim after the first one means that somebody died while the thread was under way.
    if claim.attempt > 1 {
        live.restart();
    }
    app.metrics.worked.fetch_add(1, Ordering::Relaxed);
    app.metrics.working.fetch_add(1, Ordering::Relaxed);
    let worked = Work { app, claim: &claim, live: &live }.through().await;
    app.metrics.working.fetch_sub(1, Ordering::Relaxed);
    if let Err(error) = worked {
        app.metrics.failed.fetch_add(1, Ordering::Relaxed);
        let is_lost = matches!(error, WorkError::Queue(QueueError::ClaimLost(_)))
            || matches!(&error, WorkError::Agent(AgentError::Thread(ThreadError::LeaseLost(_))));
        live.restart();
        if is_lost {
            tracing::warn!(%thread, "Another worker took over the thread");
        } else {
            // A process that died keeps its lease for some seconds.
            let delay = if matches!(error, WorkError::Leased) {
                LOOK
            } else {
                let failures = app.note_failure(&thread);
                tracing::error!(%thread, %error, failures, "Could not work on the thread");
                live.tell(Piece::Notice(
                    "The server could not continue this thread, and tries again.".to_owned(),
                ));
                RETRY * failures
            };
            if let Err(error) = app.queue.give_back(&claim, delay).await {
                tracing::error!(%thread, %error, "Could not give the thread back");
            }
        }
    }
    live.tell(Piece::Status);
}

/// Why the work on a thread broke off.
#[derive(Debug, thiserror::Error)]
enum WorkError {
    #[error("another process uses the thread")]
    Leased,
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Program(#[from] BoxError),
    #[error(transparent)]
    Store(#[from] OwnedThreadError),
}

/// What a worker does next.
enum Next {
    /// Takes in a post, or lets the turn go on.
    Turn(Turn),
    /// Drops a post that has no effect any more.
    Drop(u64),
    /// Nothing: the thread rests.
    Rest,
}

enum Turn {
    GoOn,
    Entry(InboxEntry),
}

struct Work<'a> {
    app: &'a App,
    claim: &'a Claim,
    live: &'a Arc<LiveThread>,
}

impl Work<'_> {
    fn thread(&self) -> &ThreadId {
        &self.claim.thread
    }

    async fn through(&self) -> Result<(), WorkError> {
        let Some(owned) = self.app.threads.owner_of(self.thread()).await? else {
            // It was deleted.
            self.app.queue.forget(self.thread()).await?;
            return Ok(());
        };
        let served = self.app.agents.thread(&owned.owner, self.thread()).await?;
        let opened = self.keeping(served.agent.open(self.thread().clone())).await?;
        let mut thread = match opened {
            Ok(thread) => thread,
            Err(AgentError::Thread(ThreadError::Leased { .. })) => return Err(WorkError::Leased),
            Err(error) => return Err(error.into()),
        };
        let before = thread.state().spent().clone();
        let worked = self.work_in(&mut thread).await;
        let summary = self.summarise(&owned, &served, &mut thread, &before).await;
        // A lease that cannot be released runs out.
        let closed = thread.close().await;
        let posted = worked?;
        summary?;
        closed?;
        self.app.forget_failures(self.thread());
        if self.app.queue.finish(self.claim, posted).await? == Finished::Queued {
            self.app.posted.notify_one();
        }
        Ok(())
    }

    /// Works until the thread rests. Returns the number of posts that this took into account.
    async fn work_in(&self, thread: &mut Thread) -> Result<u64, WorkError> {
        loop {
            let inbox = self.app.queue.inbox(self.claim).await?;
            let posted = inbox.posted;
            match self.next(thread, inbox).await? {
                Next::Rest => return Ok(posted),
                Next::Drop(number) => self.app.queue.taken(self.claim, number).await?,
                Next::Turn(turn) => self.take(thread, turn).await?,
            }
            // A server that stops leaves what waits to the next one.
            if *self.app.stop.borrow() && thread.state().next() == NextStep::Wait {
                return Ok(0);
            }
        }
    }

    async fn next(&self, thread: &Thread, inbox: Inbox) -> Result<Next, WorkError> {
        let Inbox { entries, .. } = inbox;
        // An end comes before everything else.
        if let Some(entry) = entries.iter().find(|entry| matches!(entry.post, Post::Cancel { .. })) {
            let Post::Cancel { turn } = entry.post else { return Ok(Next::Drop(entry.number)) };
            let is_current = self.turn(thread.id()).await? == Some(turn);
            return Ok(if is_current {
                Next::Turn(Turn::Entry(entry.clone()))
            } else {
                Next::Drop(entry.number)
            });
        }
        let waiting = thread.waiting();
        for entry in &entries {
            if let Post::Reply { number, .. } = &entry.post {
                let is_asked = waiting.iter().any(|waiting| waiting.number == *number);
                return Ok(if is_asked {
                    Next::Turn(Turn::Entry(entry.clone()))
                } else {
                    Next::Drop(entry.number)
                });
            }
        }
        match thread.state().next() {
            NextStep::Wait => {}
            NextStep::Ask(_) => return Ok(Next::Rest),
            _ if self.app.failures(thread.id()) >= MAX_FAILURES => {
                let turn = self.turn(thread.id()).await?.unwrap_or_default();
                let entry = InboxEntry::new(0, Post::Cancel { turn });
                return Ok(Next::Turn(Turn::Entry(entry)));
            }
            _ => return Ok(Next::Turn(Turn::GoOn)),
        }
        let Some(entry) = entries.into_iter().next() else { return Ok(Next::Rest) };
        if let Post::Say { message } = &entry.post {
            let is_known = thread.state().messages().iter().any(|known| known.id == message.id);
            if is_known {
                return Ok(Next::Drop(entry.number));
            }
        }
        Ok(Next::Turn(Turn::Entry(entry)))
    }

    async fn take(&self, thread: &mut Thread, turn: Turn) -> Result<(), WorkError> {
        let live: &LiveThread = self.live;
        let (number, post) = match turn {
            Turn::GoOn => {
                return self.drive(thread, None, async |thread| thread.go_on(live).await).await;
            }
            Turn::Entry(entry) => (entry.number, entry.post),
        };
        match post {
            Post::Say { message } => {
                let say = async move |thread: &mut Thread| thread.say_all(vec![message], live).await;
                self.drive(thread, Some(number), say).await?;
            }
            Post::Reply { number: asked, reply, .. } => {
                let waiting = thread.waiting().into_iter().find(|waiting| waiting.number == asked);
                if let Some(waiting) = waiting {
                    let reply = async move |thread: &mut Thread| {
                        thread.reply(ReplyTo::from(&waiting), reply, live).await
                    };
                    self.drive(thread, Some(number), reply).await?;
                }
            }
            Post::Cancel { .. } => {
                self.keeping(thread.cancel(live)).await??;
                live.restart();
            }
            Post::Change { change, .. } => {
                // A change that a middleware cannot read has no effect; the log must stay readable.
                if let Err(error) = self.keeping(thread.change(change)).await? {
                    live.tell(Piece::Notice(escaped_start(&error.to_string())));
                }
                live.tell(Piece::Stored);
            }
            _ => {}
        }
        if number > 0 {
            self.app.queue.taken(self.claim, number).await?;
        }
        Ok(())
    }

    /// Lets the agent work, passes pieces on, keeps the claim, and looks for the wish to cancel.
    async fn drive<F>(&self, thread: &mut Thread, own: Option<u64>, work: F) -> Result<(), WorkError>
    where
        F: AsyncFnOnce(&mut Thread) -> Result<TurnStatus, AgentError>,
    {
        let id = thread.id().clone();
        self.live.begin(thread.events());
        let mut pieces = tokio::time::interval(PIECES);
        pieces.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut kept = Instant::now();
        let cancelled = {
            let working = work(&mut *thread);
            tokio::pin!(working);
            loop {
                tokio::select! {
                    biased;
                    done = &mut working => {
                        self.live.flush();
                        done?;
                        break None;
                    }
                    _ = pieces.tick() => self.live.flush(),
                    _ = look.tick() => {
                        if kept.elapsed() > self.claim.lasts / 3 {
                            self.app.queue.keep(self.claim).await?;
                            kept = Instant::now();
                        }
                        if let Some(number) = self.cancels(&id, own).await? {
                            break Some(number);
                        }
                    }
                }
            }
        };
        if let Some(number) = cancelled {
            self.live.restart();
            let live: &LiveThread = self.live;
            self.keeping(thread.cancel(live)).await??;
            self.app.queue.taken(self.claim, number).await?;
        }
        Ok(())
    }

    /// The post that ends the turn in progress, if there is one.
    async fn cancels(&self, thread: &ThreadId, own: Option<u64>) -> Result<Option<u64>, WorkError> {
        let inbox = self.app.queue.inbox(self.claim).await?;
        for entry in inbox.entries.iter().filter(|entry| Some(entry.number) != own) {
            if let Post::Cancel { turn } = entry.post
                && self.turn(thread).await? == Some(turn)
            {
                return Ok(Some(entry.number));
            }
        }
        Ok(None)
    }

    /// The number of the event that began the turn in progress.
    async fn turn(&self, thread: &ThreadId) -> Result<Option<u64>, WorkError> {
        let (mut turn, mut after) = (None, 0);
        loop {
            let page = self.app.log.events(thread, after, PAGE).await.map_err(AgentError::from)?;
            let is_last = page.len() < PAGE;
            for stored in page {
                after = stored.number;
                match stored.event {
                    Event::TurnStarted { .. } => turn = Some(stored.number),
                    Event::TurnEnded { .. } => turn = None,
                    _ => {}
                }
            }
            if is_last {
                return Ok(turn);
            }
        }
    }

    /// Waits for something short, and keeps the claim meanwhile.
    async fn keeping<T>(&self, work: impl Future<Output = T>) -> Result<T, WorkError> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                () = tokio::time::sleep(self.claim.lasts / 3) => self.app.queue.keep(self.claim).await?,
            }
        }
    }

    /// Stores what lists and searches show of the thread.
    async fn summarise(
        &self,
        owned: &OwnedThread,
        served: &ServedThread,
        thread: &mut Thread,
        before: &ModelUsage,
    ) -> Result<(), WorkError> {
        let mut replay = Replay::new(self.thread().as_str(), served.places.clone());
        let mut after = 0;
        loop {
            let page = self.app.log.events(self.thread(), after, PAGE).await.map_err(AgentError::from)?;
            after += page.len() as u64;
            page.iter().for_each(|stored| drop(replay.read(stored)));
            if page.len() < PAGE {
                break;
            }
        }
        let spent = thread.state().spent().clone();
        let messages = replay.messages();
        let mut text = String::new();
        for message in messages.iter().rev() {
            text.extend(message.text.chars().take(SEARCHED.saturating_sub(text.chars().count())));
            text.push('\n');
            if text.len() > SEARCHED {
                break;
            }
        }
        let waiting =
            replay.questions().iter().filter_map(|question| serde_json::to_value(question).ok()).collect();
        let summary = Summary {
            waiting,
            tokens: spent.total().total(),
            cost: self.app.agents.cost(&spent).map(|cost| cost.text),
            text,
            events: replay.last,
        };
        self.app.threads.summarise(self.thread(), &summary).await?;
        if owned.title.is_empty()
            && let Some(first) =
                messages.iter().find(|message| message.by.is_none() && !message.text.is_empty())
        {
            let line = first.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let title: String = line.trim().chars().take(MAX_TITLE).collect();
            self.app.threads.rename(&owned.owner, self.thread(), &title).await?;
        }
        self.note_usage(owned, before, &spent).await?;
        let used = Summarisation::window_use(thread, false).await;
        if let Ok(used) = used {
            self.app.note_window(self.thread(), replay.last, &used);
        }
        Ok(())
    }

    async fn note_usage(
        &self,
        owned: &OwnedThread,
        before: &ModelUsage,
        now: &ModelUsage,
    ) -> Result<(), WorkError> {
        let tokens = now.total().total().saturating_sub(before.total().total());
        let micros = |spent| self.app.agents.cost(spent).map_or(0, |cost| cost.micros);
        let cost = micros(now).saturating_sub(micros(before));
        if tokens > 0 || cost > 0 {
            self.app.threads.note_usage(&owned.owner, tokens, cost).await?;
        }
        Ok(())
    }
}
