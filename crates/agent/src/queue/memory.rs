//! A queue in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    Claim, ClaimLimits, Failed, Finished, Inbox, InboxEntry, MAX_ATTEMPTS, MAX_VANISHED, Post, PostIf,
    Posted, Priority, QueueError, QueueNumbers, QueueState, QueuedThread, TurnQueue,
};
use crate::id::ThreadId;
use crate::thread::{Lease, ThreadError, ThreadStore};

/// The longest claim and the longest delay, as in the databases.
const MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);
/// How many events one look at a log reads.
const PAGE: usize = 1000;

/// When this time has passed.
fn after(time: Duration) -> Instant {
    Instant::now() + time.min(MAX_TIME)
}

/// A queue in memory: for tests, and for servers whose turns need not survive the process. It knows no users.
#[derive(Debug)]
pub struct MemoryQueue {
    line: Mutex<Line>,
    store: Arc<dyn ThreadStore>,
}

#[derive(Debug, Default)]
struct Line {
    threads: BTreeMap<ThreadId, InboxAndWork>,
    /// The place of the next thread. All threads are those of one user.
    end: i64,
    /// Threads that became dead letters in claims, until somebody takes them.
    died: Vec<ThreadId>,
}

#[derive(Debug, Default)]
struct InboxAndWork {
    entries: Vec<InboxEntry>,
    /// The names of all posts that the inbox has or had.
    keys: BTreeSet<String>,
    work: Option<Work>,
}

/// The work that a thread has to do.
#[derive(Clone, Debug)]
struct Work {
    /// When it may be claimed.
    since: Instant,
    queued: SystemTime,
    /// Its place in the line.
    place: i64,
    priority: Priority,
    posted: u64,
    attempts: u32,
    /// Attempts without progress in a row, and how many answers the log had when the last one began.
    failures: u32,
    answered: u64,
    problem: Option<String>,
    is_dead: bool,
    /// Who claimed it, and until when.
    held: Option<(String, Instant)>,
}

/// Which thread is to be claimed.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// One that can be claimed, if all workers have fewer than this.
    Next(u64),
    /// One by its name.
    Named,
}

impl Work {
    fn new(place: i64) -> Self {
        Self {
            since: Instant::now(),
            queued: SystemTime::now(),
            place,
            priority: Priority::Low,
            posted: 0,
            attempts: 0,
            failures: 0,
            answered: 0,
            problem: None,
            is_dead: false,
            held: None,
        }
    }

    fn is_held_by(&self, owner: &str) -> bool {
        self.held.as_ref().is_some_and(|(holder, _)| holder == owner)
    }

    /// The same work, queued again as if it had rested.
    fn again(&self, place: i64) -> Self {
        Self { posted: self.posted, priority: self.priority, ..Self::new(place) }
    }

    fn is_held(&self) -> bool {
        self.held.as_ref().is_some_and(|(_, until)| *until > Instant::now())
    }

    fn can_be_claimed(&self) -> bool {
        !self.is_dead && !self.is_held() && self.since <= Instant::now()
    }

    fn in_line(&self) -> (i64, SystemTime) {
        (self.place - Priority::PLACES * self.priority.rank(), self.queued)
    }

    fn revive(&mut self) {
        (self.is_dead, self.failures, self.since) = (false, 0, Instant::now());
    }

    fn state(&self) -> QueueState {
        match () {
            () if self.is_dead => QueueState::Dead,
            () if self.is_held() => QueueState::Claimed,
            () => QueueState::Queued,
        }
    }
}

impl Line {
    /// Queues a thread, at the end of the line.
    fn queue(&mut self, thread: &ThreadId, priority: Priority) -> &mut Work {
        let (thread, end) = (self.threads.entry(thread.clone()).or_default(), &mut self.end);
        let work = thread.work.get_or_insert_with(|| Work::new(next_place(end)));
        work.posted += 1;
        work.priority = work.priority.max(priority);
        work.since = work.since.min(Instant::now());
        work
    }

    fn works(&self) -> impl Iterator<Item = (&ThreadId, &Work)> {
        self.threads.iter().filter_map(|(id, thread)| Some((id, thread.work.as_ref()?)))
    }

    /// Whether workers have as many threads as they may.
    fn is_full(&self, in_all: u64) -> bool {
        self.works().filter(|(_, work)| work.is_held()).count() as u64 >= in_all
    }

    fn work(&mut self, thread: &ThreadId) -> Option<&mut Work> {
        self.threads.get_mut(thread)?.work.as_mut()
    }
}

fn next_place(end: &mut i64) -> i64 {
    *end += 1;
    *end
}

