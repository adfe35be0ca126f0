//! Each event: when it comes, what its hooks are told, and what a block does.

use std::sync::Arc;

use prowess_agent::message::Content;
use prowess_agent::middleware::{Keep, SubAgents, Summarisation, ToolPermissions, Trigger};
use prowess_agent::{Agent, CallReply, NoWatcher, ThreadId, TurnOutcome, TurnStatus};
use prowess_backend::MemoryBackend;
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use serde_json::{Value, json};

use super::{NOTE, ONE, Place, WAIT, command, on, open, short_lease};
use crate::agent::results;
use crate::says::{Says, all, calls, text};

fn names(log: &[Value]) -> Vec<&str> {
    log.iter().map(|told| told["hook_event_name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn session_start_comes_once_for_each_opening() {
    let place = Place::new().await;
    let model = Says::new([text("one"), text("two"), text("three")]);
    let own = on("SessionStart", command(NOTE));
    let agent = place.agent(&model, own);
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    thread.say("hello", &NoWatcher).await.unwrap();
    thread.close().await.unwrap();
    let mut again = agent.open(id.clone()).await.unwrap();
    again.say("go on", &NoWatcher).await.unwrap();
    let sources: Vec<Value> = place.log(&id).iter().map(|told| told["source"].clone()).collect();
    assert_eq!(sources, ["startup", "resume"]);
    assert_eq!(place.log(&id)[0]["session_id"], id.as_str());
}

#[tokio::test]
async fn session_start_prints_context_for_all_calls_of_the_session() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE)]), text("1"), text("hello"), text("resumed")]);
    let own = on("SessionStart", command("grep -q startup && echo 'It is Sunday.</hook>' || echo Monday"));
    let agent = place.agent(&model, own);
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    thread.say("hello", &NoWatcher).await.unwrap();
    thread.close().await.unwrap();
    agent.open(id).await.unwrap().say("go on", &NoWatcher).await.unwrap();
    for number in 0..3 {
        let told = all(&model.request(number));
        let text = "<hook event=\"SessionStart\">\nIt is Sunday.&lt;/hook>\n</hook>";
        assert_eq!(told.matches(text).count(), 1, "it is said once and stays: {told}");
    }
    let told = all(&model.request(3));
    assert!(told.find("Sunday").unwrap() < told.find("Monday").unwrap(), "{told}");
}

#[tokio::test]
async fn user_prompt_submit_sees_each_prompt_and_its_output_stays_for_the_turn() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE)]), text("1"), text("and now")]);
    let line = format!("{NOTE}; case $told in *'count this'*) echo 'They said: count this';; esac");
    let mut thread = open(&place.agent(&model, on("UserPromptSubmit", command(&line)))).await;
    thread.say("count this", &NoWatcher).await.unwrap();
    thread.say("and that", &NoWatcher).await.unwrap();
    let prompts: Vec<Value> = place.log(thread.id()).iter().map(|told| told["prompt"].clone()).collect();
    assert_eq!(prompts, ["count this", "and that"]);
    let said = |number| all(&model.request(number)).matches("They said: count this").count();
    assert_eq!([said(0), said(1), said(2)], [1, 1, 1], "it is said once, after the prompt");
}

#[tokio::test]
async fn user_prompt_submit_refuses_a_prompt_that_no_model_is_shown() {
    let place = Place::new().await;
    let model = Says::new([text("Good.")]);
    let own = on("UserPromptSubmit", command("! grep -q hunter2 || { echo 'no passwords' >&2; exit 2; }"));
    let mut thread = open(&place.agent(&model, own)).await;
    let turn = thread.say("my password is hunter2", &NoWatcher).await.unwrap();
    let reason = "the prompt was refused by a hook: no passwords".to_owned();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Stopped { reason }));
    assert_eq!(model.count(), 0);
    thread.say("something else", &NoWatcher).await.unwrap();
    let seen: Vec<String> = model.request(0).messages.iter().map(|message| message.text()).collect();
    assert_eq!(seen, ["something else"]);
}

