//! The queue of turns, for servers: what people post to threads, and which threads have work to do.
//!
//! Only the holder of a thread's lease may write to the thread. Everybody else *posts*: a message, a reply, or the wish to
//! cancel goes into the thread's **inbox**, and the thread is queued. A **worker** claims a queued thread, opens it, takes the
//! posts in, and works until the thread rests.
//!
//! The queue runs nothing twice at the same time. Threads of different users take turns. A post can be taken in twice if a
//! worker dies at the wrong moment. So each kind of post says how a second time is recognised.
//!
//! An attempt to work on a thread can fail, or its worker can die. Attempts that made no progress count: after
//! [`MAX_ATTEMPTS`] failures in a row, or [`MAX_VANISHED`] workers that vanish, the thread becomes a **dead letter**. It waits until a person retries or drops its work.

mod memory;
#[cfg(feature = "testing")]
pub(crate) mod testing;

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use self::memory::MemoryQueue;
use crate::id::{CallId, ThreadId};
use crate::message::Message;
use crate::thread::Lease;
use crate::thread_state::{CallReply, StateChange};

/// How many attempts in a row may make no progress: no model and no tool answered. Then the thread is a dead letter.
pub const MAX_ATTEMPTS: u32 = 5;
/// The same for attempts whose workers vanished. A worker that vanishes takes all its threads with it, and at most one of them is to
/// blame.
pub const MAX_VANISHED: u32 = 20;
/// Why a thread is a dead letter whose workers left no word.
pub const WORKER_VANISHED: &str = "the worker died or lost its database while it worked on the thread";

/// How soon a thread has its turn. Nothing waits forever because of it: a class is worth a number of places in the line, and the line
/// advances with each thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Behind others: work that nobody waits for.
    Low,
    /// As everybody.
    #[default]
    Normal,
    /// Before others.
    High,
}

impl Priority {
    /// How many places in the line one class is worth.
    pub const PLACES: i64 = 100;

    /// The class as a number: 0 is normal.
    pub fn rank(self) -> i64 {
        match self {
            Self::Low => -1,
            Self::Normal => 0,
            Self::High => 1,
        }
    }
}

/// Something for a thread, from somebody who does not hold its lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "post", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Post {
    /// A message. It begins a turn when the turn in progress has ended. A thread that has a message with this id has it.
    Say {
        /// The message.
        message: Message,
        /// How soon the thread has its turn.
        #[serde(default)]
        priority: Priority,
    },
    /// A reply to a question. A question that nobody asks any more was replied to.
    Reply {
        /// The call that asks.
        call: CallId,
        /// The number of the event that asked.
        number: u64,
        /// The reply.
        reply: CallReply,
    },
    /// The end of a turn. It ends no later turn.
    Cancel {
        /// The number of the event that began the turn.
        turn: u64,
    },
    /// The end of the turn in progress, whichever it is: a person dropped the work of a dead letter.
    End {
        /// An id that its sender chose.
        id: String,
    },
    /// A change of a middleware's state, which must do no harm a second time.
    Change {
        /// An id that its sender chose.
        id: String,
        /// The change.
        change: StateChange,
    },
}

impl Post {
    /// A message of normal priority.
    ///
    /// ```
    /// use prowess_agent::Message;
    /// use prowess_agent::queue::{Post, Priority};
    ///
    /// assert_eq!(Post::say(Message::user("Hi.")).priority(), Priority::Normal);
    /// ```
    pub fn say(message: Message) -> Self {
        Self::Say { message, priority: Priority::Normal }
    }

    /// How soon the thread has its turn. Somebody waits for everything but messages.
    pub fn priority(&self) -> Priority {
        match self {
            Self::Say { priority, .. } => *priority,
            _ => Priority::Normal,
        }
    }

    /// Whether it brings a dead letter back: what ends a turn is worth another attempt.
    pub fn revives(&self) -> bool {
        matches!(self, Self::Cancel { .. } | Self::End { .. })
    }

