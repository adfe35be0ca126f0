//! Workers: they claim threads with work, take in what was posted, and let the agent work until the thread rests.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use prowess_agent::agent::ReplyTo;
use prowess_agent::middleware::Summarisation;
use prowess_agent::model::ModelUsage;
use prowess_agent::queue::{Claim, Finished, Inbox, InboxEntry, Post, QueueError};
use prowess_agent::thread::ThreadError;
use prowess_agent::thread_state::NextStep;
use prowess_agent::{AgentError, Thread, ThreadId, ThreadUpdate, TurnStatus, Usage, Watcher};
use prowess_base::text::escaped_start;
use prowess_store::serve::{AccountError, OwnedThread, OwnedThreadError, OwnedThreads, Summary};
use tokio::sync::{Notify, Semaphore};
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
/// How much of a conversation the search of threads looks in, in bytes: half of it for the beginning, the rest for the end.
const SEARCHED: usize = OwnedThreads::SEARCHED_BYTES;
/// The longest title that is made from a message, in characters.
const MAX_TITLE: usize = 80;
/// How often a worker checks that the user may still go on.
const CHECK: Duration = Duration::from_secs(2);
/// How many times [`LOOK`] a thread of a busy user waits at most.
const MOST_LOOKS: u32 = 4;
/// How many bytes a token has, roughly.
const BYTES_PER_TOKEN: u64 = 4;
/// After what time a thread is looked at again whose user may not go on, if nobody wakes it before.
const FORBIDDEN: Duration = Duration::from_secs(3600);

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
    app.metrics.working.fetch_add(1, Ordering::Relaxed);
    let worked = AssertUnwindSafe(work_on(app, &claim, &live)).catch_unwind().await;
    app.metrics.working.fetch_sub(1, Ordering::Relaxed);
    let worked = worked.unwrap_or(Err(WorkError::Panicked));
    if !matches!(worked, Err(WorkError::Busy | WorkError::Leased)) {
        app.metrics.worked.fetch_add(1, Ordering::Relaxed);
        app.metrics.failed.fetch_add(worked.is_err().into(), Ordering::Relaxed);
    }
    match worked {
        Ok(()) => app.forget_failures(&thread),
        Err(error) => {
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
        // A process that died keeps its lease for some seconds.
        WorkError::Leased => LOOK,
        // A busy user waits, so that others need not.
        WorkError::Busy => LOOK * claim.attempt.min(MOST_LOOKS),
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
    let Some(_place) = app.working.take(&owned.owner, app.limits.turns_per_user, usize::MAX) else {
        return Err(WorkError::Busy);
    };
    Work { app, claim, owned: &owned, meter: Meter::new(live), live }.through().await
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
    /// Nothing until the user may go on. What was posted waits.
    Wait,
}

enum Turn {
    GoOn,
    Entry(InboxEntry),
    /// Ends the turn, for this reason.
    Stop(String),
}

/// How the work on a thread ended.
enum Worked {
    /// It rests, after so many posts.
    Rests(u64),
    /// Posts wait until the user may go on.
    Waits,
}

/// Why a user may not go on.
enum Forbidden {
    /// An administrator disabled the user.
    Disabled,
    /// A limit of the day.
    UsedUp(String),
}

impl Forbidden {
    fn reason(self) -> String {
        match self {
            Self::Disabled => "An administrator disabled this user.".to_owned(),
            Self::UsedUp(reason) => reason,
        }
    }
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
    /// Something was paid.
    paid: Notify,
    /// Whether the price of something that was paid is not known.
    is_unpriced: AtomicBool,
}

impl<'a> Meter<'a> {
    fn new(live: &'a LiveThread) -> Self {
        Self { live, spent: Mutex::default(), paid: Notify::new(), is_unpriced: AtomicBool::new(false) }
    }
}

impl Watcher for Meter<'_> {
    fn update(&self, update: ThreadUpdate<'_>) {
        if let ThreadUpdate::Stored(event) = update
            && let Some(spent) = event.spent()
        {
            *lock(&self.spent) += &spent;
            self.paid.notify_one();
        }
        self.live.update(update);
    }
}