impl MemoryQueue {
    /// A queue for the threads of this store.
    pub fn new(store: Arc<dyn ThreadStore>) -> Self {
        Self { line: Mutex::default(), store }
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the work of a claim, which may move to the end of the line.
    fn with<T>(
        &self,
        claim: &Claim,
        act: impl FnOnce(&mut InboxAndWork, &mut i64) -> T,
    ) -> Result<T, QueueError> {
        let mut line = self.lock();
        let Line { threads, end, .. } = &mut *line;
        let is_held = |thread: &&mut InboxAndWork| {
            let held = thread.work.as_ref().and_then(|work| work.held.as_ref());
            held.is_some_and(|(owner, _)| *owner == claim.lease.owner)
        };
        let thread = threads.get_mut(claim.thread()).filter(is_held);
        thread.map(|thread| act(thread, end)).ok_or_else(|| QueueError::ClaimLost(claim.thread().clone()))
    }

    /// Ends a claim and its lease.
    async fn end<T>(
        &self,
        claim: &Claim,
        act: impl FnOnce(&mut InboxAndWork, &mut i64) -> T,
    ) -> Result<T, QueueError> {
        let done = self.with(claim, act)?;
        self.store.release(&claim.lease).await.map_err(|error| failed("release a thread", error))?;
        Ok(done)
    }

    /// Holds a thread and takes its lease. `None` if somebody else has it, or it cannot be claimed any more.
    async fn hold(
        &self,
        thread: &ThreadId,
        worker: &str,
        lasts: Duration,
        wanted: Wanted,
    ) -> Result<Option<Claim>, QueueError> {
        let owner = format!("{worker}/{}", Uuid::now_v7().simple());
        let lost = {
            let mut line = self.lock();
            // Others may have claimed since somebody looked.
            if matches!(wanted, Wanted::Next(in_all) if line.is_full(in_all)) {
                return Ok(None);
            }
            let can = |work: &&mut Work| match wanted {
                Wanted::Next(_) => work.can_be_claimed(),
                Wanted::Named => !work.is_held(),
            };
            let Some(work) = line.work(thread).filter(can) else { return Ok(None) };
            work.held.replace((owner.clone(), after(lasts)))
        };
        let taken = self.take(thread, &owner, lasts, lost.is_some(), wanted).await;
        if !matches!(taken, Ok(Some(_)))
            && let Some(work) = self.lock().work(thread).filter(|work| work.is_held_by(&owner))
        {
            work.held = None;
        }
        taken
    }

    async fn take(
        &self,
        thread: &ThreadId,
        owner: &str,
        lasts: Duration,
        takes_over: bool,
        wanted: Wanted,
    ) -> Result<Option<Claim>, QueueError> {
        let lease = match self.store.lease(thread, owner, lasts.min(MAX_TIME)).await {
            Ok(lease) => lease,
            Err(ThreadError::Leased { .. }) => return Ok(None),
            Err(error) => return Err(failed("lease a thread", error)),
        };
        let claim = Claim::new(Lease { lasts, ..lease }, 0, takes_over);
        let begun = match self.answered(thread).await {
            Ok(answered) => self.begin(&claim, answered, wanted),
            Err(error) => Err(error),
        };
        if let Ok(Some(attempt)) = begun {
            return Ok(Some(Claim { attempt, ..claim }));
        }
        let released = self.store.release(&claim.lease).await;
        begun?;
        released.map(|()| None).map_err(|error| failed("release a thread", error))
    }

    /// Counts the attempt of a new claim, and returns its number. `None` if there were too many: the thread is a dead letter now.
    fn begin(&self, claim: &Claim, answered: u64, wanted: Wanted) -> Result<Option<u32>, QueueError> {
        let attempt = self.with(claim, |thread, _| {
            let Some(work) = &mut thread.work else { return Some(0) };
            let has_progressed = answered > work.answered;
            let is_next = matches!(wanted, Wanted::Next(_));
            if is_next && claim.takes_over && work.failures >= MAX_VANISHED && !has_progressed {
                work.is_dead = true;
                work.problem = Some(super::WORKER_VANISHED.to_owned());
                return None;
            }
            work.attempts = work.attempts.saturating_add(1);
            work.failures = if has_progressed { 1 } else { work.failures.saturating_add(1) };
            work.answered = answered;
            Some(work.attempts)
        })?;
        if attempt.is_none() {
            self.lock().died.push(claim.thread().clone());
        }
        Ok(attempt)
    }

    /// How many answers the log of a thread has.
    async fn answered(&self, thread: &ThreadId) -> Result<u64, QueueError> {
        let (mut answered, mut last) = (0, 0);
        loop {
            let page = match self.store.events(thread, last, PAGE).await {
                Err(ThreadError::NotFound(_)) => Vec::new(),
                page => page.map_err(|error| failed("read a thread", error))?,
            };
            answered += page.iter().filter(|stored| stored.event.is_answer()).count() as u64;
            match page.last() {
                Some(stored) if page.len() == PAGE => last = stored.number,
                _ => return Ok(answered),
            }
        }
    }
}

fn failed(action: &str, error: ThreadError) -> QueueError {
    QueueError::Store { action: format!("could not {action}"), source: Box::new(error) }
}

#[async_trait]
impl TurnQueue for MemoryQueue {
    async fn post_if(&self, thread: &ThreadId, post: &Post, condition: PostIf) -> Result<Posted, QueueError> {
        let mut line = self.lock();
        let known = line.threads.entry(thread.clone()).or_default();
        if known.keys.contains(&post.key()) {
            return Ok(Posted::Known);
        }
        let holds = match condition {
            PostIf::Always => true,
            PostIf::Rests => known.work.is_none(),
            PostIf::FewerWait(most) => (known.entries.len() as u64) < most,
        };
        if !holds {
            return Ok(Posted::Refused);
        }
        known.keys.insert(post.key());
        let number = known.keys.len() as u64;
        known.entries.push(InboxEntry::new(number, post.clone()));
        let work = line.queue(thread, post.priority());
        if post.revives() {
            work.revive();
        }
        Ok(Posted::New)
    }