    /// The name of the post in its thread. An inbox takes each name once: there is one reply to a question.
    ///
    /// ```
    /// use prowess_agent::CallReply;
    /// use prowess_agent::queue::Post;
    ///
    /// let reply = |reply| Post::Reply { call: "c1".into(), number: 7, reply };
    /// assert_eq!(reply(CallReply::Approve).key(), reply(CallReply::Always).key());
    /// ```
    pub fn key(&self) -> String {
        match self {
            Self::Say { message, .. } => format!("say-{}", message.id.as_str()),
            Self::Reply { number, .. } => format!("reply-{number}"),
            Self::Cancel { turn } => format!("cancel-{turn}"),
            Self::End { id } => format!("end-{id}"),
            Self::Change { id, .. } => format!("change-{id}"),
        }
    }
}

/// Whether a post is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It is in the inbox now.
    New,
    /// The inbox has or had a post of this name. The first one counts.
    Known,
    /// Its condition does not hold. Nothing changed.
    Refused,
}

/// The condition of a post. A queue checks it and takes the post in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostIf {
    /// There is none.
    #[default]
    Always,
    /// The thread rests: it is not queued, and no worker has it.
    Rests,
    /// Fewer posts than this wait in the inbox.
    FewerWait(u64),
}

/// A post in an inbox.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InboxEntry {
    /// Its number in the thread's inbox, from 1.
    pub number: u64,
    /// The post.
    pub post: Post,
}

impl InboxEntry {
    /// An entry, for your own queue.
    pub fn new(number: u64, post: Post) -> Self {
        Self { number, post }
    }
}

/// What waits in an inbox.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Inbox {
    /// The posts, in the order in which they came.
    pub entries: Vec<InboxEntry>,
    /// How often somebody posted to the thread since it was queued. [`TurnQueue::finish`] compares it.
    pub posted: u64,
}

impl Inbox {
    /// An inbox, for your own queue.
    pub fn new(entries: Vec<InboxEntry>, posted: u64) -> Self {
        Self { entries, posted }
    }
}

/// The right to work on a thread, for a limited time: its posts and its log. It lasts as long as the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The lease of the thread. Each claim has an owner of its own, so each claim ends all earlier ones.
    pub lease: Lease,
    /// How often the thread was claimed since it last came to rest, with this claim.
    pub attempt: u32,
    /// Whether the worker before it vanished with the thread.
    pub takes_over: bool,
}

impl Claim {
    /// A claim, for your own queue.
    pub fn new(lease: Lease, attempt: u32, takes_over: bool) -> Self {
        Self { lease, attempt, takes_over }
    }

    /// The thread.
    pub fn thread(&self) -> &ThreadId {
        &self.lease.thread
    }
}

/// How many threads may be claimed at the same time, by all workers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimLimits {
    /// Of one user. Threads without a user have no such limit.
    pub per_user: u64,
    /// In all. A server has one agent, so this is the limit of the agent.
    pub in_all: u64,
}

impl Default for ClaimLimits {
    fn default() -> Self {
        Self { per_user: u64::MAX, in_all: u64::MAX }
    }
}

/// What becomes of a thread after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Another attempt follows.
    Again,
    /// It is a dead letter.
    Dead,
}

/// What happened to a thread whose worker finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It rests until somebody posts.
    Rests,
    /// Somebody posted meanwhile. It is queued again.
    Queued,
}

/// Whether a thread has work to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// No.
    Rests,
    /// It waits for a worker.
    Queued,
    /// A worker has it.
    Claimed,
    /// It is a dead letter.
    Dead,
}

/// A thread in the queue, for those who look after a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedThread {
    /// The thread.
    pub thread: ThreadId,
    /// Its state. It is never [`QueueState::Rests`].
    pub state: QueueState,
    /// The user that it belongs to, if the queue knows users.
    pub user: Option<String>,
    /// Who claimed it.
    pub worker: Option<String>,
    /// When it was queued.
    pub since: SystemTime,
    /// Before this time, nobody claims it.
    pub not_before: Option<SystemTime>,
    /// How often it was claimed since it last came to rest.
    pub attempts: u32,
    /// How many of the last attempts made no progress. An attempt in progress does not count.
    pub failures: u32,
    /// Why the last attempt failed.
    pub problem: Option<String>,
}

impl QueuedThread {
    /// A queued thread without attempts, for your own queue.
    pub fn new(thread: ThreadId, state: QueueState, since: SystemTime) -> Self {
        Self {
            thread,
            state,
            user: None,
            worker: None,
            since,
            not_before: None,
            attempts: 0,
            failures: 0,
            problem: None,
        }
    }
}

