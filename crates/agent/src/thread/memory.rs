//! A store that keeps threads in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Lease, StoredEvent, ThreadError, ThreadInfo, ThreadStore};
use crate::id::ThreadId;
use crate::thread_state::Event;

/// A store that keeps threads in memory: for tests, and for threads that need not survive the process.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::{Agent, MemoryThreads, NoWatcher, ThreadId, ThreadStore as _};
/// use prowess_models::{Scripted, ScriptedTurn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryThreads::new());
/// let model = Scripted::new([ScriptedTurn::new().say("Hello!")]);
/// let agent = Agent::builder(Arc::new(model)).store(store.clone()).build()?;
/// agent.open(ThreadId::new()).await?.say("Hi.", &NoWatcher).await?;
/// assert_eq!(store.list(10).await?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MemoryThreads(Mutex<BTreeMap<ThreadId, StoredThread>>);

#[derive(Debug)]
struct StoredThread {
    created: SystemTime,
    events: Vec<StoredEvent>,
    epoch: u64,
    /// Who has the lease, and until when.
    held: Option<(String, Instant)>,
}

impl StoredThread {
    fn new() -> Self {
        Self { created: SystemTime::now(), events: Vec::new(), epoch: 0, held: None }
    }

    fn holder(&self) -> Option<&str> {
        self.held.as_ref().filter(|(_, until)| *until > Instant::now()).map(|(owner, _)| owner.as_str())
    }

    fn count(&self) -> u64 {
        self.events.len() as u64
    }
}

impl MemoryThreads {
    /// A store without threads.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ThreadId, StoredThread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ThreadStore for MemoryThreads {
    async fn lease(&self, id: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError> {
        let mut threads = self.lock();
        let thread = threads.entry(id.clone()).or_insert_with(StoredThread::new);
        match thread.holder() {
            Some(holder) if holder != owner => {
                return Err(ThreadError::Leased { thread: id.clone(), owner: holder.to_owned() });
            }
            Some(_) => {}
            // The last owner keeps its epoch if nobody else took the lease.
            None if thread.held.as_ref().is_some_and(|(last, _)| last == owner) => {}
            None => thread.epoch += 1,
        }
        thread.held = Some((owner.to_owned(), Instant::now() + lasts));
        Ok(Lease { thread: id.clone(), owner: owner.to_owned(), epoch: thread.epoch, lasts })
    }

    async fn release(&self, lease: &Lease) -> Result<(), ThreadError> {
        let mut threads = self.lock();
        if let Some(thread) = threads.get_mut(&lease.thread).filter(|thread| thread.epoch == lease.epoch) {
            thread.held = None;
        }
        Ok(())
    }

    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError> {
        let mut threads = self.lock();
        let id = &lease.thread;
        let thread = threads.get_mut(id).ok_or_else(|| ThreadError::NotFound(id.clone()))?;
        // An expired lease that nobody took can still append: the epoch decides, not the clock.
        let is_holder = thread.held.as_ref().is_some_and(|(owner, _)| *owner == lease.owner);
        if thread.epoch != lease.epoch || !is_holder {
            return Err(ThreadError::LeaseLost(id.clone()));
        }
        let has = thread.count();
        if has != after {
            return Err(ThreadError::Conflict { thread: id.clone(), has, expected: after });
        }
        let at = SystemTime::now();
        let stored = events.iter().zip(after + 1..);
        if let Some((_, until)) = &mut thread.held {
            *until = (*until).max(Instant::now() + lease.lasts);
        }
        thread.events.extend(stored.map(|(event, number)| StoredEvent { number, at, event: event.clone() }));
        Ok(())
    }

    async fn events(&self, id: &ThreadId, after: u64, most: usize) -> Result<Vec<StoredEvent>, ThreadError> {
        let threads = self.lock();
        let thread = threads.get(id).ok_or_else(|| ThreadError::NotFound(id.clone()))?;
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(thread.events.iter().skip(after).take(most).cloned().collect())
    }

    async fn list(&self, most: usize) -> Result<Vec<ThreadInfo>, ThreadError> {
        let threads = self.lock();
        let mut list: Vec<ThreadInfo> = threads
            .iter()
            .map(|(id, thread)| ThreadInfo {
                id: id.clone(),
                events: thread.count(),
                created: thread.created,
                changed: thread.events.last().map_or(thread.created, |event| event.at),
            })
            .collect();
        list.sort_by(|one, other| other.changed.cmp(&one.changed).then_with(|| other.id.cmp(&one.id)));
        list.truncate(most);
        Ok(list)
    }

    async fn fork(&self, from: &ThreadId, through: u64, to: &ThreadId) -> Result<(), ThreadError> {
        let mut threads = self.lock();
        let whole = threads.get(from).map(|thread| &thread.events);
        let events = whole.and_then(|events| events.get(..usize::try_from(through).unwrap_or(usize::MAX)));
        let events = events.ok_or_else(|| ThreadError::NotFound(from.clone()))?.to_vec();
        if threads.contains_key(to) {
            return Err(ThreadError::Exists(to.clone()));
        }
        threads.insert(to.clone(), StoredThread { events, ..StoredThread::new() });
        Ok(())
    }

    async fn delete(&self, id: &ThreadId) -> Result<(), ThreadError> {
        let mut threads = self.lock();
        if let Some(owner) = threads.get(id).and_then(StoredThread::holder) {
            return Err(ThreadError::Leased { thread: id.clone(), owner: owner.to_owned() });
        }
        threads.remove(id);
        Ok(())
    }
}
