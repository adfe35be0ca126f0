//! The work on one thread: takes in what was posted, and lets the agent work until the thread rests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use prowess_agent::agent::ReplyTo;
use prowess_agent::middleware::{Summarisation, possible_sub_agents};
use prowess_agent::queue::{Claim, Finished, Inbox, InboxEntry, Post, QueueError};
use prowess_agent::thread_state::NextStep;
use prowess_agent::{AgentError, Message, Thread, ThreadId, TurnStatus};
use prowess_base::text::escaped_start;
use prowess_store::serve::{OwnedThread, WorkerLook};
use tokio::time::{Instant, MissedTickBehavior};

use super::meter::{Meter, Payment};
use super::summary::{first_words, summary_of, title_of};
use super::{LOOK, WorkError};
use crate::app::{App, lock};
use crate::live::{LiveThread, Piece};
use crate::view::Replay;

/// How often pieces of text are passed on.
const PIECES: Duration = Duration::from_millis(100);
/// How often a worker looks for the end of a turn if signals of other processes arrive.
const CALM_TURN: Duration = Duration::from_secs(3);
/// How often a worker checks that the user may still go on.
const CHECK: Duration = Duration::from_secs(2);
/// How many events one request to the store reads.
const PAGE: usize = 200;
/// After what time a thread is looked at again whose user may not go on, if nobody wakes it before.
const FORBIDDEN: Duration = Duration::from_secs(3600);

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
    /// Posts wait until the user may go on, after so many posts.
    Waits(u64),
}

/// Why a user may not go on.
enum Forbidden {
    /// An administrator disabled the user.
    Disabled,
    /// A limit of the day.
    UsedUp(String),
}