/// How full the queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueNumbers {
    /// Threads that can be claimed.
    pub queued: u64,
    /// Threads that wait for a delay to end, or that the limits keep back: their user has enough claims, or all workers together.
    pub waiting: u64,
    /// Threads that a worker has.
    pub working: u64,
    /// Dead letters.
    pub dead: u64,
    /// For how long the first of the threads that can be claimed has waited.
    pub age: Duration,
}

impl QueueNumbers {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Keeps the posts to threads, and which threads have work to do.
///
/// When [`TurnQueue::post`] returns, the post survives a crash. A thread that a worker claimed and did not finish can be
/// claimed again when the claim has ended.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use prowess_agent::queue::{ClaimLimits, Finished, MemoryQueue, Post, TurnQueue};
/// use prowess_agent::{Event, MemoryThreads, Message, ThreadId, ThreadStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_agent::queue::QueueError> {
/// let store = Arc::new(MemoryThreads::new());
/// let (queue, thread) = (MemoryQueue::new(store.clone()), ThreadId::new());
/// queue.post(&thread, &Post::say(Message::user("Hi."))).await?;
///
/// let (time, limits) = (Duration::from_secs(30), ClaimLimits::default());
/// let claim = queue.claim("worker 1", time, limits).await?.expect("a queued thread");
/// assert!(queue.claim("worker 2", time, limits).await?.is_none());
/// let said = Event::TurnStarted { messages: vec![Message::user("Hi.")] };
/// assert!(store.append(&claim.lease, 0, &[said]).await.is_ok(), "the claim has the thread's lease");
/// let inbox = queue.inbox(&claim).await?;
/// for entry in &inbox.entries {
///     // ... store it in the thread, then:
///     queue.taken(&claim, entry.number).await?;
/// }
/// assert_eq!(queue.finish(&claim, inbox.posted).await?, Finished::Rests);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait TurnQueue: Send + Sync + Debug {
    /// Puts a post into the inbox of a thread, and queues the thread unless it is queued. This ends the delay of a thread that
    /// was given back. A post whose name is known changes nothing.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn post(&self, thread: &ThreadId, post: &Post) -> Result<Posted, QueueError> {
        self.post_if(thread, post, PostIf::Always).await
    }

    /// The same, if a condition holds. Of two posts that want a thread to rest, one is refused.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn post_if(&self, thread: &ThreadId, post: &Post, condition: PostIf) -> Result<Posted, QueueError>;

    /// Queues a thread without a post: its turn was cut off, or its state must be looked at again.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn wake(&self, thread: &ThreadId) -> Result<(), QueueError>;

    /// Claims the next thread, among those that nobody has claimed or whose claim has ended, and takes its lease in the same
    /// step. The users of threads take turns; within a user, the thread that has waited for longest comes first. `worker` is the
    /// beginning of the claim's owner. No claim lasts longer than a day.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn claim(
        &self,
        worker: &str,
        lasts: Duration,
        limits: ClaimLimits,
    ) -> Result<Option<Claim>, QueueError>;

    /// The threads that became dead letters in this queue's claims since the last call, because their workers vanished. Nobody else
    /// says so: their workers cannot. Claims of other processes have their own.
    fn take_dead_letters(&self) -> Vec<ThreadId>;

    /// Claims this thread, whether it is queued, waits after a delay, is a dead letter, or rests. `None` if another worker has it. A
    /// dead letter that is given back is a dead letter again.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn claim_thread(
        &self,
        thread: &ThreadId,
        worker: &str,
        lasts: Duration,
    ) -> Result<Option<Claim>, QueueError>;

    /// Extends a claim and its lease by their full duration.
    ///
    /// # Errors
    ///
    /// [`QueueError::ClaimLost`] if another worker has claimed the thread.
    async fn keep(&self, claim: &Claim) -> Result<(), QueueError>;

    /// The posts that were not taken yet.
    ///
    /// # Errors
    ///
    /// [`QueueError::ClaimLost`] if another worker has claimed the thread.
    async fn inbox(&self, claim: &Claim) -> Result<Inbox, QueueError>;

    /// The number of the post of this name ([`Post::key`]), if it waits. Cheaper than [`TurnQueue::inbox`].
    ///
    /// # Errors
    ///
    /// [`QueueError::ClaimLost`] if another worker has claimed the thread.
    async fn waits(&self, claim: &Claim, key: &str) -> Result<Option<u64>, QueueError>;

    /// The posts that were not taken yet, for somebody without a claim.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn waiting(&self, thread: &ThreadId) -> Result<Vec<InboxEntry>, QueueError>;

    /// Notes that the thread has a post now, or needs it no more.
    ///
    /// # Errors
    ///
    /// [`QueueError::ClaimLost`] if another worker has claimed the thread.
    async fn taken(&self, claim: &Claim, number: u64) -> Result<(), QueueError>;

    /// [`TurnQueue::taken`], and then [`TurnQueue::inbox`]. A database can do both at once.
    ///
    /// # Errors
    ///
    /// [`QueueError::ClaimLost`] if another worker has claimed the thread.
    async fn taken_then_inbox(&self, claim: &Claim, number: u64) -> Result<Inbox, QueueError> {
        self.taken(claim, number).await?;
        self.inbox(claim).await
    }

    /// Ends a claim and its lease. The thread rests if its inbox was last read with this number of posts, else it stays queued.
    ///
    /// # Errors
    ///
    /// [`QueueError::ClaimLost`] if another worker has claimed the thread.
    async fn finish(&self, claim: &Claim, posted: u64) -> Result<Finished, QueueError>;

    /// Ends a claim and its lease, and queues the thread again: another worker may take it, after `delay` or the next post. The
    /// attempt does not count. No delay is longer than a day.
    ///
    /// # Errors
    ///
    /// [`QueueError::ClaimLost`] if another worker has claimed the thread.
    async fn give_back(&self, claim: &Claim, delay: Duration) -> Result<(), QueueError>;

    /// The same, if the inbox was last read with this number of posts. Else the thread stays queued, without a delay.
    ///
    /// # Errors
    ///
    /// [`QueueError::ClaimLost`] if another worker has claimed the thread.
    async fn postpone(&self, claim: &Claim, posted: u64, delay: Duration) -> Result<Finished, QueueError>;

    /// The same for an attempt that failed because of `problem`. It counts if it made no progress.
    ///
    /// # Errors
    ///
    /// [`QueueError::ClaimLost`] if another worker has claimed the thread.
    async fn fail(&self, claim: &Claim, delay: Duration, problem: &str) -> Result<Failed, QueueError>;

    /// Notes that the attempt made progress in another thread: that of a sub-agent.
    ///
    /// # Errors
    ///
    /// [`QueueError::ClaimLost`] if another worker has claimed the thread.
    async fn progressed(&self, claim: &Claim) -> Result<(), QueueError>;

    /// Queues a dead letter again. Returns whether the thread was one.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn retry(&self, thread: &ThreadId) -> Result<bool, QueueError>;

    /// Drops the work of a dead letter: what was posted is gone, and a worker ends its turn. Returns whether the thread was one.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn drop_work(&self, thread: &ThreadId) -> Result<bool, QueueError>;

    /// Up to `most` threads in the queue: dead letters first, then those that wait for longest.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn list(&self, most: usize) -> Result<Vec<QueuedThread>, QueueError>;

    /// How full the queue is, for workers with these limits. What the limits keep back cannot be claimed, and more workers would not
    /// help.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn numbers(&self, limits: ClaimLimits) -> Result<QueueNumbers, QueueError>;

    /// Whether a thread has work to do.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn state(&self, thread: &ThreadId) -> Result<QueueState, QueueError>;

    /// Forgets everything about a thread.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn forget(&self, thread: &ThreadId) -> Result<(), QueueError>;
}

/// Why a queue failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// Another worker has claimed the thread.
    #[error("another worker took over the thread `{0}`")]
    ClaimLost(ThreadId),
    /// A stored post cannot be read.
    #[error("post {number} to the thread `{thread}` cannot be read: {problem}")]
    Damaged {
        /// The thread.
        thread: ThreadId,
        /// The number of the post.
        number: u64,
        /// What is wrong.
        problem: String,
    },
    /// The queue failed.
    #[error("{action}: {source}")]
    Store {
        /// What the queue tried to do.
        action: String,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
