//! Stores of threads. Each thread is a log of events.

mod memory;
mod sub_agents;
#[cfg(feature = "testing")]
pub(crate) mod testing;

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

pub use self::memory::MemoryThreads;
pub(crate) use self::sub_agents::{has_events, sub_agent_thread};
pub use self::sub_agents::{possible_sub_agents, sub_agent_threads};
use crate::id::ThreadId;
use crate::thread_state::Event;

/// Keeps threads. Each thread is a log of events that only grows.
///
/// When [`ThreadStore::append`] returns, the events survive a crash of the process. A lease lets one writer at a time
/// append to a thread. The store refuses events of all other writers.
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
/// assert!(store.append(&lease, 0, &[said]).await.is_err(), "the thread has one event already");
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
    /// Takes the lease of a thread, and creates the thread if there is none. The owner can take it again.
    ///
    /// # Errors
    ///
    /// [`ThreadError::Leased`] while another owner has it.
    async fn lease(&self, thread: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError>;

    /// Releases a lease. A lease that has ended is no error.
    ///
    /// # Errors
    ///
    /// The store failed.
    async fn release(&self, lease: &Lease) -> Result<(), ThreadError>;

    /// Appends events, all or none, to a log that has `after` events. It also extends the lease by its full duration.
    ///
    /// # Errors
    ///
    /// [`ThreadError::LeaseLost`] if another owner has or had the lease; [`ThreadError::Conflict`] if the log does not
    /// have `after` events.
    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError>;

    /// Up to `most` events of a thread, without the first `after`, in order.
    ///
    /// # Errors
    ///
    /// [`ThreadError::NotFound`] if there is no such thread.
    async fn events(
        &self,
        thread: &ThreadId,
        after: u64,
        most: usize,
    ) -> Result<Vec<StoredEvent>, ThreadError>;

    /// Up to `most` threads. The one that changed last comes first.
    ///
    /// # Errors
    ///
    /// The store failed.
    async fn list(&self, most: usize) -> Result<Vec<ThreadInfo>, ThreadError>;

    /// Creates the thread `to` from the first `through` events of `from`.
    ///
    /// # Errors
    ///
    /// [`ThreadError::NotFound`] if there is no such thread, or it has fewer events; [`ThreadError::Exists`] if there is
    /// a thread `to`.
    async fn fork(&self, from: &ThreadId, through: u64, to: &ThreadId) -> Result<(), ThreadError>;

    /// Deletes a thread that nobody has leased. A thread that does not exist is no error.
    ///
    /// # Errors
    ///
    /// [`ThreadError::Leased`] while somebody has it.
    async fn delete(&self, thread: &ThreadId) -> Result<(), ThreadError>;
}

/// The right to append to a thread, for a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The thread.
    pub thread: ThreadId,
    /// Who has it.
    pub owner: String,
    /// The number of the lease. A higher one ends all lower ones.
    pub epoch: u64,
    /// How long it lasts, after it is taken and after each append.
    pub lasts: Duration,
}

impl Lease {
    /// A lease, for your own store.
    pub fn new(thread: ThreadId, owner: impl Into<String>, epoch: u64, lasts: Duration) -> Self {
        Self { thread, owner: owner.into(), epoch, lasts }
    }
}

/// An event as the log has it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// Its number in the thread, from 1.
    pub number: u64,
    /// When it was stored.
    pub at: SystemTime,
    /// The event.
    pub event: Event,
}

/// What a store knows about a thread without reading its events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadInfo {
    /// The thread.
    pub id: ThreadId,
    /// How many events it has.
    pub events: u64,
    /// When it was created.
    pub created: SystemTime,
    /// When its last event was stored.
    pub changed: SystemTime,
}

impl ThreadInfo {
    /// Information about a thread, for your own store.
    pub fn new(id: ThreadId, events: u64, created: SystemTime, changed: SystemTime) -> Self {
        Self { id, events, created, changed }
    }
}

/// Why a store of threads failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadError {
    /// There is no such thread, or it has fewer events.
    #[error("there is no thread `{0}`, or it has fewer events")]
    NotFound(ThreadId),
    /// The thread exists already.
    #[error("the thread `{0}` exists already")]
    Exists(ThreadId),
    /// Another owner has the lease.
    #[error("{owner} is using the thread `{thread}`: wait until it is done, or fork the thread")]
    Leased {
        /// The thread.
        thread: ThreadId,
        /// Who has it.
        owner: String,
    },
    /// Another owner took the lease.
    #[error("another writer took over the thread `{0}`: nothing was stored")]
    LeaseLost(ThreadId),
    /// The log has more or fewer events than the writer expects.
    #[error("the thread `{thread}` has {has} events, not {expected}: read it again")]
    Conflict {
        /// The thread.
        thread: ThreadId,
        /// How many events there are.
        has: u64,
        /// How many the writer expects.
        expected: u64,
    },
    /// A stored event cannot be read.
    #[error(
        "event {number} of the thread `{thread}` cannot be read: {problem}; restore a backup, or fork the thread before this event"
    )]
    Damaged {
        /// The thread.
        thread: ThreadId,
        /// The number of the event.
        number: u64,
        /// What is wrong.
        problem: String,
    },
    /// The store failed.
    #[error("{action}: {source}")]
    Store {
        /// What the store tried to do.
        action: String,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
