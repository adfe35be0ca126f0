//! Workers: they claim threads with work, take in what was posted, and let the agent work until the thread rests.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use prowess_agent::agent::ReplyTo;
use prowess_agent::middleware::Summarisation;
use prowess_agent::model::ModelUsage;
use prowess_agent::queue::{Claim, Finished, Inbox, InboxEntry, Post, QueueError};
use prowess_agent::thread::ThreadError;
use prowess_agent::thread_state::NextStep;
use prowess_agent::{AgentError, Thread, ThreadId, ThreadUpdate, TurnStatus, Watcher};
use prowess_base::text::escaped_start;
use prowess_store::serve::{AccountError, OwnedThread, OwnedThreadError, Summary, User};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::agents::BoxError;
use crate::app::{App, lock};
use crate::live::{LiveThread, Piece};
use crate::replays::ReadError;
use crate::view::Replay;

/// How often pieces of text are passed on.
const PIECES: Duration = Duration::from_millis(100);
/// How often a worker looks for posts and queued threads that nobody told it about: another process can post them.
const LOOK: Duration = Duration::from_millis(500);
/// How long a thread waits after its worker failed, times the number of failures.
const RETRY: Duration = Duration::from_secs(2);
/// After how many failures in a row the turn is ended. If that fails too, the thread rests.
const MAX_FAILURES: u32 = 5;
/// How long a thread waits whose inbox cannot be read.
const PARKED: Duration = Duration::from_secs(3600);
/// How much of a conversation the search of threads looks in, in characters.
const SEARCHED: usize = 16 << 10;
/// The longest title that is made from a message, in characters.
const MAX_TITLE: usize = 80;
/// How often a worker checks that the user may still go on.
const CHECK: Duration = Duration::from_secs(2);

/// Works until the server stops. Then it lets its threads rest for a while.
pub(crate) async fn run(app: Arc<App>) {
    let room = Arc::new(Semaphore::new(app.limits.turns));
    let name = format!("process {}", std::process::id());
    let mut stop = app.stop.subscribe();
    let mut working = JoinSet::new();
    loop {
        let place = tokio::select! {
            biased;
            _ = stop.wait_for(|stops| *stops) => break,
            place = Arc::clone(&room).acquire_owned() => place,
        };
        let Ok(place) = place else { break };
        while working.try_join_next().is_some() {}
        match app.queue.claim(&name, app.limits.claim).await {
            Ok(Some(claim)) => {
                let app = Arc::clone(&app);
                working.spawn(async move {
                    work(&app, claim).await;
                    drop(place);
                });
                continue;
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "Could not look for queued threads"),
        }
        drop(place);
        tokio::select! {
            () = app.posted.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
            _ = stop.wait_for(|stops| *stops) => break,
        }
    }
    let resting = async { while working.join_next().await.is_some() {} };
    if tokio::time::timeout(app.limits.drain, resting).await.is_err() {
        tracing::warn!("Some threads did not come to rest. They go on after the next start");
        working.shutdown().await;
    }
}

/// The title of a thread that begins with this message.
pub(crate) fn title_of(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(MAX_TITLE).collect()
}

/// Works on a claimed thread, and ends the claim.
async fn work(app: &App, claim: Claim) {
    let thread = claim.thread.clone();
    let live = app.live.of(&thread);
    live.tell(Piece::Status);
    app.metrics.worked.fetch_add(1, Ordering::Relaxed);
    app.metrics.working.fetch_add(1, Ordering::Relaxed);
    let worked = AssertUnwindSafe(work_on(app, &claim, &live)).catch_unwind().await;
    app.metrics.working.fetch_sub(1, Ordering::Relaxed);
    match worked.unwrap_or(Err(WorkError::Panicked)) {
        Ok(()) => app.forget_failures(&thread),
        Err(error) => {
            if !matches!(error, WorkError::Busy | WorkError::Leased) {
                app.metrics.failed.fetch_add(1, Ordering::Relaxed);
            }
            live.restart();
            give_up(app, &claim, &live, &error).await;
        }
    }
    live.tell(Piece::Status);
}

