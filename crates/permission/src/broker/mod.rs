//! Who asks, who waits, and who is told.

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

/// Brings requests that wait to whoever can answer, and remembers what was answered with "always".
///
/// One broker serves one project and any number of sessions. It knows nothing of how an answer is
/// obtained: a terminal, a web page or a protocol subscribes and replies.
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
/// let answering = async {
///     let Some(PermissionEvent::Asked(asked)) = front_end.next().await else { return };
///     broker.reply(asked.id, Reply::Always).await.unwrap();
/// };
/// let (grant, ()) = tokio::join!(permissions.request(Question::new(Kind::RUN, "make")), answering);
/// assert!(grant.unwrap().covers(&Question::new(Kind::RUN, "make")));
/// assert_eq!(broker.remembered()[0].pattern.as_str(), "make");
/// # }
/// ```
pub struct Broker {
    project: String,
    timeout: Option<Duration>,
    store: Arc<dyn ApprovalStore>,
    /// Taken in turn by those who change the store, so that it ends up as the memory does.
    saving: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

/// How a broker behaves.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use prowess_permission::{Broker, BrokerOptions, Kind, MemoryApprovals, Permissions, Policy, Refusal, Question};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_permission::approval::StoreError> {
/// let options = BrokerOptions::new("atlas").with_timeout(Duration::from_millis(5));
/// let broker = Broker::with_options(Arc::new(MemoryApprovals::new()), options).await?;
/// let _front_end = broker.subscribe(); // and never looks
/// let permissions = Permissions::new(broker, "session-1", Policy::new());
/// let answer = permissions.request(Question::new(Kind::RUN, "make")).await;
/// assert!(matches!(answer, Err(Refusal::TimedOut { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BrokerOptions {
    /// The project whose approvals are used and given.
    pub project: String,
    /// How long an ask waits for its answer; without it, for as long as somebody can answer.
    pub timeout: Option<Duration>,
}

impl BrokerOptions {
    /// Options for `project`, without a timeout.
    #[must_use]
    pub fn new(project: impl Into<String>) -> Self {
        Self { project: project.into(), ..Self::default() }
    }

    /// Lets an ask wait no longer than `timeout`.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl Broker {
    /// A broker that remembers for as long as it lives.
    #[must_use]
    pub fn in_memory() -> Arc<Self> {
        Self::new(Arc::new(MemoryApprovals::new()), BrokerOptions::default(), Vec::new())
    }

    /// A broker for `project`, with what `store` remembers of it.
    pub async fn open(
        store: Arc<dyn ApprovalStore>,
        project: impl Into<String>,
    ) -> Result<Arc<Self>, StoreError> {
        Self::with_options(store, BrokerOptions::new(project)).await
    }

    /// A broker with options. The approvals are read once, now.
    pub async fn with_options(
        store: Arc<dyn ApprovalStore>,
        options: BrokerOptions,
    ) -> Result<Arc<Self>, StoreError> {
        let mut approvals = store.load(&options.project).await?;
        // A store that answers with too much must not widen what is allowed.
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

    /// A front end that can answer. While at least one is alive, asks wait; when the last one goes,
    /// those that wait are refused.
    #[must_use = "asks wait for as long as the subscription is kept"]
    pub fn subscribe(self: &Arc<Self>) -> Subscription {
        self.add_feed(true)
    }

    /// Somebody who watches and does not count as being there to answer.
    #[must_use = "events are seen through the subscription"]
    pub fn observe(self: &Arc<Self>) -> Subscription {
        self.add_feed(false)
    }

    /// The asks that wait, oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<Arc<PendingQuestion>> {
        self.state().waiting.values().map(|waiting| Arc::clone(&waiting.asked)).collect()
    }

    /// Withdraws an ask; says whether it was waiting.
    pub fn cancel(&self, id: QuestionId) -> bool {
        self.state().settle(id, Err(Refusal::Cancelled))
    }

    /// Withdraws everything that `session` has waiting; says how many asks that were.
    pub fn cancel_session(&self, session: &str) -> usize {
        self.state()
            .settle_where(|waiting, _| (waiting.asked.session == session).then_some(Err(Refusal::Cancelled)))
    }

    /// The approvals in use, oldest first.
    #[must_use]
    pub fn remembered(&self) -> Vec<Approval> {
        self.state().approvals.clone()
    }

    /// The project whose approvals these are.
    #[must_use]
    pub fn project(&self) -> &str {
        &self.project
    }

    fn add_feed(self: &Arc<Self>, answers: bool) -> Subscription {
        let feed = Arc::new(Feed::new(answers));
        let mut state = self.state();
        for waiting in state.waiting.values() {
            feed.push(PermissionEvent::Asked(Arc::clone(&waiting.asked)));
        }
        state.feeds.push(Arc::clone(&feed));
        Subscription::new(feed, Arc::downgrade(self))
    }

    fn unsubscribe(&self, feed: &Arc<Feed>) {
        let mut state = self.state();
        state.feeds.retain(|kept| !Arc::ptr_eq(kept, feed));
        if !state.somebody_answers() {
            state.refuse_all_for_want_of_somebody();
        }
    }

    /// Held for moments and never across an await. A panic elsewhere does not make the state wrong: every
    /// change to it is made after the last thing that can fail.
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
