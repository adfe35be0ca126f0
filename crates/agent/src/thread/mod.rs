//! Where threads are kept: a log of events each.

mod memory;
mod sub_agents;
#[cfg(feature = "testing")]
pub(crate) mod testing;

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

pub use self::memory::MemoryThreads;
pub use self::sub_agents::sub_agent_threads;
pub(crate) use self::sub_agents::{is_there, sub_agent_thread};
use crate::id::ThreadId;
use crate::thread_state::Event;

/// Keeps threads: for each a log of events that only grows.
///
/// What [`ThreadStore::append`] has returned for survives the death of the process. One writer at a time has a
/// thread, by a lease; what a writer without it appends is refused, so no two of them can mix their steps.
///
/// ```
/// use std::time::Duration;
/// use prowess_agent::{Event, MemoryThreads, Message, ThreadId, ThreadStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_agent::thread::ThreadError> {
/// let (store, id) = (MemoryThreads::new(), ThreadId::new());
/// let lease = store.lease(&id, "this process", Duration::from_secs(30)).await?;
/// let said = Event::TurnStarted { messages: vec![Message::user("Hi.")] };
/// store.append(&lease, 0, &[said.clone()]).await?;
/// assert!(store.append(&lease, 0, &[said]).await.is_err(), "there is one event already");
/// store.release(&lease).await?;
///
/// let copy = ThreadId::new();
/// store.fork(&id, 1, &copy).await?;
/// assert_eq!(store.events(&copy, 0, 100).await?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait ThreadStore: Send + Sync + Debug {
    /// Takes the lease of a thread for a while, and makes the thread if there is none. Who has it may take it again.
    ///
    /// # Errors
    ///
    /// [`ThreadError::Leased`] while another has it.
    async fn lease(&self, thread: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError>;

    /// Gives a lease back. One that is over already is no error.
    ///
    /// # Errors
    ///
    /// The store failed.
    async fn release(&self, lease: &Lease) -> Result<(), ThreadError>;

    /// Appends events, all of them or none, after `after` that are there. The lease lasts from then on as long as it
    /// did at first, and never shorter than before.
    ///
    /// # Errors
    ///
    /// [`ThreadError::LeaseLost`] when another has, or had, the lease; [`ThreadError::Conflict`] when other events are
    /// there than the writer knows of.
    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError>;

    /// The events of a thread after the first `after`, in their order, at most `most`.
    ///
    /// # Errors
    ///
    /// [`ThreadError::NotFound`] when there is no such thread.
    async fn events(
        &self,
        thread: &ThreadId,
        after: u64,
        most: usize,
    ) -> Result<Vec<StoredEvent>, ThreadError>;

    /// The threads, the one that changed last first, at most `most` of them.
    ///
    /// # Errors
    ///
    /// The store failed.
    async fn list(&self, most: usize) -> Result<Vec<ThreadInfo>, ThreadError>;

    /// Makes a new thread of the first `through` events of another.
    ///
    /// # Errors
    ///
    /// [`ThreadError::NotFound`] when there is no such thread, or it has fewer events; [`ThreadError::Exists`] when
    /// the new one is there.
    async fn fork(&self, from: &ThreadId, through: u64, to: &ThreadId) -> Result<(), ThreadError>;

    /// Removes a thread that nobody writes to. One that is not there is no error.
    ///
    /// # Errors
    ///
    /// [`ThreadError::Leased`] while somebody has it.
    async fn delete(&self, thread: &ThreadId) -> Result<(), ThreadError>;
}

/// The right to write to a thread, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The thread.
    pub thread: ThreadId,
    /// Who has it.
    pub owner: String,
    /// Which lease of the thread it is. A later one ends all before it.
    pub epoch: u64,
    /// How long it lasts from when it is taken, and from each append.
    pub lasts: Duration,
}

/// An event with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// Its number in the thread, from 1.
    pub number: u64,
    /// When it was stored.
    pub at: SystemTime,
    /// What happened.
    pub event: Event,
}

/// What is known of a thread without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadInfo {
    /// The thread.
    pub id: ThreadId,
    /// How many events it has.
    pub events: u64,
    /// When it was made.
    pub created: SystemTime,
    /// When its last event was stored.
    pub changed: SystemTime,
}

/// Why something could not be done with a thread.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadError {
    /// There is no such thread.
    #[error("there is no thread `{0}`, or not so much of it")]
    NotFound(ThreadId),
    /// There is one of that name.
    #[error("the thread `{0}` is there already")]
    Exists(ThreadId),
    /// Another has it.
    #[error("the thread `{thread}` is written by {owner}: wait until it is done, or fork the thread")]
    Leased {
        /// The thread.
        thread: ThreadId,
        /// Who has it.
        owner: String,
    },
    /// The lease was lost to another.
    #[error("the thread `{0}` was taken over by another writer: nothing was stored")]
    LeaseLost(ThreadId),
    /// Other events are there than the writer knows of.
    #[error("the thread `{thread}` has {has} events and not {expected}: read it again")]
    Conflict {
        /// The thread.
        thread: ThreadId,
        /// How many there are.
        has: u64,
        /// How many the writer knows of.
        expected: u64,
    },
    /// What is stored cannot be understood.
    #[error(
        "event {number} of the thread `{thread}` cannot be read: {problem}; it is left as it is: bring a copy back, or fork the thread before it"
    )]
    Damaged {
        /// The thread.
        thread: ThreadId,
        /// Which event.
        number: u64,
        /// What is wrong.
        problem: String,
    },
    /// The store failed.
    #[error("{action}: {source}")]
    Store {
        /// What was to be done.
        action: String,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
