//! The whole agent by one call.

use std::sync::Arc;

use prowess_agent::middleware::{SkillsState, StateFiles};
use prowess_agent::{Agent, CallReply, NoWatcher, ThreadId, TurnOutcome, TurnStatus};
use prowess_backend::{Backend as _, VirtualPath, WriteMode};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::Dialect;

use crate::agent::{add, results};
use crate::says::{Says, all, calls, text};
use crate::world::World;

fn load(name: &str) -> String {
    format!("{{\"skill_name\": \"{name}\"}}")
}

/// Skills, memory, files, todos, a sub-agent with the same skills, approval: all there, and all at work.
#[tokio::test]
async fn one_call_builds_the_whole_agent() {
    let world =
        World::new(&[("pdf", "", "The way of pdf."), ("fork", "context: fork\n", "The way of forks.")]).await;
    let files = world.backend();
    let memory = VirtualPath::parse("/memory/AGENTS.md").unwrap();
    files.write(&memory, "Answer in German.".into(), WriteMode::CreateNew).await.unwrap();
    // The general-purpose sub-agent has the same model: its turns come in between.
    let model = Says::new([
        calls(&[
            ("a", "load_skill", &load("pdf")),
            ("b", "write_todos", r#"{"todos": [{"content": "fill", "status": "pending"}]}"#),
            ("c", "write_file", r#"{"file_path": "/notes.md", "content": "noted"}"#),
            ("d", "add", "{\"numbers\": [1, 2]}"),
        ]),
        calls(&[("e", "task", r#"{"description": "Load pdf, too."}"#)]),
        calls(&[("x", "load_skill", &load("pdf"))]),
        text("Loaded here, too."),
        calls(&[("f", "load_skill", &load("fork"))]),
        text("Forked."),
        text("Fertig."),
    ]);
    let rules = [
        Rule::new("tool", "*", Decision::Allow),
        Rule::new("tool", "add", Decision::Ask),
        Rule::new("write", "*", Decision::Allow),
        Rule::new("read", "*", Decision::Allow),
    ];
    let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
    let agent = Agent::deep_builder(model.clone())
        .prompt("You look after forms.")
        .tool(add())
        .skills(world.skills(Dialect::DeepAgents))
        .files(files.clone())
        .memory(["/memory/AGENTS.md"])
        .permissions(permissions)
        .store(Arc::new(world.store.clone()))
        .build()
        .unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    let TurnStatus::Waiting(waiting) = thread.say("Fill the form.", &NoWatcher).await.unwrap() else {
        panic!()
    };
    assert_eq!(waiting[0].call.name, "add");
    thread.close().await.unwrap();
    let mut thread = agent.open(id).await.unwrap();
    let turn = thread.reply(&waiting[0].call.id, CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded), "{:?}", results(&thread));
    assert_eq!(thread.last_response().as_deref(), Some("Fertig."));
    let prompt = model.request(1).system_text();
    for part in ["You look after forms.", "Answer in German.", "**pdf** [Loaded]", "## Sub-agents"] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    let child = model.request(2).system_text();
    assert!(child.contains("**pdf**") && !child.contains("[Loaded]"), "{child}");
    assert!(!child.contains("Answer in German.") && !child.contains("## Sub-agents"), "{child}");
    let forked = all(&model.request(5));
    assert!(forked.contains("The way of forks."), "{forked}");
    assert_eq!(results(&thread)[3..], ["3", "Loaded here, too.", "Forked."]);
    let mut tools: Vec<String> = model.request(0).tools.iter().map(|tool| tool.name.clone()).collect();
    tools.sort();
    let all =
        "add copy_file edit_file glob grep load_skill ls read_file task unload_skill write_file write_todos";
    assert_eq!(tools.join(" "), all);
    assert_eq!(SkillsState::of(thread.states()).unwrap().loaded().len(), 1);
    let noted = files.download(&[VirtualPath::parse("/notes.md").unwrap()]).await;
    assert_eq!(noted[0].as_ref().unwrap(), "noted");
}

/// Without anything but a model: files are the thread's own.
#[tokio::test]
async fn a_model_is_enough() {
    let model = Says::new([
        calls(&[("a", "write_file", r#"{"file_path": "/x", "content": "kept"}"#)]),
        text("written"),
        calls(&[("b", "read_file", r#"{"file_path": "/x"}"#)]),
        text("read"),
    ]);
    let world = World::new(&[]).await;
    let build = || Agent::deep_builder(model.clone()).store(Arc::new(world.store.clone())).build().unwrap();
    let id = ThreadId::new();
    let mut thread = build().open(id.clone()).await.unwrap();
    thread.say("write", &NoWatcher).await.unwrap();
    assert_eq!(StateFiles::of(thread.states()).count(), 1);
    thread.close().await.unwrap();
    let mut thread = build().open(id).await.unwrap();
    thread.say("read", &NoWatcher).await.unwrap();
    assert!(results(&thread)[1].contains("kept"), "{:?}", results(&thread));
}