/// Ends a claim after the work broke off: another attempt follows, unless there were too many.
async fn give_up(app: &App, claim: &Claim, live: &LiveThread, error: &WorkError) {
    let thread = &claim.thread;
    let delay = match error {
        WorkError::Queue(QueueError::ClaimLost(_))
        | WorkError::Agent(AgentError::Thread(ThreadError::LeaseLost(_))) => {
            tracing::warn!(%thread, "Another worker took over the thread");
            return;
        }
        // A process that died keeps its lease for some seconds. A busy user waits, so that others need not.
        WorkError::Leased | WorkError::Busy => LOOK,
        error => {
            let failures = app.note_failure(thread);
            tracing::error!(%thread, %error, failures, "Could not work on the thread");
            if failures > MAX_FAILURES {
                live.tell(Piece::Notice(
                    "The server cannot continue this thread; its log says why. Say something to try again."
                        .to_owned(),
                ));
                app.forget_failures(thread);
                // The posts stay. The next one queues the thread again.
                let rests = match app.queue.inbox(claim).await {
                    Ok(inbox) => app.queue.finish(claim, inbox.posted).await.map(drop),
                    Err(_) => app.queue.give_back(claim, PARKED).await,
                };
                if let Err(error) = rests {
                    tracing::error!(%thread, %error, "Could not let the thread rest");
                }
                return;
            }
            live.tell(Piece::Notice(
                "The server could not continue this thread, and tries again.".to_owned(),
            ));
            RETRY * failures
        }
    };
    if let Err(error) = app.queue.give_back(claim, delay).await {
        tracing::error!(%thread, %error, "Could not give the thread back");
    }
}

async fn work_on(app: &App, claim: &Claim, live: &Arc<LiveThread>) -> Result<(), WorkError> {
    let Some(owned) = app.threads.owner_of(&claim.thread).await? else {
        // It was deleted.
        app.queue.forget(&claim.thread).await?;
        return Ok(());
    };
    // What a disabled user posted waits.
    let user = app.accounts.user(&owned.owner).await?;
    let Some(user) = user.filter(|user| !user.is_disabled) else {
        let inbox = app.queue.inbox(claim).await?;
        app.queue.finish(claim, inbox.posted).await?;
        return Ok(());
    };
    let Some(_place) = app.working.take(&owned.owner, app.limits.turns_per_user, usize::MAX) else {
        return Err(WorkError::Busy);
    };
    let meter = Meter { live, spent: Mutex::default() };
    Work { app, claim, owned: &owned, user: &user, meter, live }.through().await
}

/// Why the work on a thread broke off.
#[derive(Debug, thiserror::Error)]
enum WorkError {
    #[error("another process uses the thread")]
    Leased,
    #[error("other threads of the same user have all places")]
    Busy,
    #[error("the worker crashed")]
    Panicked,
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Program(#[from] BoxError),
    #[error(transparent)]
    Store(#[from] OwnedThreadError),
    #[error(transparent)]
    Account(#[from] AccountError),
}

impl From<ReadError> for WorkError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Thread(error) => Self::Agent(error.into()),
            ReadError::Program(error) => Self::Program(error),
        }
    }
}

impl WorkError {
    /// Whether it is about a database that may answer again soon.
    fn passes(&self) -> bool {
        matches!(
            self,
            Self::Queue(QueueError::Store { .. })
                | Self::Agent(AgentError::Thread(ThreadError::Store { .. }))
                | Self::Store(_)
                | Self::Account(_)
        )
    }
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

/// Why a turn ends early.
enum End {
    /// Somebody cancelled it, with the post of this number.
    Cancelled(u64),
    /// Its user may not go on, for this reason.
    Stopped(String),
}

/// Passes on what happens in a thread, and adds up what models are paid for it.
struct Meter<'a> {
    live: &'a LiveThread,
    spent: Mutex<ModelUsage>,
}

impl Watcher for Meter<'_> {
    fn update(&self, update: ThreadUpdate<'_>) {
        if let ThreadUpdate::Stored(event) = update
            && let Some(spent) = event.spent()
        {
            *lock(&self.spent) += &spent;
        }
        self.live.update(update);
    }
}

struct Work<'a> {
    app: &'a App,
    claim: &'a Claim,
    owned: &'a OwnedThread,
    user: &'a User,
    meter: Meter<'a>,
    live: &'a Arc<LiveThread>,
}