impl Forbidden {
    fn reason(&self) -> String {
        match self {
            Self::Disabled => "An administrator disabled this user.".to_owned(),
            Self::UsedUp(reason) => reason.clone(),
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

/// The work on a claimed thread.
pub(super) struct Work<'a> {
    app: &'a App,
    claim: &'a Claim,
    /// When the claim was last renewed.
    kept: Mutex<Instant>,
    owned: &'a OwnedThread,
    /// Whether the user has a limit of the day.
    has_limits: AtomicBool,
    meter: Arc<Meter>,
    live: &'a Arc<LiveThread>,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        app: &'a App,
        claim: &'a Claim,
        owned: &'a OwnedThread,
        live: &'a Arc<LiveThread>,
    ) -> Self {
        let (kept, meter) = (Mutex::new(Instant::now()), Meter::new(live, &owned.owner));
        Self { app, claim, kept, owned, has_limits: AtomicBool::new(true), meter, live }
    }

    /// How often it looks for the wish to cancel if nobody tells of it.
    fn look_every(&self) -> Duration {
        if self.app.relay.hears() { CALM_TURN } else { LOOK }
    }

    fn thread(&self) -> &ThreadId {
        self.claim.thread()
    }

    /// Works until the thread rests, and ends the claim.
    pub(super) async fn through(&self) -> Result<(), WorkError> {
        let owned = self.owned;
        let seen = self.app.look_at(owned, |replay| (replay.ends, replay.last, replay.turn));
        let (ends, events, turn) = self.keeping(seen).await??;
        self.live.begin(ends);
        self.meter.begin(events, turn);
        let served = self.keeping(self.app.agents.thread(&owned.owner, self.thread())).await??;
        let mut thread = self.keeping(served.agent.open_leased(self.claim.lease.clone())).await??;
        let worked = async {
            if self.claim.attempt > 1 {
                self.keeping(self.note_missed()).await??;
            }
            self.work_in(&mut thread).await
        };
        let worked = worked.await;
        let summary = self.keeping(self.summarise(&mut thread)).await.and_then(|stored| stored);
        let closed = thread.close().await;
        // Whoever has the thread next needs its directories.
        drop(served);
        let worked = worked?;
        // A list that is not up to date is no reason to work again.
        if let Err(error) = summary {
            tracing::error!(thread = %self.thread(), %error, "Could not store what lists show of the thread");
        }
        closed?;
        match worked {
            Worked::Rests(posted) => {
                if self.app.queue.finish(self.claim, posted).await? == Finished::Queued {
                    self.app.tell_posted(self.thread());
                }
            }
            Worked::Waits(posted) => {
                let delay = FORBIDDEN.min(until_midnight(SystemTime::now()));
                if self.app.queue.postpone(self.claim, posted, delay).await? == Finished::Queued {
                    self.app.tell_posted(self.thread());
                }
            }
        }
        Ok(())
    }

    /// Works until the thread rests.
    async fn work_in(&self, thread: &mut Thread) -> Result<Worked, WorkError> {
        let mut known = None;
        loop {
            // Turns that are too short to renew it may come one after another.
            if self.until_due().is_zero() {
                self.keep().await?;
            }
            let inbox = match known.take() {
                Some(inbox) => inbox,
                None => self.app.queue.inbox(self.claim).await?,
            };
            let posted = inbox.posted;
            match self.next(thread, inbox).await? {
                Next::Rest => return Ok(Worked::Rests(posted)),
                Next::Wait => return Ok(Worked::Waits(posted)),
                Next::Drop(number) => {
                    known = Some(self.app.queue.taken_then_inbox(self.claim, number).await?)
                }
                Next::Turn(turn) => {
                    let taken = self.take(thread, turn).await;
                    // Before anybody asks whether the user may go on.
                    self.note_usage().await?;
                    known = taken?;
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
        let cancel = entries.iter().find_map(|entry| match entry.post {
            Post::Cancel { turn } => Some((entry, turn)),
            _ => None,
        });
        if let Some((entry, turn)) = cancel {
            let is_current = self.meter.turn() == Some(turn);
            return Ok(if is_current {
                Next::Turn(Turn::Entry(entry.clone()))
            } else {
                Next::Drop(entry.number)
            });
        }
        let end = entries.iter().find(|entry| matches!(entry.post, Post::End { .. }));
        if let Some(entry) = end {
            return Ok(match self.meter.turn() {
                Some(_) => Next::Turn(Turn::Entry(entry.clone())),
                None => Next::Drop(entry.number),
            });
        }
        let step = thread.state().next();
        if entries.is_empty() && matches!(step, NextStep::Wait | NextStep::Ask(_)) {
            return Ok(Next::Rest);
        }
        let forbidden = self.forbidden().await?;
        let is_in_turn = !matches!(step, NextStep::Wait | NextStep::Ask(_));
        match &forbidden {
            Some(forbidden) if is_in_turn => return Ok(Next::Turn(Turn::Stop(forbidden.reason()))),
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
            _ => return Ok(Next::Turn(Turn::GoOn)),
        }
        let Some(entry) = entries.into_iter().next() else { return Ok(Next::Rest) };
        if let Post::Say { message, .. } = &entry.post {
            if has(thread, message) {
                return Ok(Next::Drop(entry.number));
            }
            if forbidden.is_some() {
                return Ok(Next::Wait);
            }
        }
        Ok(Next::Turn(Turn::Entry(entry)))
    }

    /// Takes in a post, or lets the turn go on. Returns the inbox if it was read after that.
    async fn take(&self, thread: &mut Thread, turn: Turn) -> Result<Option<Inbox>, WorkError> {
        let (live, meter): (&LiveThread, &Meter) = (self.live, &self.meter);
        let (number, post) = match turn {
            Turn::GoOn => {
                self.drive(thread, None, async |thread| thread.go_on(meter).await).await?;
                return Ok(None);
            }
            Turn::Stop(reason) => {
                self.keeping(thread.stop(reason, meter)).await??;
                return Ok(None);
            }
            Turn::Entry(entry) => (entry.number, entry.post),
        };
        match post {
            Post::Say { message, .. } => {
                let said = message.clone();
                let say = async move |thread: &mut Thread| thread.say_all(vec![said], meter).await;
                self.drive(thread, Some(number), say).await?;
                // If its turn ended before it began, it waits.
                if !has(thread, &message) {
                    return Ok(None);
                }
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
            Post::Cancel { .. } | Post::End { .. } => {
                self.keeping(thread.cancel(meter)).await??;
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
        Ok(Some(self.app.queue.taken_then_inbox(self.claim, number).await?))
    }

    /// Lets the agent work, passes pieces on, keeps the claim, and looks for the wish to cancel.
    async fn drive<F>(&self, thread: &mut Thread, own: Option<u64>, work: F) -> Result<(), WorkError>
    where
        F: AsyncFnOnce(&mut Thread) -> Result<TurnStatus, AgentError>,
    {
        self.live.restart();
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
        self.keeping(thread.settle()).await??;
        self.live.restart();
        // It may not have begun yet, or have ended just now.
        let (meter, is_in_turn) = (&*self.meter, thread.state().next() != NextStep::Wait);
        match end {
            End::Cancelled(number) => {
                if is_in_turn {
                    self.keeping(thread.cancel(meter)).await??;
                }
                self.app.queue.taken(self.claim, number).await?;
            }
            End::Stopped(reason) if is_in_turn => self.keeping(thread.stop(reason, meter)).await??,
            End::Stopped(_) => {}
        }
        Ok(())
    }

    /// Keeps the claim until the turn should end early. A queue that fails is an error only when the claim has ended.
    async fn look_for_end(&self, own: Option<u64>) -> Result<End, WorkError> {
        let mut checked = Instant::now();
        let mut next = checked + self.look_every();
        loop {
            let looked = async {
                tokio::select! {
                    () = tokio::time::sleep_until(next) => {}
                    // Only limits can end a turn because of a payment.
                    () = self.meter.paid() => if !self.has_limits.load(Ordering::Relaxed) {
                        return self.note_paid().await.map(|_| None);
                    },
                    () = self.live.posted.notified() => {}
                }
                next = Instant::now() + self.look_every();
                let is_due = checked.elapsed() > CHECK;
                if is_due {
                    checked = Instant::now();
                }
                self.look(own, is_due).await
            };
            // A look can take long, too.
            match self.keeping(looked).await.and_then(|found| found) {
                Ok(Some(end)) => return Ok(end),
                Ok(None) => {}
                Err(error) if WorkError::passes(&error) && self.is_claimed() => {
                    tracing::warn!(thread = %self.thread(), %error, "Could not look after the turn yet");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Why the turn should end: somebody cancelled it, or its user may not go on. The latter is checked after each payment, and if it
    /// is due.
    async fn look(&self, own: Option<u64>, is_due: bool) -> Result<Option<End>, WorkError> {
        let paid = self.note_paid().await?;
        let cancel = Post::Cancel { turn: self.meter.turn().unwrap_or_default() }.key();
        let look = self.app.threads.look(&self.owned.owner, self.claim, &cancel).await?;
        if !look.is_claimed {
            return Err(QueueError::ClaimLost(self.thread().clone()).into());
        }
        if let Some(number) = look.waits.filter(|number| Some(*number) != own) {
            return Ok(Some(End::Cancelled(number)));
        }
        if !paid && !is_due {
            return Ok(None);
        }
        Ok(self.forbids(&look).map(|forbidden| End::Stopped(forbidden.reason())))
    }

    /// Notes what was paid, and progress of sub-agents. Returns whether anything was paid.
    async fn note_paid(&self) -> Result<bool, WorkError> {
        let paid = self.note_usage().await?;
        if self.meter.take_progress()
            && let Err(error) = self.app.queue.progressed(self.claim).await
        {
            self.meter.note_progress();
            return Err(error.into());
        }
        Ok(paid)
    }

    /// Why the user may not go on.
    async fn forbidden(&self) -> Result<Option<Forbidden>, WorkError> {
        let look = self.app.threads.look(&self.owned.owner, self.claim, "").await?;
        Ok(self.forbids(&look))
    }

    fn forbids(&self, look: &WorkerLook) -> Option<Forbidden> {
        let limits = look.user.as_ref().map(|user| self.app.daily_limits(user));
        let has_limits =
            limits.is_some_and(|limits| limits.tokens.is_some() || limits.micro_dollars.is_some());
        self.has_limits.store(has_limits, Ordering::Relaxed);
        let Some(user) = look.user.as_ref().filter(|user| !user.is_disabled) else {
            return Some(Forbidden::Disabled);
        };
        let today = look.usage.today;
        self.app.used_up_by(user, today, self.meter.is_unpriced()).map(Forbidden::UsedUp)
    }

    /// Renews the claim.
    async fn keep(&self) -> Result<(), QueueError> {
        let begun = Instant::now();
        self.app.queue.keep(self.claim).await?;
        *lock(&self.kept) = begun;
        Ok(())
    }

    /// The time until the claim should be renewed.
    fn until_due(&self) -> Duration {
        (self.claim.lease.lasts / 3).saturating_sub(lock(&self.kept).elapsed())
    }

    /// Whether the claim has not run out.
    fn is_claimed(&self) -> bool {
        lock(&self.kept).elapsed() < self.claim.lease.lasts
    }

    /// Waits for something, and keeps the claim meanwhile.
    async fn keeping<T>(&self, work: impl Future<Output = T>) -> Result<T, WorkError> {
        let keep = async {
            loop {
                tokio::time::sleep(self.until_due()).await;
                match self.keep().await {
                    Ok(()) => {}
                    Err(QueueError::Store { .. }) if self.is_claimed() => tokio::time::sleep(LOOK).await,
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
        let (mut summary, first) = self.app.look_at(owned, look).await?;
        let used = Summarisation::window_use(thread, false).await.ok();
        summary.window_use = used.and_then(|used| serde_json::to_value(used).ok());
        self.app.threads.summarise(self.thread(), &summary).await?;
        if owned.title.is_empty()
            && let Some(first) = first
        {
            // A person may have renamed it while the agent worked.
            self.app.threads.give_title(&owned.owner, self.thread(), &title_of(&first)).await?;
        }
        Ok(())
    }

    /// Notes what models were paid for events that a worker stored before it died: of the thread, and of its sub-agents.
    async fn note_missed(&self) -> Result<(), WorkError> {
        let log = self.app.log_of(&self.owned.owner);
        let mut threads = vec![self.thread().clone()];
        while let Some(thread) = threads.pop() {
            let counted = self.app.threads.counted(&self.owned.owner, &thread).await?;
            let Some(counted) = counted else { continue };
            // The sub-agents of the last response that is counted may have gone on.
            let mut after = counted.saturating_sub(1);
            loop {
                let page = log.events(&thread, after, PAGE).await.map_err(AgentError::from)?;
                for stored in &page {
                    after = stored.number;
                    threads.extend(possible_sub_agents(&thread, &stored.event));
                    if stored.number > counted
                        && let Some(spent) = stored.event.own_spent()
                    {
                        if thread != *self.thread() {
                            self.meter.note_progress();
                        }
                        let event = Some((thread.clone(), stored.number));
                        self.meter.pay(Payment { event, spent: spent.into_owned() });
                    }
                }
                if page.len() < PAGE {
                    break;
                }
            }
        }
        self.note_usage().await.map(drop)
    }

    /// Adds what was paid since the last time to what the user takes today. Returns whether there was anything.
    async fn note_usage(&self) -> Result<bool, WorkError> {
        Ok(self.meter.store(self.app).await?)
    }
}

/// Whether the thread has the message.
fn has(thread: &Thread, message: &Message) -> bool {
    thread.state().messages().iter().any(|known| known.id == message.id)
}

/// The time until a day begins, in UTC.
fn until_midnight(now: SystemTime) -> Duration {
    const DAY: u64 = 24 * 3600;
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    Duration::from_secs(DAY - since % DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_ends_at_midnight() {
        let at = |seconds| until_midnight(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).as_secs();
        assert_eq!((at(0), at(1), at(86_399), at(86_400)), (86_400, 86_399, 1, 86_400));
    }
}