struct Work<'a> {
    app: &'a App,
    claim: &'a Claim,
    owned: &'a OwnedThread,
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
        let worked = worked?;
        // A list that is not up to date is no reason to work again.
        if let Err(error) = summary {
            tracing::error!(thread = %self.thread(), %error, "Could not store what lists show of the thread");
        }
        closed?;
        match worked {
            Worked::Rests(posted) => {
                if self.app.queue.finish(self.claim, posted).await? == Finished::Queued {
                    self.app.posted.notify_one();
                }
            }
            Worked::Waits => {
                let delay = FORBIDDEN.min(until_midnight(SystemTime::now()));
                self.app.queue.give_back(self.claim, delay).await?;
            }
        }
        Ok(())
    }

    /// Works until the thread rests.
    async fn work_in(&self, thread: &mut Thread) -> Result<Worked, WorkError> {
        loop {
            let inbox = self.app.queue.inbox(self.claim).await?;
            let posted = inbox.posted;
            match self.next(thread, inbox).await? {
                Next::Rest => return Ok(Worked::Rests(posted)),
                Next::Wait => return Ok(Worked::Waits),
                Next::Drop(number) => self.app.queue.taken(self.claim, number).await?,
                Next::Turn(turn) => {
                    let taken = self.take(thread, turn).await;
                    // Before anybody asks whether the user may go on.
                    self.note_usage().await?;
                    taken?;
                }
            }
            // A server that stops leaves what waits to the next one.
            if *self.app.stop.borrow() && thread.state().next() == NextStep::Wait {
                return Ok(Worked::Rests(0));
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
        let (forbidden, step) = (self.forbidden().await?, thread.state().next());
        let is_in_turn = !matches!(step, NextStep::Wait | NextStep::Ask(_));
        match &forbidden {
            Some(forbidden) if is_in_turn => {
                let reason = match forbidden {
                    Forbidden::Disabled => Forbidden::Disabled.reason(),
                    Forbidden::UsedUp(reason) => reason.clone(),
                };
                return Ok(Next::Turn(Turn::Stop(reason)));
            }
            Some(Forbidden::Disabled) => return Ok(if entries.is_empty() { Next::Rest } else { Next::Wait }),
            _ => {}
        }
        let waiting = thread.waiting();
        for entry in &entries {
            if let Post::Reply { number, .. } = &entry.post {
                let is_asked = waiting.iter().any(|waiting| waiting.number == *number);
                if is_asked && forbidden.is_some() {
                    return Ok(Next::Wait);
                }
                return Ok(if is_asked {
                    Next::Turn(Turn::Entry(entry.clone()))
                } else {
                    Next::Drop(entry.number)
                });
            }
        }
        match step {
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
            if forbidden.is_some() {
                return Ok(Next::Wait);
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
            Turn::Stop(reason) => {
                self.keeping(thread.stop(reason, meter)).await??;
                return Ok(());
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
        if thread.state().next() == NextStep::CallModel {
            self.note_cut_off(thread).await;
        }
        self.live.restart();
        let meter = &self.meter;
        match end {
            End::Cancelled(number) => {
                self.keeping(thread.cancel(meter)).await??;
                self.app.queue.taken(self.claim, number).await?;
            }
            // It was about to begin. Its message waits.
            End::Stopped(_) if self.turn().await?.is_none() => {}
            End::Stopped(reason) => self.keeping(thread.stop(reason, meter)).await??,
        }
        Ok(())
    }

    /// Keeps the claim until the turn should end early. A queue that fails is an error only when the claim has ended.
    async fn look_for_end(&self, own: Option<u64>) -> Result<End, WorkError> {
        let (mut kept, mut checked) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = self.meter.paid.notified() => {}
            }
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
        let Some(turn) = self.turn().await? else { return Ok(None) };
        let waits = self.app.queue.waits(self.claim, &Post::Cancel { turn }.key()).await?;
        Ok(waits.filter(|number| Some(*number) != own))
    }

    /// Why the turn may not go on: after each payment, and from time to time.
    async fn forbids(&self, is_due: bool) -> Result<Option<String>, WorkError> {
        if !self.note_usage().await? && !is_due {
            return Ok(None);
        }
        Ok(self.forbidden().await?.map(Forbidden::reason))
    }

    /// Why the user may not go on.
    async fn forbidden(&self) -> Result<Option<Forbidden>, WorkError> {
        let user = self.app.accounts.user(&self.owned.owner).await?;
        let Some(user) = user.filter(|user| !user.is_disabled) else { return Ok(Some(Forbidden::Disabled)) };
        let is_unpriced = self.meter.is_unpriced.load(Ordering::Relaxed);
        Ok(self.app.used_up(&user, is_unpriced).await?.map(Forbidden::UsedUp))
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
        self.note_usage().await?;
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
        let used = Summarisation::window_use(thread, false).await;
        if let Ok(used) = used {
            self.app.note_window(self.thread(), summary.events, &used);
        }
        Ok(())
    }

    /// Estimates what a model call cost that is cut off: a provider bills it, and says nothing of it any more.
    async fn note_cut_off(&self, thread: &mut Thread) {
        let said = self.live.watch().0;
        let output = (said.text.len() + said.reasoning.len()) as u64 / BYTES_PER_TOKEN;
        let input = match Summarisation::window_use(thread, false).await {
            Ok(used) => used.total(),
            Err(error) => {
                tracing::warn!(thread = %self.thread(), %error, "Could not estimate a model call");
                0
            }
        };
        let model = self.app.model.clone();
        *lock(&self.meter.spent) += &ModelUsage::on(model, Usage::new(input, output));
    }

    /// Adds what was paid since the last time to what the user takes today. Returns whether there was anything.
    async fn note_usage(&self) -> Result<bool, WorkError> {
        let spent = std::mem::take(&mut *lock(&self.meter.spent));
        let tokens = spent.total().total();
        if tokens == 0 {
            return Ok(false);
        }
        let mut micros = 0;
        for (model, usage) in spent.iter().filter(|(_, usage)| usage.total() > 0) {
            let cost = |model: &str| self.app.agents.cost(&ModelUsage::on(model, usage));
            let known = cost(model);
            self.meter.is_unpriced.fetch_or(known.is_none(), Ordering::Relaxed);
            // Without a price, a model counts like the agent's own. That is better than nothing.
            micros += known.or_else(|| cost(&self.app.model)).map_or(0, |cost| cost.micros);
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
    let text = searched(replay.texts());
    let questions = replay.questions();
    let waiting = questions.iter().filter_map(|question| serde_json::to_value(question).ok()).collect();
    Summary { waiting, tokens, cost, text, events: replay.last }
}

/// What searches look in: the beginning and the end of the conversation.
fn searched(mut texts: impl DoubleEndedIterator<Item = String>) -> String {
    const HALF: usize = SEARCHED / 2;
    let mut first = String::new();
    while first.len() < HALF {
        let Some(text) = texts.next() else { return first };
        first.push_str(&text[..text.floor_char_boundary(HALF - first.len())]);
        first.push('\n');
    }
    let (mut last, mut room) = (Vec::new(), HALF);
    while room > 0
        && let Some(mut text) = texts.next_back()
    {
        text.truncate(text.floor_char_boundary(room));
        room = room.saturating_sub(text.len() + 1);
        last.push(text);
    }
    last.reverse();
    first + &last.join("\n")
}

/// The time until a day begins, in UTC.
fn until_midnight(now: SystemTime) -> Duration {
    const DAY: u64 = 24 * 3600;
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    Duration::from_secs(DAY - since % DAY)
}

/// What a person said first.
fn first_words(replay: &Replay) -> Option<String> {
    let mut said = replay.state.messages().iter().filter(|message| message.is_by_person());
    said.find_map(|message| Some(message.text()).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_looks_at_the_beginning_and_the_end() {
        let texts = |count: usize| (0..count).map(|number| format!("message {number} é"));
        assert_eq!(searched(texts(2)), "message 0 é\nmessage 1 é\n");
        let long = searched(texts(100_000));
        assert!(long.len() <= SEARCHED + 1, "{}", long.len());
        for found in ["message 0 ", "message 1000 ", "message 99999 ", "message 99000 "] {
            assert!(long.contains(found), "{found}");
        }
        assert!(!long.contains("message 50000 "));
        // In the order of the conversation.
        assert!(long.find("message 99000 ") < long.find("message 99999 "));
        assert!(searched(["é".repeat(SEARCHED), "é".repeat(SEARCHED)].into_iter()).len() <= SEARCHED + 1);
    }

    #[test]
    fn a_day_ends_at_midnight() {
        let at = |seconds| until_midnight(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).as_secs();
        assert_eq!((at(0), at(1), at(86_399), at(86_400)), (86_400, 86_399, 1, 86_400));
    }
}