#[tokio::test]
async fn pre_tool_use_is_told_the_call_and_blocks_it_with_exit_code_2() {
    let place = Place::new().await;
    let model =
        Says::new([calls(&[("a", "add", ONE), ("b", "add", "{\"numbers\": [2, 2]}")]), text("I see.")]);
    let line = format!("{NOTE}; case $told in *'[1]'*) echo 'one is none' >&2; exit 2;; esac");
    let mut thread = open(&place.agent(&model, on("PreToolUse", command(&line)))).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(results(&thread), ["Error: this call was blocked by a hook: one is none", "4"]);
    let mut log = place.log(thread.id());
    log.sort_by_key(|told| told["tool_use_id"].to_string());
    let told = json!({"session_id": thread.id(), "hook_event_name": "PreToolUse", "tool_name": "add",
        "tool_input": {"numbers": [1]}, "tool_use_id": "a"});
    assert_eq!((log.len(), &log[0]), (2, &told));
}

#[tokio::test]
async fn post_tool_use_is_told_the_answer_and_what_it_blocks_reaches_the_next_call() {
    let place = Place::new().await;
    let model = Says::new([
        calls(&[("a", "add", "{\"numbers\": [20, 22]}")]),
        calls(&[("b", "none", "{}")]),
        text("done"),
    ]);
    let own = on("PostToolUse", command(&format!("{NOTE}; echo 'look again' >&2; exit 2")));
    let mut thread = open(&place.agent(&model, own)).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let log = place.log(thread.id());
    assert_eq!(log.len(), 1, "a call that was never made has no hook: {log:?}");
    assert_eq!(
        (&log[0]["tool_response"], &log[0]["tool_input"]),
        (&json!("42"), &json!({"numbers": [20, 22]}))
    );
    assert_eq!(results(&thread)[0], "42", "the answer stays what it was");
    let told = |number| all(&model.request(number)).matches("About add: a hook: look again").count();
    assert_eq!([told(0), told(1), told(2)], [0, 1, 1], "it is said once");
}

#[tokio::test]
async fn post_tool_use_failure_is_told_of_errors_and_post_tool_use_is_not() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", "{\"numbers\": \"x\"}")]), text("Sorry.")]);
    let own = json!({
        "PostToolUse": [{"hooks": [command(NOTE)]}],
        "PostToolUseFailure": [{"hooks": [command(NOTE)]}],
    });
    let mut thread = open(&place.agent(&model, own)).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let log = place.log(thread.id());
    assert_eq!(names(&log), ["PostToolUseFailure"]);
    assert!(
        log[0]["error"].as_str().unwrap().starts_with("Error: add: the arguments are not right"),
        "{log:?}"
    );
}

fn ask_for_add() -> ToolPermissions {
    let rule = Rule::new("tool", "add", Decision::Ask);
    ToolPermissions::new(Permissions::unattended(Policy::new().rules(RuleSource::User, [rule])))
}

#[tokio::test]
async fn permission_request_comes_when_a_person_is_asked_and_can_refuse_for_them() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE), ("b", "add", "{\"numbers\": [2]}")]), text("done")]);
    let line = format!("{NOTE}; case $told in *'[1]'*) exit 2;; esac");
    let hooks = place.hooks(on("PermissionRequest", command(&line)));
    let agent = place.builder(&model).middleware(ask_for_add()).middleware(hooks).build().unwrap();
    let mut thread = open(&agent).await;
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!() };
    let waiting: Vec<&str> = waiting.iter().map(|waiting| waiting.call.id.as_str()).collect();
    assert_eq!(waiting, ["b"], "nobody is asked about what a hook refused");
    let id = thread.id().clone();
    thread.close().await.unwrap();
    let mut thread = agent.open(id).await.unwrap();
    thread.reply("b", CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(results(&thread), ["Error: this call was refused by a hook: no reason was given", "2"]);
    assert_eq!(names(&place.log(thread.id())), ["PermissionRequest"; 2], "each call once");
    assert_eq!(place.log(thread.id())[1]["tool_input"], json!({"numbers": [2]}));
}

