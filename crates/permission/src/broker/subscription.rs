//! Events, for those who watch or answer.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::{Broker, PermissionEvent, QuestionId};

/// More events than this wait for a slow reader only while the asks they are about do.
const MAX_QUEUED_EVENTS: usize = 256;

/// A stream of [`PermissionEvent`]s: first the asks that are waiting already, then what happens.
///
/// One from [`Broker::subscribe`] can answer: while it lives, asks wait. One from [`Broker::observe`]
/// only watches. A reader that falls far behind misses asks that came and went meanwhile, and never one
/// that still waits, nor what became of one that it has seen.
///
/// ```
/// use prowess_permission::broker::PermissionEvent;
/// use prowess_permission::{Broker, Kind, Permissions, Policy, Question};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let broker = Broker::in_memory();
/// let permissions = Permissions::new(broker.clone(), "session-1", Policy::new());
/// let front_end = broker.subscribe();
/// let mut log = broker.observe();
/// let asking = tokio::spawn(async move { permissions.request(Question::new(Kind::RUN, "make")).await });
/// assert!(matches!(log.next().await, Some(PermissionEvent::Asked(_))));
///
/// drop(front_end); // nobody can answer any more
/// assert!(asking.await.unwrap().is_err());
/// assert!(!matches!(log.next().await, Some(PermissionEvent::Asked(_))));
/// # }
/// ```
#[derive(Debug)]
pub struct Subscription {
    feed: Arc<Feed>,
    broker: Weak<Broker>,
}

impl Subscription {
    pub(super) fn new(feed: Arc<Feed>, broker: Weak<Broker>) -> Self {
        Self { feed, broker }
    }

    /// The next event; `None` when the broker is gone. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<PermissionEvent> {
        loop {
            {
                let mut queue = self.feed.queue();
                if let Some(event) = queue.events.pop_front() {
                    return Some(event);
                }
                if queue.closed {
                    return None;
                }
            }
            self.feed.ready.notified().await;
        }
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<PermissionEvent> {
        self.feed.queue().events.pop_front()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(broker) = self.broker.upgrade() {
            broker.unsubscribe(&self.feed);
        }
    }
}

/// One subscriber's events that it has not read.
#[derive(Debug)]
pub(super) struct Feed {
    /// Whether the subscriber can answer.
    pub(super) answers: bool,
    queue: Mutex<Queue>,
    ready: Notify,
}

#[derive(Debug)]
struct Queue {
    events: VecDeque<PermissionEvent>,
    /// When there are this many, see whether some can go.
    limit: usize,
    closed: bool,
}

impl Feed {
    pub(super) fn new(answers: bool) -> Self {
        let queue = Queue { events: VecDeque::new(), limit: MAX_QUEUED_EVENTS, closed: false };
        Self { answers, queue: Mutex::new(queue), ready: Notify::new() }
    }

    pub(super) fn push(&self, event: PermissionEvent) {
        let mut queue = self.queue();
        queue.events.push_back(event);
        if queue.events.len() > queue.limit {
            queue.drop_what_came_and_went();
        }
        drop(queue);
        self.ready.notify_one();
    }

    pub(super) fn close(&self) {
        self.queue().closed = true;
        self.ready.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Removes the asks of which both the question and the answer are unread.
    fn drop_what_came_and_went(&mut self) {
        let ids = |asked: bool| -> HashSet<QuestionId> {
            let events = self.events.iter();
            events
                .filter(|e| matches!(e, PermissionEvent::Asked(_)) == asked)
                .map(PermissionEvent::id)
                .collect()
        };
        let (asked, replied) = (ids(true), ids(false));
        self.events.retain(|event| !(asked.contains(&event.id()) && replied.contains(&event.id())));
        // What is left must stay, so looking again soon would be work for nothing.
        self.limit = MAX_QUEUED_EVENTS.max(2 * self.events.len());
    }
}
