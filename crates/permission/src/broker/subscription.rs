//! Subscriptions: the streams of events for front ends and observers.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::{Broker, PermissionEvent, QuestionId};

/// The most events that wait for a slow reader, apart from those about questions that still wait.
const MAX_QUEUED_EVENTS: usize = 256;

/// A stream of [`PermissionEvent`]s: first the questions that already wait, then new events.
///
/// [`Broker::subscribe`] is for front ends: questions wait while such a subscription exists. [`Broker::observe`] is for
/// observers. A reader that falls far behind misses questions that have come and gone. It never misses a question that still
/// waits, or the end of a question that it has seen.
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
/// drop(front_end); // nobody can reply any more
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

    /// The next event; `None` after the broker is gone. You can drop the future without losing an event.
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

    /// The next event, if there is one now.
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

/// The unread events of one subscriber.
#[derive(Debug)]
pub(super) struct Feed {
    /// Whether the subscriber can reply.
    pub(super) can_reply: bool,
    queue: Mutex<Queue>,
    ready: Notify,
}

#[derive(Debug)]
struct Queue {
    events: VecDeque<PermissionEvent>,
    /// The number of events at which to drop old ones.
    limit: usize,
    closed: bool,
}

impl Feed {
    pub(super) fn new(can_reply: bool) -> Self {
        let queue = Queue { events: VecDeque::new(), limit: MAX_QUEUED_EVENTS, closed: false };
        Self { can_reply, queue: Mutex::new(queue), ready: Notify::new() }
    }

    pub(super) fn push(&self, event: PermissionEvent) {
        let mut queue = self.queue();
        queue.events.push_back(event);
        if queue.events.len() > queue.limit {
            queue.drop_ended_questions();
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
    /// Drops the questions whose beginning and end are both unread.
    fn drop_ended_questions(&mut self) {
        let ids = |asked: bool| -> HashSet<QuestionId> {
            let events = self.events.iter();
            events
                .filter(|e| matches!(e, PermissionEvent::Asked(_)) == asked)
                .map(PermissionEvent::id)
                .collect()
        };
        let (asked, replied) = (ids(true), ids(false));
        self.events.retain(|event| !(asked.contains(&event.id()) && replied.contains(&event.id())));
        // The rest must stay, so do not try again soon.
        self.limit = MAX_QUEUED_EVENTS.max(2 * self.events.len());
    }
}
