//! The agent of the simulation: its model and its tool answer at once, or after a fixed time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use prowess_agent::message::Content;
use prowess_agent::middleware::FollowedFiles;
use prowess_agent::model::{ModelStream, ModelUsage};
use prowess_agent::thread::{Lease, StoredEvent, ThreadError, ThreadInfo};
use prowess_agent::{
    Agent, Event, FunctionTool, Model, ModelDelta, ModelError, ModelRequest, ThreadId, ThreadStore, Tool,
    ToolAnswer, Usage,
};
use prowess_backend::MemoryBackend;
use prowess_serve::view::Places;
use prowess_serve::{
    AgentCard, BoxError, ServedAgents, ServedCost, ServedThread, SkillDetail, SkillList, SkillsPart,
};
use prowess_store::Database;
use prowess_workspace::Artifacts;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::fake::{call, said};

/// What is counted while the simulation runs.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Responses of the model.
    pub(super) steps: AtomicU64,
    /// Responses that end a turn.
    pub(super) turns: AtomicU64,
    /// How long a response takes, in milliseconds.
    pub(super) delay: AtomicU64,
    /// How long each append to a log took, in microseconds.
    appends: Mutex<Vec<u32>>,
}

impl Counted {
    fn note_append(&self, took: Duration) {
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        self.appends.lock().unwrap_or_else(PoisonError::into_inner).push(micros);
    }

    /// The times of the appends since the last call.
    pub(super) fn take_appends(&self) -> Vec<u32> {
        std::mem::take(&mut *self.appends.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How the agent behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behaviour {
    /// How many tool calls a turn has, one in each response.
    pub(super) calls: usize,
    /// The size of each text, in bytes.
    pub(super) bytes: usize,
}

/// Agents with a model that only pretends.
#[derive(Debug)]
pub(super) struct SimulatedAgents {
    model: Arc<dyn Model>,
    tool: Arc<dyn Tool>,
    database: Database,
    counted: Arc<Counted>,
    artifacts: Artifacts,
}

impl SimulatedAgents {
    pub(super) fn new(behaviour: Behaviour, database: &Database, counted: &Arc<Counted>) -> Self {
        let answer = text(behaviour.bytes);
        let tool = FunctionTool::new("look_up", "Looks something up.", move |LookUp { what }| {
            let answer = format!("{what}: {answer}");
            async move { Ok(ToolAnswer::text(answer)) }
        });
        Self {
            model: Arc::new(Pretending { behaviour, counted: Arc::clone(counted) }),
            tool: Arc::new(tool),
            database: database.clone(),
            counted: Arc::clone(counted),
            artifacts: Artifacts::in_memory(),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct LookUp {
    /// What to look up.
    what: String,
}

/// A text that compresses like English, and not to nothing.
pub(super) fn text(bytes: usize) -> String {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut text = String::with_capacity(bytes + 12);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[usize::try_from(state >> 60).unwrap_or_default()]);
        text.push(' ');
    }
    text.truncate(bytes);
    text
}

const WORDS: [&str; 16] = [
    "the", "release", "has", "three", "changes", "which", "people", "asked", "for", "in", "spring", "and",
    "notes", "about", "their", "reasons",
];

/// A model that calls the tool as often as it should, and then ends the turn.
#[derive(Debug)]
struct Pretending {
    behaviour: Behaviour,
    counted: Arc<Counted>,
}

#[async_trait]
impl Model for Pretending {
    fn name(&self) -> &str {
        "simulated"
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let Behaviour { calls, bytes } = self.behaviour;
        let delay = Duration::from_millis(self.counted.delay.load(Ordering::Relaxed));
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let since = request.messages.iter().rev().take_while(|message| !message.is_by_person());
        let answered = since.filter(|message| matches!(message.content, Content::Tool(_))).count();
        self.counted.steps.fetch_add(1, Ordering::Relaxed);
        let mut deltas = vec![ModelDelta::Text(text(bytes)), ModelDelta::Usage(Usage::new(1_000, 100))];
        if answered < calls {
            let arguments = r#"{"what": "notes"}"#.to_owned();
            deltas.push(call(0, request.messages.len(), "look_up"));
            deltas.push(ModelDelta::Arguments { index: 0, piece: arguments });
        } else {
            self.counted.turns.fetch_add(1, Ordering::Relaxed);
        }
        Ok(said(deltas))
    }
}

#[async_trait]
impl ServedAgents for SimulatedAgents {
    fn card(&self) -> AgentCard {
        AgentCard {
            name: "simulated".to_owned(),
            description: "Pretends to work.".to_owned(),
            model: "simulated".to_owned(),
            window: None,
            budgets: Value::Null,
            limits: Value::Null,
            sandbox: "none".to_owned(),
            rules: Vec::new(),
            approvers: "nobody".to_owned(),
        }
    }

    async fn thread(&self, owner: &str, _: &ThreadId) -> Result<ServedThread, BoxError> {
        let store = self.database.acting_for(owner).threads();
        let store = Arc::new(Timed { store, counted: Arc::clone(&self.counted) });
        let agent = Agent::builder(Arc::clone(&self.model))
            .prompt("You pretend.")
            .tool(Arc::clone(&self.tool))
            .store(store)
            .build()?;
        Ok(ServedThread {
            agent,
            files: Arc::new(MemoryBackend::new()),
            artifacts: self.artifacts.clone(),
            places: Places::default(),
        })
    }

    async fn fork(
        &self,
        _: &str,
        _: &ThreadId,
        _: &ThreadId,
        _: &FollowedFiles,
        _: &[String],
    ) -> Result<(), BoxError> {
        Ok(())
    }

    async fn remove(&self, _: &str, _: &ThreadId) -> Result<(), BoxError> {
        Ok(())
    }

    async fn skills(&self, _: &str, _: Option<&str>, _: SkillsPart<'_>) -> SkillList {
        SkillList::default()
    }

    async fn skill(&self, _: &str, _: &str) -> Option<SkillDetail> {
        None
    }

    fn cost(&self, _: &ModelUsage) -> Option<ServedCost> {
        None
    }
}

/// A store that notes how long appends take.
#[derive(Debug)]
struct Timed {
    store: Arc<dyn ThreadStore>,
    counted: Arc<Counted>,
}

#[async_trait]
impl ThreadStore for Timed {
    async fn lease(&self, thread: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError> {
        self.store.lease(thread, owner, lasts).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), ThreadError> {
        self.store.release(lease).await
    }

    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError> {
        let begun = Instant::now();
        let done = self.store.append(lease, after, events).await;
        self.counted.note_append(begun.elapsed());
        done
    }

    async fn events(
        &self,
        thread: &ThreadId,
        after: u64,
        most: usize,
    ) -> Result<Vec<StoredEvent>, ThreadError> {
        self.store.events(thread, after, most).await
    }

    async fn list(&self, most: usize) -> Result<Vec<ThreadInfo>, ThreadError> {
        self.store.list(most).await
    }

    async fn fork(&self, from: &ThreadId, through: u64, to: &ThreadId) -> Result<(), ThreadError> {
        self.store.fork(from, through, to).await
    }

    async fn delete(&self, thread: &ThreadId) -> Result<(), ThreadError> {
        self.store.delete(thread).await
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn texts_have_the_size_that_was_asked_for() {
        for bytes in [0, 1, 17, 1000] {
            assert_eq!(text(bytes).len(), bytes);
        }
    }
}
