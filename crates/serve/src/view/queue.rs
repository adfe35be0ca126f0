//! The queue of turns, for administrators: which threads have work to do, and nothing of what is in them.

use std::time::SystemTime;

use prowess_agent::queue::{QueueNumbers, QueueState, QueuedThread};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::time;

/// How full the queue is, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct QueueView {
    /// How full it is.
    pub numbers: QueueNumbersView,
    /// Threads in the queue. Dead letters come first, then the threads that were queued first.
    pub items: Vec<QueuedThreadView>,
    /// How many more there are. A higher `limit` lists more.
    pub left_off: u64,
}

/// How many threads are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct QueueNumbersView {
    /// Threads that a worker can take.
    pub queued: u64,
    /// Threads that wait for their next attempt, or until their user may go on.
    pub waiting: u64,
    /// Threads that a worker has.
    pub working: u64,
    /// Dead letters.
    pub dead: u64,
    /// For how many seconds the first of the threads that a worker can take has waited.
    pub age_seconds: u64,
}

impl QueueNumbersView {
    /// All threads in the queue.
    pub fn total(&self) -> u64 {
        [self.waiting, self.working, self.dead].into_iter().fold(self.queued, u64::saturating_add)
    }
}

impl From<QueueNumbers> for QueueNumbersView {
    fn from(numbers: QueueNumbers) -> Self {
        Self {
            queued: numbers.queued,
            waiting: numbers.waiting,
            working: numbers.working,
            dead: numbers.dead,
            age_seconds: numbers.age.as_secs(),
        }
    }
}

/// What a thread in the queue does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueuedThreadState {
    /// A worker can take it.
    Queued,
    /// It waits for its next attempt, or until its user may go on.
    Waiting,
    /// A worker has it.
    Working,
    /// It is a dead letter: too many attempts failed. It waits until somebody retries or drops its work.
    Dead,
}

/// A thread in the queue. Nothing in it is of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct QueuedThreadView {
    /// Its id.
    pub thread: String,
    /// What it does.
    pub state: QueuedThreadState,
    /// The id of its user.
    pub owner: Option<String>,
    /// The name of its user.
    pub owner_name: Option<String>,
    /// The worker that has it.
    pub worker: Option<String>,
    /// When it was queued.
    #[serde(serialize_with = "written")]
    #[schema(value_type = String)]
    pub since: SystemTime,
    /// When a worker can take it, if it waits.
    #[serde(serialize_with = "perhaps_written")]
    #[schema(value_type = Option<String>)]
    pub not_before: Option<SystemTime>,
    /// How often a worker took it since it last came to rest.
    pub attempts: u32,
    /// How many of the last attempts got no answer from a model or a tool.
    pub failures: u32,
    /// Why the last attempt that failed did so. This is for administrators: it may name paths of the server.
    pub problem: Option<String>,
}

impl QueuedThreadView {
    pub(crate) fn new(queued: QueuedThread, owner_name: Option<String>) -> Self {
        let state = match queued.state {
            QueueState::Dead => QueuedThreadState::Dead,
            QueueState::Claimed => QueuedThreadState::Working,
            QueueState::Queued | QueueState::Rests if queued.not_before.is_some() => {
                QueuedThreadState::Waiting
            }
            QueueState::Queued | QueueState::Rests => QueuedThreadState::Queued,
        };
        // Each claim has an id of its own after the worker's name.
        let name =
            |worker: String| worker.rsplit_once('/').map_or(worker.clone(), |(name, _)| name.to_owned());
        Self {
            thread: queued.thread.to_string(),
            state,
            owner: queued.user,
            owner_name,
            worker: queued.worker.map(name),
            since: queued.since,
            not_before: queued.not_before,
            attempts: queued.attempts,
            failures: queued.failures,
            problem: queued.problem,
        }
    }
}

fn written<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time(*at))
}

fn perhaps_written<S: Serializer>(at: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(time).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_thread_that_waits_for_its_next_attempt_says_until_when() {
        let since = SystemTime::UNIX_EPOCH;
        let mut queued = QueuedThread::new("t1".parse().unwrap(), QueueState::Queued, since);
        queued.user = Some("u1".to_owned());
        queued.not_before = Some(since + Duration::from_secs(5));
        (queued.attempts, queued.failures, queued.problem) = (2, 1, Some("the worker crashed".to_owned()));
        let view = QueuedThreadView::new(queued, Some("ada".to_owned()));
        assert_eq!(
            serde_json::to_value(view).unwrap(),
            json!({
                "thread": "t1", "state": "waiting", "owner": "u1", "owner_name": "ada", "worker": null,
                "since": "1970-01-01T00:00:00.000Z", "not_before": "1970-01-01T00:00:05.000Z", "attempts": 2,
                "failures": 1, "problem": "the worker crashed",
            })
        );
    }

    #[test]
    fn a_worker_is_named_without_its_claim() {
        let mut queued =
            QueuedThread::new("t1".parse().unwrap(), QueueState::Claimed, SystemTime::UNIX_EPOCH);
        queued.worker = Some("process 7 on harbour/0193".to_owned());
        let view = QueuedThreadView::new(queued, None);
        assert_eq!(view.worker.as_deref(), Some("process 7 on harbour"));
        assert_eq!((view.state, view.not_before), (QueuedThreadState::Working, None));
    }
}