    async fn wake(&self, thread: &ThreadId) -> Result<(), QueueError> {
        self.lock().queue(thread, Priority::Normal);
        Ok(())
    }

    async fn claim(
        &self,
        worker: &str,
        lasts: Duration,
        limits: ClaimLimits,
    ) -> Result<Option<Claim>, QueueError> {
        let next = {
            let line = self.lock();
            if line.is_full(limits.in_all) {
                return Ok(None);
            }
            let mut waits: Vec<_> = line.works().filter(|(_, work)| work.can_be_claimed()).collect();
            waits.sort_by_key(|(_, work)| work.in_line());
            waits.into_iter().map(|(id, _)| id.clone()).collect::<Vec<_>>()
        };
        for thread in next {
            if let Some(claim) = self.hold(&thread, worker, lasts, Wanted::Next(limits.in_all)).await? {
                return Ok(Some(claim));
            }
        }
        Ok(None)
    }

    fn take_dead_letters(&self) -> Vec<ThreadId> {
        std::mem::take(&mut self.lock().died)
    }

    async fn claim_thread(
        &self,
        thread: &ThreadId,
        worker: &str,
        lasts: Duration,
    ) -> Result<Option<Claim>, QueueError> {
        {
            let mut line = self.lock();
            if line.work(thread).is_none() {
                line.queue(thread, Priority::Low).posted = 0;
            }
        }
        self.hold(thread, worker, lasts, Wanted::Named).await
    }

    async fn keep(&self, claim: &Claim) -> Result<(), QueueError> {
        self.with(claim, |thread, _| {
            if let Some((_, until)) = thread.work.as_mut().and_then(|work| work.held.as_mut()) {
                *until = after(claim.lease.lasts);
            }
        })?;
        let kept =
            self.store.lease(claim.thread(), &claim.lease.owner, claim.lease.lasts.min(MAX_TIME)).await;
        kept.map(drop).map_err(|error| failed("keep a thread", error))
    }

    async fn inbox(&self, claim: &Claim) -> Result<Inbox, QueueError> {
        self.with(claim, |thread, _| {
            Inbox::new(thread.entries.clone(), thread.work.as_ref().map_or(0, |work| work.posted))
        })
    }

    async fn waits(&self, claim: &Claim, key: &str) -> Result<Option<u64>, QueueError> {
        self.with(claim, |thread, _| {
            thread.entries.iter().find(|entry| entry.post.key() == key).map(|entry| entry.number)
        })
    }

    async fn waiting(&self, thread: &ThreadId) -> Result<Vec<InboxEntry>, QueueError> {
        Ok(self.lock().threads.get(thread).map(|thread| thread.entries.clone()).unwrap_or_default())
    }

    async fn taken(&self, claim: &Claim, number: u64) -> Result<(), QueueError> {
        self.with(claim, |thread, _| thread.entries.retain(|entry| entry.number != number))
    }

    async fn finish(&self, claim: &Claim, posted: u64) -> Result<Finished, QueueError> {
        self.end(claim, |thread, end| {
            let Some(work) = thread.work.as_mut() else { return Finished::Rests };
            if work.posted == posted {
                thread.work = None;
                return Finished::Rests;
            }
            *work = work.again(next_place(end));
            Finished::Queued
        })
        .await
    }

