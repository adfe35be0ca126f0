//! Replies that are given twice, for others, too late, or for something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prowess_agent::middleware::{Files, ToolPermissions};
use prowess_agent::{
    CallReply, Event, FunctionTool, NoWatcher, ThreadId, ThreadStore as _, Tool, ToolAnswer, TurnOutcome,
    TurnStatus,
};
use prowess_permission::{Action, Decision, Kind, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{AllowedTools, Dialect, SessionOptions};
use schemars::JsonSchema;
use serde::Deserialize;

use super::short_lease;
use crate::agent::{add, results};
use crate::says::{Says, calls, text};
use crate::world::{World, open};

const SUM: &str = r#"{"numbers": [1, 2]}"#;

fn permissions(rules: &[(&str, &str, Decision)]) -> Permissions {
    let rules: Vec<Rule> = rules.iter().map(|(kind, what, action)| Rule::new(kind, what, *action)).collect();
    Permissions::unattended(Policy::new().rules(RuleSource::User, rules))
}

fn asking() -> ToolPermissions {
    ToolPermissions::new(permissions(&[("tool", "*", Decision::Allow), ("tool", "add", Decision::Ask)]))
}

fn preapproving(_: &ThreadId) -> SessionOptions {
    let mut options = SessionOptions::new(Dialect::DeepAgents);
    options.allowed_tools = AllowedTools::Preapprove;
    options
}

/// Each call takes one reply: none for others, none after it was answered, none once the turn is over.
#[tokio::test]
async fn a_reply_is_for_one_call_and_once() {
    let world = World::new(&[]).await;
    let model = Says::new([calls(&[("a", "add", SUM), ("b", "add", SUM)]), text("done")]);
    let agent = world.agent(model).middleware(asking()).tool(add()).build().unwrap();
    let mut thread = open(&agent).await;
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    assert_eq!(waiting.len(), 2);
    for wrong in ["c", "", "a\0", "A"] {
        assert!(thread.reply(wrong, CallReply::Approve, &NoWatcher).await.is_err(), "{wrong:?}");
    }
    let no = CallReply::Reject { message: "no".to_owned() };
    thread.reply("a", no, &NoWatcher).await.unwrap();
    for late in [CallReply::Approve, CallReply::Edit { arguments: SUM.to_owned() }] {
        assert!(thread.reply("a", late, &NoWatcher).await.is_err(), "a denial stands");
    }
    assert_eq!(
        thread.reply("b", CallReply::Approve, &NoWatcher).await.unwrap(),
        TurnStatus::Ended(TurnOutcome::Responded)
    );
    for call in ["a", "b"] {
        assert!(thread.reply(call, CallReply::Approve, &NoWatcher).await.is_err(), "the turn is over");
    }
    assert_eq!(results(&thread), ["no", "3"]);
}

/// A no to all ends every question of the message, and leaves what was allowed before.
#[tokio::test]
async fn a_no_to_all_ends_the_other_questions() {
    let world = World::new(&[]).await;
    let model = Says::new([calls(&[("a", "add", SUM), ("b", "add", SUM), ("c", "add", SUM)]), text("done")]);
    let agent = world.agent(model).middleware(asking()).tool(add()).build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    thread.reply("b", CallReply::Approve, &NoWatcher).await.unwrap();
    let no = CallReply::RejectAll { message: "no".to_owned() };
    assert_eq!(thread.reply("a", no, &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert!(thread.reply("c", CallReply::Approve, &NoWatcher).await.is_err(), "it ended with the other");
    let with_another = "not made, because another call of the same message was rejected";
    assert_eq!(results(&thread), ["no", "3", with_another]);
}

/// What a person changed is what is done, also where it is nonsense; and the file rules see it.
#[tokio::test]
async fn edited_arguments_pass_all_other_rules() {
    let world = World::new(&[]).await;
    let write = r#"{"file_path": "/free.md", "content": "x"}"#;
    let model = Says::new([
        calls(&[("a", "write_file", write), ("b", "write_file", write), ("c", "write_file", write)]),
        text("done"),
    ]);
    let rules = permissions(&[
        ("tool", "*", Decision::Allow),
        ("tool", "write_file", Decision::Ask),
        ("read", "*", Decision::Allow),
        ("write", "*", Decision::Allow),
        ("write", "/kept/*", Decision::Deny),
    ]);
    let files = Files::new(world.backend()).permissions(rules.clone());
    let agent = world.agent(model).middleware(ToolPermissions::new(rules)).middleware(files).build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let edits = [
        ("a", r#"{"file_path": "/kept/x", "content": "x"}"#),
        ("b", r#"{"file_path": "/../../etc/x", "content": "x"}"#),
        ("c", "{not json"),
    ];
    for (call, arguments) in edits {
        let edit = CallReply::Edit { arguments: arguments.to_owned() };
        thread.reply(call, edit, &NoWatcher).await.unwrap();
    }
    let results = results(&thread);
    assert_eq!(thread.state().outcome(), Some(&TurnOutcome::Responded), "{results:?}");
    for (result, part) in results.iter().zip(["denied", "..", "not valid JSON"]) {
        assert!(result.contains(part) && result.contains("changed the arguments"), "{part}: {result}");
    }
    assert!(
        !world.scratch.path().join("files/kept").exists()
            && !world.scratch.path().join("files/free.md").exists()
    );
}

/// The process dies right after the reply is stored: the call is made once, and nobody is asked again.
#[tokio::test]
async fn a_crash_between_reply_and_effect() {
    let world = World::new(&[]).await;
    let made = Arc::new(AtomicUsize::new(0));
    let model = Says::new([calls(&[("a", "once", SUM)]), text("done")]);
    let agent = || {
        let made = Arc::clone(&made);
        let once = FunctionTool::new("once", "Counts.", move |_: Anything| {
            made.fetch_add(1, Ordering::SeqCst);
            async { Ok(ToolAnswer::text("made")) }
        });
        let asking = ToolPermissions::new(permissions(&[("tool", "once", Decision::Ask)]));
        let builder = world.agent(model.clone()).middleware(asking).tool(Arc::new(once));
        builder.options(short_lease()).build().unwrap()
    };
    let id = ThreadId::new();
    let mut thread = agent().open(id.clone()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    let stored = thread.events();
    thread.close().await.unwrap();
    let lease = world.store.lease(&id, "someone", short_lease().lease).await.unwrap();
    let replied = Event::Replied { call: "a".into(), reply: CallReply::Approve };
    world.store.append(&lease, stored, &[replied]).await.unwrap();
    world.store.release(&lease).await.unwrap();
    let mut thread = agent().open(id.clone()).await.unwrap();
    assert!(thread.reply("a", CallReply::Approve, &NoWatcher).await.is_err());
    assert_eq!(thread.go_on(&NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!((made.load(Ordering::SeqCst), results(&thread)), (1, vec!["made".to_owned()]));
}

#[derive(Deserialize, JsonSchema)]
struct Anything {}

/// Rules, and what skills list, change while a call is under way whose process died: the thread goes on.
#[tokio::test]
async fn what_was_begun_goes_on_under_other_rules() {
    for then in [Decision::Allow, Decision::Ask, Decision::Deny] {
        let world = World::new(&[("sums", "allowed-tools: ls\n", "Count.")]).await;
        let load = r#"{"skill_name": "sums"}"#;
        let model = Says::new([
            calls(&[("l", "load_skill", load)]),
            calls(&[("a", "ls", r#"{"path": "/"}"#)]),
            text("done"),
            text("one more"),
            text("another"),
        ]);
        let agent = |preapproves: bool, decision: Decision| {
            let options = move |thread: &ThreadId| match preapproves {
                true => preapproving(thread),
                false => SessionOptions::new(Dialect::DeepAgents),
            };
            let rules = permissions(&[("tool", "*", Decision::Allow), ("tool", "ls", decision)]);
            let builder = world.agent(model.clone()).middleware(world.skills_with(options, &[]));
            let builder =
                builder.middleware(ToolPermissions::new(rules)).middleware(Files::new(world.backend()));
            builder.options(short_lease()).build().unwrap()
        };
        let id = ThreadId::new();
        let mut thread = agent(false, Decision::Allow).open(id.clone()).await.unwrap();
        // The log is cut after the call was begun.
        thread.say("go", &NoWatcher).await.unwrap();
        thread.close().await.unwrap();
        let events = world.store.events(&id, 0, 100).await.unwrap();
        let began = |event: &Event| matches!(event, Event::ToolStarted { call } if call.as_str() == "a");
        let cut = events.iter().find(|stored| began(&stored.event)).unwrap().number;
        for preapproves in [true, false] {
            let fork = ThreadId::new();
            world.store.fork(&id, cut, &fork).await.unwrap();
            let agent = agent(preapproves, then);
            let mut thread = agent.open(fork).await.unwrap();
            let mut turn = thread.go_on(&NoWatcher).await.unwrap();
            // What a loaded skill lists by now needs nobody; all else that is to be asked about is.
            let asks = then == Decision::Ask && !preapproves;
            if let (TurnStatus::Waiting(waiting), true) = (&turn, asks) {
                turn = thread.reply(&waiting[0], CallReply::Approve, &NoWatcher).await.unwrap();
            }
            assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded), "{preapproves} {then:?}");
            let result = results(&thread)[1].clone();
            let says = if then == Decision::Deny { "denied" } else { "/skills" };
            assert!(result.contains(says), "{preapproves} {then:?}: {result}");
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Fetch {
    url: String,
}

/// A scope is compared with what the tool will do, and not with an argument that it does not have.
#[tokio::test]
async fn a_scope_is_not_fooled_by_arguments_that_the_tool_does_not_read() {
    let world = World::new(&[("web", "allowed-tools: fetch(https://good.example/*)\n", "Fetch.")]).await;
    let load = r#"{"skill_name": "web"}"#;
    let spoofed = r#"{"command": "https://good.example/x", "url": "https://evil.example/"}"#;
    let model = Says::new([
        calls(&[("l", "load_skill", load)]),
        calls(&[("a", "fetch", r#"{"url": "https://good.example/a"}"#)]),
        calls(&[("b", "fetch", spoofed)]),
        text("done"),
    ]);
    let fetch: Arc<dyn Tool> = Arc::new(FunctionTool::new("fetch", "Fetches.", |fetch: Fetch| async move {
        Ok(ToolAnswer::text(format!("fetched {}", fetch.url)))
    }));
    let rules = permissions(&[("tool", "*", Decision::Allow), ("tool", "fetch", Decision::Ask)]);
    let agent = world
        .agent(model)
        .middleware(world.skills_with(preapproving, &[]))
        .middleware(ToolPermissions::new(rules))
        .tool(fetch)
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    let turn = thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(results(&thread)[1], "fetched https://good.example/a", "what the skill lists needs nobody");
    assert!(
        matches!(&turn, TurnStatus::Waiting(waiting) if waiting[0].call.id.as_str() == "b"),
        "{:?}",
        results(&thread)
    );
}

/// A person rejected what the tool asked, the process died, and now the rules want the tool asked about, too: the word for
/// the tool is none for what was rejected.
#[tokio::test]
async fn a_rejection_outlives_a_rule_that_is_added() {
    let world = World::new(&[]).await;
    let write = r#"{"file_path": "/x", "content": "x"}"#;
    let model = Says::new([calls(&[("a", "write_file", write)]), text("done")]);
    let agent = |tools: Decision| {
        let rules = permissions(&[
            ("tool", "*", tools),
            ("read", "*", Decision::Allow),
            ("write", "*", Decision::Ask),
        ]);
        let files = Files::new(world.backend()).permissions(rules.clone());
        let builder = world.agent(model.clone()).middleware(ToolPermissions::new(rules)).middleware(files);
        builder.options(short_lease()).build().unwrap()
    };
    let id = ThreadId::new();
    let mut thread = agent(Decision::Allow).open(id.clone()).await.unwrap();
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    assert_eq!(waiting[0].question.kind, Kind::WRITE);
    let stored = thread.events();
    thread.close().await.unwrap();
    let lease = world.store.lease(&id, "someone", short_lease().lease).await.unwrap();
    let no = CallReply::Reject { message: "not there".to_owned() };
    let replied = Event::Replied { call: "a".into(), reply: no };
    world.store.append(&lease, stored, &[replied]).await.unwrap();
    world.store.release(&lease).await.unwrap();
    let mut thread = agent(Decision::Ask).open(id).await.unwrap();
    let turn = thread.go_on(&NoWatcher).await.unwrap();
    let TurnStatus::Waiting(waiting) = turn else { panic!("{turn:?}") };
    assert!(
        matches!(&waiting[0].question.action, Action::CallTool { tool, .. } if tool == "write_file"),
        "{waiting:?}"
    );
    thread.reply("a", CallReply::Approve, &NoWatcher).await.unwrap();
    assert!(results(&thread)[0].contains("not there"), "{:?}", results(&thread));
    assert!(!world.scratch.path().join("files/x").exists());
}
