//! Threads.

use prowess_agent::middleware::Todo;
use prowess_agent::queue::QueueState;
use prowess_skills::LoadedSkill;
use prowess_store::serve::OwnedThread;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::time;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThreadStatus {
    /// Nothing.
    Idle,
    /// It waits for a worker.
    Queued,
    /// The agent works.
    Working,
    /// A question waits for a person.
    Waiting,
    /// Too many attempts failed. It waits until somebody cancels its turn, or an administrator retries or drops its work.
    Dead,
}

impl ThreadStatus {
    /// The status of a thread with this state in the queue.
    pub(crate) fn of(queue: QueueState, asks: bool) -> Self {
        match queue {
            QueueState::Queued => Self::Queued,
            QueueState::Claimed => Self::Working,
            QueueState::Dead => Self::Dead,
            QueueState::Rests if asks => Self::Waiting,
            QueueState::Rests => Self::Idle,
        }
    }
}

/// A thread in a list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ThreadView {
    /// Its id.
    pub id: String,
    /// Its title. The first message is the title of a thread without one.
    pub title: String,
    /// Its agent.
    pub agent: String,
    /// What it does.
    pub status: ThreadStatus,
    /// When it was created.
    pub created: String,
    /// When something was last stored in it.
    pub changed: String,
    /// How many questions wait.
    pub waiting: usize,
    /// The tokens that it took.
    pub tokens: u64,
    /// What it cost, in dollars, if all prices are known.
    pub cost: Option<String>,
}

impl ThreadView {
    pub(crate) fn new(thread: &OwnedThread, queue: QueueState) -> Self {
        let waiting = thread.summary.waiting.len();
        let status = ThreadStatus::of(queue, waiting > 0);
        Self {
            id: thread.id.to_string(),
            title: thread.title.clone(),
            agent: thread.agent.clone(),
            status,
            created: time(thread.created),
            changed: time(thread.changed),
            waiting,
            tokens: thread.summary.tokens,
            cost: thread.summary.cost.clone(),
        }
    }
}

/// A loaded skill.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct LoadedSkillView {
    /// Its name.
    pub name: String,
    /// The estimated tokens of its instructions.
    pub tokens: usize,
    /// The digest of its manifest.
    pub digest: String,
}

impl From<&LoadedSkill> for LoadedSkillView {
    fn from(skill: &LoadedSkill) -> Self {
        Self { name: skill.name.clone(), tokens: skill.tokens, digest: skill.digest.to_string() }
    }
}

/// A step on the agent's list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TodoView {
    /// What is to be done.
    pub content: String,
    /// How far it is: `pending`, `in_progress` or `completed`.
    pub status: Value,
}

impl From<&Todo> for TodoView {
    fn from(todo: &Todo) -> Self {
        Self { content: todo.content.clone(), status: serde_json::to_value(todo.status).unwrap_or_default() }
    }
}