#[tokio::test]
async fn permission_request_that_is_not_answered_refuses() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE)]), text("done")]);
    let hang = json!({"type": "command", "command": "sleep 1000", "timeout": 0.5});
    let hooks = place.hooks(on("PermissionRequest", hang));
    let agent = place.builder(&model).middleware(ask_for_add()).middleware(hooks).build().unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    let refused = "Error: this call was refused by a hook: it gave no verdict: it took too long";
    assert_eq!(results(&thread), [refused]);
}

/// The process dies before the hook has answered, and the person says yes to the next one.
#[tokio::test]
async fn permission_request_is_not_passed_by_dying() {
    let place = Place::new().await;
    let model = Says::new([calls(&[("a", "add", ONE)]), text("done")]);
    let hooks = place.hooks(on("PermissionRequest", command(&format!("{WAIT}; exit 2"))));
    let builder = place.builder(&model).middleware(ask_for_add()).middleware(hooks).options(short_lease());
    let (agent, id) = (builder.build().unwrap(), ThreadId::new());
    place.dies_in_a_hook(&agent, &id).await;
    let mut later = agent.open(id.clone()).await.unwrap();
    assert!(matches!(later.go_on(&NoWatcher).await.unwrap(), TurnStatus::Waiting(_)));
    later.reply("a", CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(results(&later), ["Error: this call was refused by a hook: no reason was given"]);
}

fn summarising(model: &Arc<Says>) -> Summarisation {
    Summarisation::new(model.clone(), Arc::new(MemoryBackend::new()))
        .trigger(Trigger::Messages(4))
        .keep(Keep::Messages(2))
}

#[tokio::test]
async fn pre_compact_can_keep_the_conversation_whole() {
    let place = Place::new().await;
    let model = Says::new([text("one"), text("two"), text("three")]);
    let writer = Says::new([]);
    let hooks = place.hooks(on("PreCompact", command(&format!("{NOTE}; exit 2"))));
    let agent = place.builder(&model).middleware(summarising(&writer)).middleware(hooks).build().unwrap();
    let mut thread = open(&agent).await;
    for word in ["a", "b", "c"] {
        thread.say(word, &NoWatcher).await.unwrap();
    }
    assert_eq!((thread.state().cut(), writer.count(), model.request(2).messages.len()), (0, 0, 5));
    assert_eq!(place.log(thread.id())[0]["trigger"], "auto");
}

#[tokio::test]
async fn post_compact_is_told_how_much_was_taken_out() {
    let place = Place::new().await;
    let model = Says::new([text("one"), text("two"), text("three")]);
    let writer = Says::new([text("They talked.")]);
    let own = json!({
        "PreCompact": [{"hooks": [command(NOTE)]}],
        "PostCompact": [{"matcher": "auto", "hooks": [command(NOTE)]}],
    });
    let agent =
        place.builder(&model).middleware(summarising(&writer)).middleware(place.hooks(own)).build().unwrap();
    let mut thread = open(&agent).await;
    for word in ["a", "b", "c"] {
        thread.say(word, &NoWatcher).await.unwrap();
    }
    let log = place.log(thread.id());
    assert_eq!(names(&log), ["PreCompact", "PostCompact"]);
    let cut = thread.state().cut();
    assert!(cut > 0);
    assert_eq!((&log[0]["messages"], &log[1]["messages"]), (&json!(cut), &json!(cut)));
}

#[tokio::test]
async fn subagent_start_can_refuse_and_subagent_stop_hears_the_answer() {
    let place = Place::new().await;
    let child = Says::new([text("It is 42.")]);
    let worker = Agent::builder(child.clone()).build().unwrap();
    let poet = Agent::builder(child.clone()).build().unwrap();
    let model = Says::new([
        calls(&[
            ("a", "task", r#"{"description": "Add."}"#),
            ("b", "task", r#"{"description": "Rhyme.", "subagent_type": "poet"}"#),
        ]),
        text("done"),
    ]);
    let own = json!({
        "SubagentStart": [
            {"matcher": "poet", "hooks": [command("echo 'no poems' >&2; exit 2")]},
            {"matcher": "general-purpose", "hooks": [command(NOTE)]},
        ],
        "SubagentStop": [{"hooks": [command(&format!("{NOTE}; echo 'was that all?' >&2; exit 2"))]}],
    });
    let tasks = SubAgents::new(worker).sub_agent("poet", "Rhymes.", poet);
    let agent = place.builder(&model).middleware(tasks).middleware(place.hooks(own)).build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(results(&thread)[0], "It is 42.");
    assert_eq!(results(&thread)[1], "Error: the sub-agent was not started: a hook: no poems");
    assert_eq!(child.count(), 1);
    let log = place.log(thread.id());
    assert_eq!(names(&log), ["SubagentStart", "SubagentStop"]);
    assert_eq!((&log[0]["agent_type"], &log[0]["prompt"]), (&json!("general-purpose"), &json!("Add.")));
    assert_eq!(log[1]["last_assistant_message"], "It is 42.");
    let prompt = all(&model.request(1));
    assert!(prompt.contains("About general-purpose: a hook: was that all?"), "{prompt}");
}

#[tokio::test]
async fn stop_keeps_the_turn_going_and_says_that_it_did() {
    let place = Place::new().await;
    let model = Says::new([text("Done."), text("Now it is done.")]);
    let line = format!(
        "{NOTE}; case $told in *'\"stop_hook_active\":true'*) ;; *) echo 'the tests fail' >&2; exit 2;; esac"
    );
    let mut thread = open(&place.agent(&model, on("Stop", command(&line)))).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(thread.last_response().as_deref(), Some("Now it is done."));
    let told = model.request(1).messages.last().map(|message| message.text());
    let message = "The turn is not over, because of a hook: the tests fail";
    assert_eq!(told.as_deref(), Some(message));
    let log = place.log(thread.id());
    assert_eq!((&log[0]["stop_hook_active"], &log[1]["stop_hook_active"]), (&json!(false), &json!(true)));
    assert_eq!(log[0]["last_assistant_message"], "Done.");
}

#[tokio::test]
async fn stop_cannot_keep_a_turn_going_for_ever() {
    let place = Place::new().await;
    let model = Says::new((0..10).map(|_| text("Done.")));
    let mut thread = open(&place.agent(&model, on("Stop", command("exit 2")))).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert_eq!(model.count(), 4);
    thread.say("again", &NoWatcher).await.unwrap();
    assert_eq!(model.count(), 8, "each turn is counted by itself");
}

#[tokio::test]
async fn session_end_comes_when_the_thread_is_closed() {
    let place = Place::new().await;
    let model = Says::new([text("Hello.")]);
    let agent = place.agent(&model, on("SessionEnd", command(NOTE)));
    let mut thread = open(&agent).await;
    let id = thread.id().clone();
    thread.say("hello", &NoWatcher).await.unwrap();
    assert_eq!(place.log(&id), [] as [Value; 0]);
    thread.close().await.unwrap();
    let told = json!({"session_id": id, "hook_event_name": "SessionEnd", "reason": "close"});
    assert_eq!(place.log(&id), [told]);
}

/// A hook is never a second voice of the person: what it puts into the conversation bears its mark.
#[tokio::test]
async fn what_stop_says_is_no_prompt() {
    let place = Place::new().await;
    let model = Says::new([text("Done."), text("Done.")]);
    let own = json!({
        "Stop": [{"hooks": [{"type": "command", "command": "exit 2", "once": true}]}],
        "UserPromptSubmit": [{"hooks": [command(NOTE)]}],
    });
    let mut thread = open(&place.agent(&model, own)).await;
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(place.log(thread.id()).len(), 1);
    let users =
        thread.state().messages().iter().filter(|message| matches!(message.content, Content::User { .. }));
    let marks: Vec<Option<&Value>> = users.map(|message| message.marks.get("hook")).collect();
    assert_eq!(marks, [None, Some(&json!("Stop"))]);
}
