//! The queue of turns, for servers: what people post to threads, and which threads have work to do.
//!
//! Only the holder of a thread's lease may write to the thread. Everybody else *posts*: a message, a reply, or the wish to
//! cancel goes into the thread's **inbox**, and the thread is queued. A **worker** claims a queued thread, opens it, takes the
//! posts in, and works until the thread rests.
//!
//! The queue promises no order between threads and runs nothing twice at the same time. A post can be taken in twice if a
//! worker dies at the wrong moment. So each kind of post says how a second time is recognised.

mod memory;
#[cfg(feature = "testing")]
pub(crate) mod testing;

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use self::memory::MemoryQueue;
use crate::id::{CallId, ThreadId};
use crate::message::Message;
use crate::thread_state::{CallReply, StateChange};

/// Something for a thread, from somebody who does not hold its lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "post", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Post {
    /// A message. It begins a turn when the turn in progress has ended. A thread that has a message with this id has it.
    Say {
        /// The message.
        message: Message,
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
    /// A change of a middleware's state, which must do no harm a second time.
    Change {
        /// An id that its sender chose.
        id: String,
        /// The change.
        change: StateChange,
    },
}

impl Post {
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
            Self::Say { message } => format!("say-{}", message.id.as_str()),
            Self::Reply { number, .. } => format!("reply-{number}"),
            Self::Cancel { turn } => format!("cancel-{turn}"),
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

/// The right to work on a thread's posts, for a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The thread.
    pub thread: ThreadId,
    /// Who has the claim. Each claim has an owner of its own.
    pub owner: String,
    /// How long it lasts, after it is made and after each [`TurnQueue::keep`].
    pub lasts: Duration,
    /// How often the thread was claimed since it last came to rest, with this claim.
    pub attempt: u32,
}

impl Claim {
    /// A claim, for your own queue.
    pub fn new(thread: ThreadId, owner: impl Into<String>, lasts: Duration, attempt: u32) -> Self {
        Self { thread, owner: owner.into(), lasts, attempt }
    }
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
}

/// Keeps the posts to threads, and which threads have work to do.
///
/// When [`TurnQueue::post`] returns, the post survives a crash. A thread that a worker claimed and did not finish can be
/// claimed again when the claim has ended.
///
/// ```
/// use std::time::Duration;
/// use prowess_agent::queue::{Finished, MemoryQueue, Post, TurnQueue};
/// use prowess_agent::{Message, ThreadId};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_agent::queue::QueueError> {
/// let (queue, thread) = (MemoryQueue::new(), ThreadId::new());
/// queue.post(&thread, &Post::Say { message: Message::user("Hi.") }).await?;
///
/// let claim = queue.claim("worker 1", Duration::from_secs(30)).await?.expect("a queued thread");
/// assert!(queue.claim("worker 2", Duration::from_secs(30)).await?.is_none());
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

    /// Claims the thread that has waited for longest, among those that nobody has claimed or whose claim has ended. `worker`
    /// is the beginning of the claim's owner. No claim lasts longer than a day.
    ///
    /// # Errors
    ///
    /// The queue failed.
    async fn claim(&self, worker: &str, lasts: Duration) -> Result<Option<Claim>, QueueError>;

    /// Claims this thread, whether it is queued, waits after a delay, or rests. `None` if another worker has it.
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

    /// Extends a claim by its full duration.
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

    /// Ends a claim. The thread rests if its inbox was last read with this number of posts, else it stays queued.
    ///
    /// # Errors
    ///
    /// [`QueueError::ClaimLost`] if another worker has claimed the thread.
    async fn finish(&self, claim: &Claim, posted: u64) -> Result<Finished, QueueError>;

    /// Ends a claim, and queues the thread behind the others: another worker may have more luck with it, after `delay` or the
    /// next post. No delay is longer than a day.
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