impl Work<'_> {
    fn thread(&self) -> &ThreadId {
        &self.claim.thread
    }

    async fn through(&self) -> Result<(), WorkError> {
        let owned = self.owned;
        // A thread that was deleted meanwhile must not be made again.
        self.app.queue.inbox(self.claim).await?;
        self.live.begin(self.app.look_at(owned, |replay| replay.ends).await?);
        let served = self.app.agents.thread(&owned.owner, self.thread()).await?;
        let opened = self.keeping(served.agent.open(self.thread().clone())).await?;
        let mut thread = match opened {
            Ok(thread) => thread,
            Err(AgentError::Thread(ThreadError::Leased { .. })) => return Err(WorkError::Leased),
            Err(error) => return Err(error.into()),
        };
        let worked = self.work_in(&mut thread).await;
        let summary = self.summarise(&mut thread).await;
        // A lease that cannot be released runs out.
        let closed = thread.close().await;
        let posted = worked?;
        // A list that is not up to date is no reason to work again.
        if let Err(error) = summary {
            tracing::error!(thread = %self.thread(), %error, "Could not store what lists show of the thread");
        }
        closed?;
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
            let is_current = self.turn().await? == Some(turn);
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
                let turn = self.turn().await?.unwrap_or_default();
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
            // It waits, like what a disabled user posted.
            if self.app.used_up(self.user).await?.is_some() {
                return Ok(Next::Rest);
            }
        }
        Ok(Next::Turn(Turn::Entry(entry)))
    }

    async fn take(&self, thread: &mut Thread, turn: Turn) -> Result<(), WorkError> {
        let (live, meter): (&LiveThread, _) = (self.live, &self.meter);
        let (number, post) = match turn {
            Turn::GoOn => {
                return self.drive(thread, None, async |thread| thread.go_on(meter).await).await;
            }
            Turn::Entry(entry) => (entry.number, entry.post),
        };
        match post {
            Post::Say { message } => {
                let say = async move |thread: &mut Thread| thread.say_all(vec![message], meter).await;
                self.drive(thread, Some(number), say).await?;
            }
            Post::Reply { number: asked, reply, .. } => {
                let waiting = thread.waiting().into_iter().find(|waiting| waiting.number == asked);
                if let Some(waiting) = waiting {
                    let reply = async move |thread: &mut Thread| {
                        thread.reply(ReplyTo::from(&waiting), reply, meter).await
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
        self.live.begin(self.app.look_at(self.owned, |replay| replay.ends).await?);
        let mut pieces = tokio::time::interval(PIECES);
        pieces.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = {
            let (working, looking) = (work(&mut *thread), self.look_for_end(own));
            tokio::pin!(working, looking);
            loop {
                tokio::select! {
                    biased;
                    done = &mut working => {
                        self.live.flush();
                        done?;
                        break None;
                    }
                    _ = pieces.tick() => self.live.flush(),
                    // The work goes on meanwhile: it may hold what the queue waits for.
                    found = &mut looking => break Some(found?),
                }
            }
        };
        let Some(end) = end else { return Ok(()) };
        self.live.restart();
        let meter = &self.meter;
        match end {
            End::Cancelled(number) => {
                self.keeping(thread.cancel(meter)).await??;
                self.app.queue.taken(self.claim, number).await?;
            }
            // It was about to begin. Its message waits.
            End::Stopped(_) if self.turn().await?.is_none() => return Err(WorkError::Busy),
            End::Stopped(reason) => self.keeping(thread.stop(reason, meter)).await??,
        }
        Ok(())
    }

    /// Keeps the claim until the turn should end early. A queue that fails is an error only when the claim has ended.
    async fn look_for_end(&self, own: Option<u64>) -> Result<End, WorkError> {
        let (mut kept, mut checked) = (Instant::now(), Instant::now());
        loop {
            tokio::time::sleep(LOOK).await;
            let looked = async {
                if kept.elapsed() > self.claim.lasts / 3 {
                    self.app.queue.keep(self.claim).await?;
                    kept = Instant::now();
                }
                if let Some(number) = self.cancels(own).await? {
                    return Ok(Some(End::Cancelled(number)));
                }
                let is_due = checked.elapsed() > CHECK;
                if is_due {
                    checked = Instant::now();
                }
                Ok(self.forbids(is_due).await?.map(End::Stopped))
            };
            match looked.await {
                Ok(Some(end)) => return Ok(end),
                Ok(None) => {}
                Err(error) if WorkError::passes(&error) && kept.elapsed() < self.claim.lasts => {
                    tracing::warn!(thread = %self.thread(), %error, "Could not look after the turn yet");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The post that ends the turn in progress, if there is one.
    async fn cancels(&self, own: Option<u64>) -> Result<Option<u64>, WorkError> {
        let inbox = self.app.queue.inbox(self.claim).await?;
        for entry in inbox.entries.iter().filter(|entry| Some(entry.number) != own) {
            if let Post::Cancel { turn } = entry.post
                && self.turn().await? == Some(turn)
            {
                return Ok(Some(entry.number));
            }
        }
        Ok(None)
    }

    /// Why the user may not go on: after each payment, and from time to time.
    async fn forbids(&self, is_due: bool) -> Result<Option<String>, WorkError> {
        if !self.note_usage().await? && !is_due {
            return Ok(None);
        }
        match self.app.accounts.user(&self.owned.owner).await? {
            Some(user) if !user.is_disabled => Ok(self.app.used_up(&user).await?),
            _ => Ok(Some("An administrator disabled this user.".to_owned())),
        }
    }

    /// The number of the event that began the turn in progress.
    async fn turn(&self) -> Result<Option<u64>, WorkError> {
        Ok(self.app.look_at(self.owned, |replay| replay.turn).await?)
    }

    /// Waits for something, and keeps the claim meanwhile.
    async fn keeping<T>(&self, work: impl Future<Output = T>) -> Result<T, WorkError> {
        let keep = async {
            let mut kept = Instant::now();
            loop {
                tokio::time::sleep(self.claim.lasts / 3).await;
                match self.app.queue.keep(self.claim).await {
                    Ok(()) => kept = Instant::now(),
                    Err(QueueError::Store { .. }) if kept.elapsed() < self.claim.lasts => {}
                    Err(error) => return WorkError::from(error),
                }
            }
        };
        tokio::select! {
            biased;
            done = work => Ok(done),
            error = keep => Err(error),
        }
    }

    /// Stores what lists and searches show of the thread.
    async fn summarise(&self, thread: &mut Thread) -> Result<(), WorkError> {
        let owned = self.owned;
        let spent = thread.state().spent();
        let cost = self.app.agents.cost(spent).map(|cost| cost.text);
        let tokens = spent.total().total();
        let look = |replay: &Replay| (summary_of(replay, tokens, cost), first_words(replay));
        let (summary, first) = self.app.look_at(owned, look).await?;
        self.app.threads.summarise(self.thread(), &summary).await?;
        if owned.title.is_empty()
            && let Some(first) = first
        {
            // A person may have renamed it while the agent worked.
            self.app.threads.give_title(&owned.owner, self.thread(), &title_of(&first)).await?;
        }
        self.note_usage().await?;
        let used = Summarisation::window_use(thread, false).await;
        if let Ok(used) = used {
            self.app.note_window(self.thread(), summary.events, &used);
        }
        Ok(())
    }

    /// Adds what was paid since the last time to what the user takes today. Returns whether there was anything.
    async fn note_usage(&self) -> Result<bool, WorkError> {
        let spent = std::mem::take(&mut *lock(&self.meter.spent));
        let tokens = spent.total().total();
        let micros = self.app.agents.cost(&spent).map_or(0, |cost| cost.micros);
        if tokens == 0 && micros == 0 {
            return Ok(false);
        }
        let noted = self.app.threads.note_usage(&self.owned.owner, tokens, micros).await;
        if noted.is_err() {
            *lock(&self.meter.spent) += &spent;
        }
        noted?;
        Ok(true)
    }
}

/// What lists and searches show of a thread.
fn summary_of(replay: &Replay, tokens: u64, cost: Option<String>) -> Summary {
    let mut text = String::new();
    for message in replay.messages().iter().rev() {
        text.extend(message.text.chars().take(SEARCHED.saturating_sub(text.chars().count())));
        text.push('\n');
        if text.len() > SEARCHED {
            break;
        }
    }
    let questions = replay.questions();
    let waiting = questions.iter().filter_map(|question| serde_json::to_value(question).ok()).collect();
    Summary { waiting, tokens, cost, text, events: replay.last }
}

/// What a person said first.
fn first_words(replay: &Replay) -> Option<String> {
    let messages = replay.messages();
    let said = messages.into_iter().find(|message| message.by.is_none() && !message.text.is_empty())?;
    Some(said.text)
}
