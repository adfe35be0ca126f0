//! A queue in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Claim, Finished, Inbox, InboxEntry, Post, PostIf, Posted, QueueError, QueueState, TurnQueue};
use crate::id::ThreadId;

/// The longest claim and the longest delay, as in the databases.
const MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// When this time has passed.
fn after(time: Duration) -> Instant {
    Instant::now() + time.min(MAX_TIME)
}

/// A queue in memory: for tests, and for servers whose turns need not survive the process.
#[derive(Debug, Default)]
pub struct MemoryQueue(Mutex<BTreeMap<ThreadId, QueuedThread>>);

#[derive(Debug, Default)]
struct QueuedThread {
    entries: Vec<InboxEntry>,
    /// The names of all posts that the inbox has or had.
    keys: BTreeSet<String>,
    work: Option<Work>,
}

/// The work that a thread has to do.
#[derive(Debug)]
struct Work {
    /// When it may be claimed.
    since: Instant,
    posted: u64,
    attempts: u32,
    /// Who claimed it, and until when.
    held: Option<(String, Instant)>,
}

impl QueuedThread {
    fn queue(&mut self) {
        let work = self.work.get_or_insert_with(Work::new);
        work.posted += 1;
        work.since = work.since.min(Instant::now());
    }
}

impl Work {
    fn new() -> Self {
        Self { since: Instant::now(), posted: 0, attempts: 0, held: None }
    }

    fn claim(&mut self, thread: &ThreadId, worker: &str, lasts: Duration) -> Claim {
        let owner = format!("{worker}/{}", Uuid::now_v7().simple());
        self.attempts = self.attempts.saturating_add(1);
        self.held = Some((owner.clone(), after(lasts)));
        Claim::new(thread.clone(), owner, lasts, self.attempts)
    }

    fn is_held(&self) -> bool {
        self.held.as_ref().is_some_and(|(_, until)| *until > Instant::now())
    }
}

impl MemoryQueue {
    /// A queue without threads.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ThreadId, QueuedThread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the work of a claim.
    fn with<T>(&self, claim: &Claim, act: impl FnOnce(&mut QueuedThread) -> T) -> Result<T, QueueError> {
        let mut threads = self.lock();
        let is_held = |thread: &&mut QueuedThread| {
            let held = thread.work.as_ref().and_then(|work| work.held.as_ref());
            held.is_some_and(|(owner, _)| *owner == claim.owner)
        };
        let thread = threads.get_mut(&claim.thread).filter(is_held);
        thread.map(act).ok_or_else(|| QueueError::ClaimLost(claim.thread.clone()))
    }
}

#[async_trait]
impl TurnQueue for MemoryQueue {
    async fn post_if(&self, thread: &ThreadId, post: &Post, condition: PostIf) -> Result<Posted, QueueError> {
        let mut threads = self.lock();
        let thread = threads.entry(thread.clone()).or_default();
        if thread.keys.contains(&post.key()) {
            return Ok(Posted::Known);
        }
        let holds = match condition {
            PostIf::Always => true,
            PostIf::Rests => thread.work.is_none(),
            PostIf::FewerWait(most) => (thread.entries.len() as u64) < most,
        };
        if !holds {
            return Ok(Posted::Refused);
        }
        thread.keys.insert(post.key());
        let number = thread.keys.len() as u64;
        thread.entries.push(InboxEntry::new(number, post.clone()));
        thread.queue();
        Ok(Posted::New)
    }

    async fn wake(&self, thread: &ThreadId) -> Result<(), QueueError> {
        self.lock().entry(thread.clone()).or_default().queue();
        Ok(())
    }

    async fn claim(&self, worker: &str, lasts: Duration) -> Result<Option<Claim>, QueueError> {
        let mut threads = self.lock();
        let now = Instant::now();
        let waits = threads.iter_mut().filter_map(|(id, thread)| {
            let work = thread.work.as_mut()?;
            (!work.is_held() && work.since <= now).then_some((id, work))
        });
        let Some((id, work)) = waits.min_by_key(|(_, work)| work.since) else { return Ok(None) };
        Ok(Some(work.claim(id, worker, lasts)))
    }

    async fn claim_thread(
        &self,
        thread: &ThreadId,
        worker: &str,
        lasts: Duration,
    ) -> Result<Option<Claim>, QueueError> {
        let mut threads = self.lock();
        let work = threads.entry(thread.clone()).or_default().work.get_or_insert_with(Work::new);
        Ok((!work.is_held()).then(|| work.claim(thread, worker, lasts)))
    }

    async fn keep(&self, claim: &Claim) -> Result<(), QueueError> {
        self.with(claim, |thread| {
            if let Some((_, until)) = thread.work.as_mut().and_then(|work| work.held.as_mut()) {
                *until = after(claim.lasts);
            }
        })
    }

    async fn inbox(&self, claim: &Claim) -> Result<Inbox, QueueError> {
        self.with(claim, |thread| {
            Inbox::new(thread.entries.clone(), thread.work.as_ref().map_or(0, |work| work.posted))
        })
    }

    async fn waits(&self, claim: &Claim, key: &str) -> Result<Option<u64>, QueueError> {
        self.with(claim, |thread| {
            thread.entries.iter().find(|entry| entry.post.key() == key).map(|entry| entry.number)
        })
    }

    async fn waiting(&self, thread: &ThreadId) -> Result<Vec<InboxEntry>, QueueError> {
        Ok(self.lock().get(thread).map(|thread| thread.entries.clone()).unwrap_or_default())
    }

    async fn taken(&self, claim: &Claim, number: u64) -> Result<(), QueueError> {
        self.with(claim, |thread| thread.entries.retain(|entry| entry.number != number))
    }

    async fn finish(&self, claim: &Claim, posted: u64) -> Result<Finished, QueueError> {
        self.with(claim, |thread| {
            let Some(work) = thread.work.as_mut() else { return Finished::Rests };
            if work.posted == posted {
                thread.work = None;
                return Finished::Rests;
            }
            *work = Work { posted: work.posted, ..Work::new() };
            Finished::Queued
        })
    }

    async fn give_back(&self, claim: &Claim, delay: Duration) -> Result<(), QueueError> {
        self.with(claim, |thread| {
            if let Some(work) = &mut thread.work {
                (work.held, work.since) = (None, after(delay));
            }
        })
    }

    async fn postpone(&self, claim: &Claim, posted: u64, delay: Duration) -> Result<Finished, QueueError> {
        self.with(claim, |thread| {
            let Some(work) = thread.work.as_mut() else { return Finished::Rests };
            if work.posted == posted {
                (work.held, work.since) = (None, after(delay));
                return Finished::Rests;
            }
            *work = Work { posted: work.posted, ..Work::new() };
            Finished::Queued
        })
    }

    async fn state(&self, thread: &ThreadId) -> Result<QueueState, QueueError> {
        let threads = self.lock();
        Ok(match threads.get(thread).and_then(|thread| thread.work.as_ref()) {
            None => QueueState::Rests,
            Some(work) if work.is_held() => QueueState::Claimed,
            Some(_) => QueueState::Queued,
        })
    }

    async fn forget(&self, thread: &ThreadId) -> Result<(), QueueError> {
        self.lock().remove(thread);
        Ok(())
    }
}
