//! Hooks in agents that run, their commands in the sandbox.
//!
//! A hook of the user that notes what it is told appends it to `log` where it runs, a line of JSON each.

#![allow(clippy::needless_pass_by_value, reason = "`json!` is given as it is written")]

mod decisions;
mod events;
mod handlers;
mod skills;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prowess_agent::middleware::{HookSet, Hooks, SandboxedHooks};
use prowess_agent::{Agent, AgentBuilder, AgentOptions, NoWatcher, Thread, ThreadId};
use prowess_store::SqliteStore;
use prowess_workspace::{LocalExecutor, LocalOptions, Runner, Workspaces};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::add;
use crate::says::Says;

/// Notes what it is told, which is in `$told` then.
const NOTE: &str = "told=$(cat); echo \"$told\" >> log";

/// A place for workspaces and threads.
struct Place {
    scratch: TempDir,
    runner: Runner,
    store: SqliteStore,
}

impl Place {
    async fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o711)).unwrap();
        let runner = Runner {
            workspaces: Workspaces::open(scratch.path().join("workspaces")).unwrap(),
            artifacts: None,
            executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
        };
        let store = SqliteStore::open(scratch.path().join("threads.db")).await.unwrap();
        Self { scratch, runner, store }
    }

    /// What another process sees of the same threads.
    async fn restart(&mut self) {
        self.store = SqliteStore::open(self.scratch.path().join("threads.db")).await.unwrap();
    }

    /// Hooks of the user.
    fn hooks(&self, own: Value) -> Hooks {
        Hooks::new(HookSet::parse(&own).unwrap()).commands(SandboxedHooks::new(self.runner.clone()))
    }

    /// An agent with the tool `add`, whose threads are kept here.
    fn builder(&self, model: &Arc<Says>) -> AgentBuilder {
        Agent::builder(model.clone()).tool(add()).store(Arc::new(self.store.clone()))
    }

    /// An agent with these hooks and nothing else.
    fn agent(&self, model: &Arc<Says>, own: Value) -> Agent {
        self.builder(model).middleware(self.hooks(own)).build().unwrap()
    }

    /// Where the user's hooks of a thread run.
    fn own(&self, thread: &ThreadId) -> PathBuf {
        let workspace = self.runner.workspaces.workspace(thread.as_str()).unwrap();
        workspace.own_directory("hooks").unwrap()
    }

    /// What hooks noted.
    fn log(&self, thread: &ThreadId) -> Vec<Value> {
        let log = std::fs::read_to_string(self.own(thread).join("log")).unwrap_or_default();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Waits until there is a file `go`, and then notes what it is told.
const WAIT: &str = "until test -e go; do touch waits; sleep 0.05; done; told=$(cat); echo \"$told\" >> log";

impl Place {
    /// Says something, and is gone as soon as a hook waits. Later ones will not.
    async fn dies_in_a_hook(&self, agent: &Agent, id: &ThreadId) {
        let own = self.own(id);
        let mut thread = agent.open(id.clone()).await.unwrap();
        let waits = async {
            while !own.join("waits").exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            turn = thread.say("go", &NoWatcher) => panic!("{turn:?}"),
            waits = tokio::time::timeout(Duration::from_secs(60), waits) => waits.unwrap(),
        }
        drop(thread);
        std::fs::write(own.join("go"), "").unwrap();
        tokio::time::sleep(short_lease().lease + Duration::from_millis(50)).await;
    }
}

/// A thread is free soon after its process died.
fn short_lease() -> AgentOptions {
    let mut options = AgentOptions::default();
    options.lease = Duration::from_millis(200);
    options
}

async fn open(agent: &Agent) -> Thread {
    agent.open(ThreadId::new()).await.unwrap()
}

fn command(line: &str) -> Value {
    json!({"type": "command", "command": line})
}

/// One hook on an event, for everything.
fn on(event: &str, hook: Value) -> Value {
    json!({event: [{"hooks": [hook]}]})
}

/// The arguments of a call that adds one number.
const ONE: &str = "{\"numbers\": [1]}";
