//! The run: two turns with fifty answers of models, three tasks for sub-agents, and a person's word for some calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prowess_agent::middleware::{Keep, SubAgents, Summarisation, Todos, ToolPermissions, Trigger};
use prowess_agent::{
    Agent, AgentBuilder, AgentOptions, CallReply, Model, ThreadId, ThreadStore, ToolCall, Usage,
};
use prowess_backend::LocalBackend;
use prowess_models::{Scripted, ScriptedExpect, ScriptedFollow, ScriptedTurn};
use prowess_permission::{Action, Decision, Permissions, Policy, Question, Rule, RuleSource};
use serde_json::{Value, json};

use super::ledger::Pen;
use super::moments::{Asked, Moments, Stored};
use super::placed::Placed;

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
pub(super) const COST: Usage = Usage::new(100, 10).cache_read(3).cache_written(2);

/// The thread of the run.
pub(super) fn thread() -> ThreadId {
    "run".parse().unwrap()
}

/// Where a run keeps what it does: a database, what its tools did, and the history that the model no longer sees.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) database: PathBuf,
    pub(super) ledger: PathBuf,
    pub(super) files: PathBuf,
    /// How long the run stays leased to a process that died.
    pub(super) lease: Duration,
}

impl Place {
    pub(super) fn at(directory: &Path, lease: Duration) -> Self {
        Self::on(directory.join("a.db"), directory, lease)
    }

    /// With a database that is elsewhere.
    pub(super) fn on(database: PathBuf, directory: &Path, lease: Duration) -> Self {
        Self { database, ledger: directory.join("ledger"), files: directory.join("files"), lease }
    }
}

/// The agent of the run. It is the same in every process.
pub(super) fn agent(place: &Place, store: Arc<dyn ThreadStore>, moments: &Moments) -> Agent {
    let store = Arc::new(Stored { store, moments: moments.clone() });
    let asked = |model| Arc::new(Asked { model, moments: moments.clone() });
    let worker = asked(Arc::new(scripted("worker", &TASK, true)));
    // What a killed process leaves lasts longer there: the next one finds its task taken.
    let worker = equipped(place, moments, worker, place.lease * 3).build().unwrap();
    let top = asked(Arc::new(Placed { script: scripted("top", &RUN, false), answers: &RUN }));
    let top = equipped(place, moments, top, place.lease).middleware(SubAgents::new(worker)).middleware(Todos);
    let summary = Scripted::new([ScriptedTurn::new().usage(COST).say("Much was done.").times(usize::MAX)]);
    std::fs::create_dir_all(&place.files).unwrap();
    let files = Arc::new(LocalBackend::open(&place.files).unwrap());
    let summarisation = Summarisation::new(asked(Arc::new(summary)), files as Arc<_>)
        .trigger(Trigger::Messages(14))
        .keep(Keep::Messages(6));
    top.middleware(summarisation).store(store).build().unwrap()
}

fn equipped(place: &Place, moments: &Moments, model: Arc<dyn Model>, lease: Duration) -> AgentBuilder {
    let rules = [Rule::new("tool", "*", Decision::Allow), Rule::new("tool", "sign", Decision::Ask)];
    let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
    let mut options = AgentOptions::default();
    options.lease = lease;
    let pen = |name| Arc::new(Pen { name, path: place.ledger.clone(), moments: moments.clone() });
    let builder = Agent::builder(model).options(options).middleware(ToolPermissions::new(permissions));
    builder.tool(pen("note")).tool(pen("look")).tool(pen("sign"))
}

/// A model that answers by how many answers there are. One that sees all of them wants all messages, no more and no
/// fewer.
fn scripted(name: &str, answers: &[Answer], sees_all: bool) -> Scripted {
    let mut messages = 1;
    let mut script = Vec::new();
    for answer in answers {
        let mut turn = ScriptedTurn::new().usage(COST).piece(9);
        if sees_all {
            turn = turn.expect(ScriptedExpect::new().messages(messages));
        }
        for (tool, token) in *answer {
            turn = turn.call(*tool, arguments(tool, token));
        }
        messages += 1 + answer.len();
        script.push(if answer.is_empty() { turn.say(DONE) } else { turn });
    }
    Scripted::new(script).model_name(name).follow(ScriptedFollow::Responses)
}

pub(super) fn arguments(tool: &str, token: &str) -> Value {
    match tool {
        "task" => json!({"description": token}),
        "write_todos" => json!({"todos": [{"content": "all of it", "status": token}]}),
        _ => json!({"token": token}),
    }
}

/// The token that a call bears in the script.
pub(super) fn token(call: &ToolCall) -> &'static str {
    let every = RUN.iter().chain(&TASK).flat_map(|answer| *answer);
    let parsed = call.parsed().unwrap();
    let mut found = every.filter(|(tool, token)| *tool == call.name && arguments(tool, token) == parsed);
    found.next().unwrap_or_else(|| panic!("{call:?} is not in the script")).1
}

/// What a person says to a question.
pub(super) fn reply(question: &Question) -> CallReply {
    let Action::CallTool { arguments, .. } = &question.action else { panic!("{question:?}") };
    if arguments.contains("refused") {
        CallReply::Reject { message: NO.to_owned() }
    } else if arguments.contains("changed") {
        CallReply::Edit { arguments: arguments.replace("changed", "edited") }
    } else {
        CallReply::Approve
    }
}
