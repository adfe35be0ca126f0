//! The run: two turns with fifty answers of models, three tasks for sub-agents, and a person's word for some calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prowess_agent::parts::{Approval, SubAgents, Todos};
use prowess_agent::{Agent, AgentBuilder, AgentOptions, Model, Reply, ThreadId, ThreadStore, Usage};
use prowess_models::{Expect, Follow, Scripted, Turn};
use prowess_permission::{Decision, Layer, Permissions, Policy, Rule};
use serde_json::{Value, json};

use super::ledger::Pen;
use super::moments::{Asked, Moments, Stored};

/// The calls of one answer: the tool, and a token that no other call of the thread has. One without calls ends the turn.
pub(super) type Answer = &'static [(&'static str, &'static str)];

/// What the agent says.
pub(super) const RUN: [Answer; 20] = [
    &[("write_todos", "in_progress")],
    &[("note", "r1")],
    &[("look", "r2")],
    &[("note", "r3a"), ("look", "r3b"), ("note", "r3c")],
    &[("sign", "r4")],
    &[("task", "r5")],
    &[("note", "r6a"), ("sign", "r6b-refused"), ("look", "r6c")],
    &[("note", "r7")],
    &[("sign", "r8a"), ("sign", "r8b-changed")],
    &[],
    &[("note", "r10")],
    &[("task", "r11a"), ("look", "r11b"), ("task", "r11c")],
    &[("note", "r12a"), ("note", "r12b")],
    &[("look", "r13a"), ("look", "r13b"), ("look", "r13c")],
    &[("note", "r14")],
    &[("sign", "r15")],
    &[("note", "r16a"), ("look", "r16b"), ("note", "r16c"), ("look", "r16d")],
    &[("look", "r17")],
    &[("write_todos", "completed")],
    &[],
];

/// What each sub-agent says.
pub(super) const TASK: [Answer; 10] = [
    &[("note", "t0")],
    &[("look", "t1")],
    &[("sign", "t2")],
    &[("note", "t3a"), ("look", "t3b")],
    &[("note", "t4a"), ("sign", "t4b-changed")],
    &[("look", "t5a"), ("look", "t5b")],
    &[("note", "t6a"), ("note", "t6b")],
    &[("sign", "t7a-refused"), ("look", "t7b"), ("note", "t7c")],
    &[("note", "t8")],
    &[],
];

/// What a person says, one turn after the other.
pub(super) const SAID: [&str; 2] = ["Begin.", "Finish."];

/// How a turn ends.
pub(super) const DONE: &str = "It is done.";

/// What a person says to what is refused.
pub(super) const NO: &str = "Not that.";

/// What each answer costs.
pub(super) const COST: Usage = Usage { input: 100, output: 10, cache_read: 3, cache_written: 2 };

/// The thread of the run.
pub(super) fn thread() -> ThreadId {
    "run".parse().unwrap()
}

/// Where a run keeps what it does: a database, and what its tools did.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) database: PathBuf,
    pub(super) ledger: PathBuf,
    /// How long a thread stays leased to a process that died.
    pub(super) lease: Duration,
}

impl Place {
    pub(super) fn at(directory: &Path, lease: Duration) -> Self {
        Self { database: directory.join("a.db"), ledger: directory.join("ledger"), lease }
    }
}

/// The agent of the run. It is the same in every process.
pub(super) fn agent(place: &Place, store: Arc<dyn ThreadStore>, moments: &Moments) -> Agent {
    let store = Arc::new(Stored { store, moments: moments.clone() });
    let model = |name, answers, turns| {
        let model = Arc::new(scripted(name, answers, turns));
        Arc::new(Asked { model, moments: moments.clone() })
    };
    let worker = equipped(place, moments, model("worker", &TASK, 1)).build().unwrap();
    let top = equipped(place, moments, model("top", &RUN, SAID.len()));
    top.with(SubAgents::new(worker)).with(Todos).store(store).build().unwrap()
}

fn equipped(place: &Place, moments: &Moments, model: Arc<dyn Model>) -> AgentBuilder {
    let rules = [Rule::new("tool", "*", Decision::Allow), Rule::new("tool", "sign", Decision::Ask)];
    let permissions = Permissions::unattended(Policy::new().with(Layer::User, rules));
    let mut options = AgentOptions::default();
    options.lease = place.lease;
    let pen = |name| Arc::new(Pen { name, path: place.ledger.clone(), moments: moments.clone() });
    let builder = Agent::builder(model).options(options).with(Approval::new(permissions));
    builder.tool(pen("note")).tool(pen("look")).tool(pen("sign"))
}

/// A model that answers by how many answers there are, and wants all messages before them: no more and no fewer.
fn scripted(name: &str, answers: &[Answer], turns: usize) -> Scripted {
    let mut messages = 1;
    let mut script = Vec::new();
    for answer in answers {
        let mut turn = Turn::new().usage(COST).in_pieces_of(9).expect(Expect::new().messages(messages));
        for (tool, token) in *answer {
            turn = turn.call(*tool, arguments(tool, token));
        }
        messages += 1 + answer.len();
        if answer.is_empty() {
            turn = turn.say(DONE);
            messages += 1;
        }
        script.push(turn);
    }
    assert_eq!(answers.iter().filter(|answer| answer.is_empty()).count(), turns);
    Scripted::new(script).named(name).following(Follow::Answers)
}

pub(super) fn arguments(tool: &str, token: &str) -> Value {
    match tool {
        "task" => json!({"description": token}),
        "write_todos" => json!({"todos": [{"content": "all of it", "status": token}]}),
        _ => json!({"token": token}),
    }
}

/// What a person says to a question.
pub(super) fn reply(question: &Value) -> Reply {
    let arguments = question["arguments"].as_str().unwrap();
    if arguments.contains("refused") {
        Reply::Reject { message: NO.to_owned() }
    } else if arguments.contains("changed") {
        Reply::Edit { arguments: arguments.replace("changed", "edited") }
    } else {
        Reply::Approve
    }
}
