//! The broker: it brings questions to front ends, takes their replies, and remembers "always".

mod event;
mod reply;
mod subscription;
mod waiting;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use event::{PendingQuestion, PermissionEvent, QuestionId, QuestionIdError, QuestionOutcome};
pub use reply::{Reply, ReplyError};
pub use subscription::Subscription;

use crate::approval::StoreError;
use crate::{Approval, ApprovalStore, MemoryApprovals, Refusal};
use subscription::Feed;
use waiting::State;

/// Brings questions to front ends, and remembers the replies of "always".
///
/// One broker serves one project and any number of sessions. A front end can be a terminal, a web page or a protocol: it
/// subscribes and replies.
///
/// ```
/// use prowess_permission::broker::PermissionEvent;
/// use prowess_permission::{Broker, Kind, Permissions, Policy, Question, Reply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let broker = Broker::in_memory();
/// let mut front_end = broker.subscribe();
/// let permissions = Permissions::new(broker.clone(), "session-1", Policy::new());
///
/// let replying = async {
///     let Some(PermissionEvent::Asked(asked)) = front_end.next().await else { return };
///     broker.reply(asked.id, Reply::Always).await.unwrap();
/// };
/// let (grant, ()) = tokio::join!(permissions.request(Question::new(Kind::RUN, "make")), replying);
/// assert!(grant.unwrap().covers(&Question::new(Kind::RUN, "make")));
/// assert_eq!(broker.remembered()[0].pattern.as_str(), "make");
/// # }
/// ```
pub struct Broker {
    project: String,
    timeout: Option<Duration>,
    store: Arc<dyn ApprovalStore>,
    /// Held while the store changes, so that the store and the memory end up equal.
    saving: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

/// The options of a broker.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use prowess_permission::{Broker, BrokerOptions, Kind, MemoryApprovals, Permissions, Policy, Refusal, Question};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_permission::approval::StoreError> {
/// let options = BrokerOptions::new("atlas").timeout(Duration::from_millis(5));
/// let broker = Broker::with_options(Arc::new(MemoryApprovals::new()), options).await?;
/// let _front_end = broker.subscribe(); // and never replies
/// let permissions = Permissions::new(broker, "session-1", Policy::new());
/// let result = permissions.request(Question::new(Kind::RUN, "make")).await;
/// assert!(matches!(result, Err(Refusal::TimedOut { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BrokerOptions {
    /// The project whose approvals the broker uses and records.
    pub project: String,
    /// How long a question waits for a reply. Without it, a question waits as long as there is a front end.
    pub timeout: Option<Duration>,
}

impl BrokerOptions {
    /// Options for `project`, without a timeout.
    #[must_use]
    pub fn new(project: impl Into<String>) -> Self {
        Self { project: project.into(), ..Self::default() }
    }

    /// Sets how long a question waits for a reply.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl Broker {
    /// A broker that keeps approvals in memory.
    #[must_use]
    pub fn in_memory() -> Arc<Self> {
        Self::new(Arc::new(MemoryApprovals::new()), BrokerOptions::default(), Vec::new())
    }

    /// A broker for `project`, with its approvals in `store`.
    pub async fn open(
        store: Arc<dyn ApprovalStore>,
        project: impl Into<String>,
    ) -> Result<Arc<Self>, StoreError> {
        Self::with_options(store, BrokerOptions::new(project)).await
    }

    /// A broker with options. It reads the approvals once, now.
    pub async fn with_options(
        store: Arc<dyn ApprovalStore>,
        options: BrokerOptions,
    ) -> Result<Arc<Self>, StoreError> {
        let mut approvals = store.load(&options.project).await?;
        // A store that returns too much must not allow more.
        approvals.retain(|approval| approval.project == options.project);
        Ok(Self::new(store, options, approvals))
    }

    fn new(store: Arc<dyn ApprovalStore>, options: BrokerOptions, approvals: Vec<Approval>) -> Arc<Self> {
        Arc::new(Self {
            project: options.project,
            timeout: options.timeout,
            store,
            saving: tokio::sync::Mutex::new(()),
            state: Mutex::new(State::new(approvals)),
        })
    }

    /// Subscribes a front end that can reply. Questions wait while at least one such subscription exists. When the last one
    /// is dropped, all waiting questions are refused.
    #[must_use = "questions wait only as long as the subscription exists"]
    pub fn subscribe(self: &Arc<Self>) -> Subscription {
        self.add_feed(true)
    }

    /// Subscribes an observer, which sees all events but cannot reply.
    #[must_use = "the subscription delivers the events"]
    pub fn observe(self: &Arc<Self>) -> Subscription {
        self.add_feed(false)
    }

    /// The waiting questions, oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<Arc<PendingQuestion>> {
        self.state().waiting.values().map(|waiting| Arc::clone(&waiting.pending)).collect()
    }

    /// Withdraws a question. Returns whether it was waiting.
    pub fn cancel(&self, id: QuestionId) -> bool {
        self.state().end(id, Err(Refusal::Cancelled))
    }

    /// Withdraws all questions of `session`. Returns how many were waiting.
    pub fn cancel_session(&self, session: &str) -> usize {
        self.state()
            .end_where(|waiting, _| (waiting.pending.session == session).then_some(Err(Refusal::Cancelled)))
    }

    /// The approvals in use, oldest first.
    #[must_use]
    pub fn remembered(&self) -> Vec<Approval> {
        self.state().approvals.clone()
    }

    /// The project.
    #[must_use]
    pub fn project(&self) -> &str {
        &self.project
    }

    fn add_feed(self: &Arc<Self>, can_reply: bool) -> Subscription {
        let feed = Arc::new(Feed::new(can_reply));
        let mut state = self.state();
        for waiting in state.waiting.values() {
            feed.push(PermissionEvent::Asked(Arc::clone(&waiting.pending)));
        }
        state.feeds.push(Arc::clone(&feed));
        Subscription::new(feed, Arc::downgrade(self))
    }

    fn unsubscribe(&self, feed: &Arc<Feed>) {
        let mut state = self.state();
        state.feeds.retain(|known| !Arc::ptr_eq(known, feed));
        if !state.has_front_end() {
            state.refuse_all_waiting();
        }
    }

    /// Locks the state. The lock is never held across an await. A panic elsewhere does not corrupt the state: changes happen
    /// after the last step that can fail.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        for feed in &self.state().feeds {
            feed.close();
        }
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("project", &self.project).finish_non_exhaustive()
    }
}