    async fn give_back(&self, claim: &Claim, delay: Duration) -> Result<(), QueueError> {
        self.end(claim, |thread, _| {
            if let Some(work) = &mut thread.work {
                (work.held, work.since) = (None, after(delay));
                work.failures = work.failures.saturating_sub(1);
            }
        })
        .await
    }

    async fn postpone(&self, claim: &Claim, posted: u64, delay: Duration) -> Result<Finished, QueueError> {
        self.end(claim, |thread, end| {
            let Some(work) = thread.work.as_mut() else { return Finished::Rests };
            if work.posted == posted {
                (work.held, work.since) = (None, after(delay));
                work.failures = work.failures.saturating_sub(1);
                return Finished::Rests;
            }
            *work = work.again(next_place(end));
            Finished::Queued
        })
        .await
    }

    async fn fail(&self, claim: &Claim, delay: Duration, problem: &str) -> Result<Failed, QueueError> {
        let answered = self.answered(claim.thread()).await?;
        self.end(claim, |thread, _| {
            let Some(work) = &mut thread.work else { return Failed::Again };
            (work.held, work.since, work.problem) = (None, after(delay), Some(problem.to_owned()));
            if answered > work.answered {
                work.failures = 0;
            }
            work.is_dead = work.failures >= MAX_ATTEMPTS;
            if work.is_dead { Failed::Dead } else { Failed::Again }
        })
        .await
    }

    async fn progressed(&self, claim: &Claim) -> Result<(), QueueError> {
        self.with(claim, |thread, _| {
            if let Some(work) = &mut thread.work {
                work.failures = 0;
            }
        })
    }

    async fn retry(&self, thread: &ThreadId) -> Result<bool, QueueError> {
        let mut line = self.lock();
        let dead = line.work(thread).filter(|work| work.is_dead && !work.is_held());
        Ok(dead.map(Work::revive).is_some())
    }

    async fn drop_work(&self, thread: &ThreadId) -> Result<bool, QueueError> {
        {
            let mut line = self.lock();
            let is_dead = |work: &Work| work.is_dead && !work.is_held();
            let dead = line.threads.get_mut(thread);
            let dead = dead.filter(|thread| thread.work.as_ref().is_some_and(is_dead));
            let Some(dead) = dead else { return Ok(false) };
            dead.entries.clear();
        }
        let end = Post::End { id: Uuid::now_v7().simple().to_string() };
        self.post(thread, &end).await.map(|_| true)
    }

    async fn list(&self, most: usize) -> Result<Vec<QueuedThread>, QueueError> {
        let line = self.lock();
        let mut all: Vec<(i64, QueuedThread)> = Vec::new();
        for (id, work) in line.works() {
            let wait = work.since.checked_duration_since(Instant::now());
            let not_before = wait.filter(|_| !work.is_held()).map(|wait| SystemTime::now() + wait);
            let listed = QueuedThread {
                worker: work.held.as_ref().filter(|_| work.is_held()).map(|(owner, _)| owner.clone()),
                not_before,
                attempts: work.attempts,
                failures: work.failures.saturating_sub(work.is_held().into()),
                problem: work.problem.clone(),
                ..QueuedThread::new(id.clone(), work.state(), work.queued)
            };
            all.push((work.place, listed));
        }
        all.sort_by_key(|(place, listed)| (listed.state != QueueState::Dead, listed.since, *place));
        Ok(all.into_iter().take(most).map(|(_, listed)| listed).collect())
    }

    async fn numbers(&self, limits: ClaimLimits) -> Result<QueueNumbers, QueueError> {
        let line = self.lock();
        let (mut numbers, is_full) = (QueueNumbers::new(), line.is_full(limits.in_all));
        for (_, work) in line.works() {
            match work.state() {
                QueueState::Dead => numbers.dead += 1,
                QueueState::Claimed => numbers.working += 1,
                _ if work.can_be_claimed() && !is_full => {
                    numbers.queued += 1;
                    numbers.age = numbers.age.max(work.since.elapsed());
                }
                _ => numbers.waiting += 1,
            }
        }
        Ok(numbers)
    }

    async fn state(&self, thread: &ThreadId) -> Result<QueueState, QueueError> {
        Ok(self.lock().work(thread).map_or(QueueState::Rests, |work| work.state()))
    }

    async fn forget(&self, thread: &ThreadId) -> Result<(), QueueError> {
        self.lock().threads.remove(thread);
        Ok(())
    }
}
