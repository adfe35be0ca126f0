//! Measures the loop of an agent: one step, many concurrent threads, idle threads, the start, and compaction.
//!
//! In each step the model responds with one call of a trivial tool, and the tool answers. The model does nothing else, so every
//! figure is the cost of the loop itself.

mod compacting;
pub(crate) mod fake;
mod starting;
mod steps;
mod threads;
mod unchanged;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use prowess_agent::middleware::{Eviction, Files, Skills, SubAgents, Summarisation, Todos};
use prowess_agent::{
    Agent, FunctionTool, MemoryThreads, Model, NoWatcher, Thread, ThreadId, ThreadStore, Tool, ToolAnswer,
    TurnOutcome, TurnStatus,
};
use prowess_backend::{Backend, LocalBackend};
use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_skills::SkillSession;
use prowess_store::SqliteStore;
use schemars::JsonSchema;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::task::EXAMPLES;

pub(crate) use compacting::{MESSAGES, compact};
pub(crate) use starting::start;
pub(crate) use steps::{STEPS, bare, full, raw};
pub(crate) use threads::{THREADS, at_once, idle};
pub(crate) use unchanged::{CALLS, unchanged};

const PROMPT: &str = "You add numbers for others.";

/// Where threads are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadStorage {
    /// In memory.
    Memory,
    /// In a new SQLite database.
    Sqlite,
}

/// A temporary directory for the files and the database of an agent.
struct Place(TempDir);

impl Place {
    /// Makes one below `directory`, so that its disk is measured.
    fn new(directory: &Path) -> Result<Self> {
        let place = tempfile::tempdir_in(directory)?;
        std::fs::create_dir(place.path().join("files"))?;
        Ok(Self(place))
    }

    async fn store(&self, storage: ThreadStorage) -> Result<Arc<dyn ThreadStore>> {
        Ok(match storage {
            ThreadStorage::Memory => Arc::new(MemoryThreads::new()),
            ThreadStorage::Sqlite => Arc::new(SqliteStore::open(self.0.path().join("threads.db")).await?),
        })
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(LocalBackend::open(self.0.path().join("files"))?))
    }

    /// An agent with the usual middleware. It discovers its skills here.
    fn full(&self, model: &Arc<dyn Model>, store: Arc<dyn ThreadStore>) -> Result<Agent> {
        let catalog = Catalog::discover(&[Root::explicit(EXAMPLES)], &ScanOptions::default());
        ensure!(!catalog.entries().is_empty(), "{EXAMPLES} has no skills");
        let skills = Skills::new(move |_| SkillSession::builder(catalog.clone()));
        let backend = self.backend()?;
        let helper = Agent::builder(Arc::clone(model))
            .prompt(PROMPT)
            .tool(add())
            .middleware(skills.clone())
            .middleware(Files::new(Arc::clone(&backend)))
            .build()?;
        Ok(Agent::builder(Arc::clone(model))
            .prompt(PROMPT)
            .tool(add())
            .middleware(Summarisation::new(Arc::clone(model), Arc::clone(&backend)))
            .middleware(Eviction::new(Arc::clone(&backend)))
            .middleware(skills)
            .middleware(Todos)
            .middleware(Files::new(backend))
            .middleware(SubAgents::new(helper))
            .store(store)
            .build()?)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
}

/// A trivial tool.
fn add() -> Arc<dyn Tool> {
    Arc::new(FunctionTool::new("add", "Adds two numbers.", |Add { a, b }: Add| async move {
        Ok(ToolAnswer::text((a + b).to_string()))
    }))
}

/// Runs one turn of this many steps in a new thread.
async fn turn(agent: &Agent, steps: usize) -> Result<Thread> {
    let mut thread = agent.open(ThreadId::new()).await?;
    let turn = thread.say("Add some numbers.", &NoWatcher).await?;
    ensure!(turn == TurnStatus::Ended(TurnOutcome::Responded), "the turn ended otherwise: {turn:?}");
    // What the user said, a call and its result for each step, and the last answer.
    let said = thread.state().messages().len();
    ensure!(said == 2 * steps + 2, "there are {said} messages after {steps} steps");
    Ok(thread)
}

fn one_thread() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().build()
}
