//! Conversations: turns, events, and what a client can read afterwards.

use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::Server;
use super::client::Streamed;
use crate::chat::world;
use crate::model::{Answer, FakeModel};

/// The names of the stored events.
fn names(events: &[Streamed]) -> String {
    let stored = events.iter().filter(|event| event.id.is_some());
    stored.map(|event| event.name.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_person_converses_and_reads_everything_again() {
    let model = FakeModel::start(vec![
        Answer::slow("It is high tide at noon.", Duration::from_millis(60)).usage(1000, 20),
        Answer::call("skill_load", json!({"skill": "tides"})),
        Answer::text("Loaded."),
    ]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let me = ada.get("/me");
    assert_eq!(me["user"]["name"], "admin");
    assert_eq!(me["scopes"], json!(["read", "write", "approve"]));

    let thread = ada.thread();
    let events = ada.say(&thread, "When is high tide?\nTell me.");
    assert_snapshot!(names(&events), @"turn_started state_changed state_changed state_changed state_changed state_changed state_changed model_called responded turn_ended");
    let said: String = events
        .iter()
        .filter(|event| event.name == "text")
        .map(|event| event.data["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, "It is high tide at noon.");
    let responded = events.iter().find(|event| event.name == "responded").unwrap();
    assert_eq!(responded.data["message"]["text"], said);
    assert_eq!(responded.data["usage"], json!({"input": 1000, "output": 20, "cached": 0}));

    let events = ada.say(&thread, "Load the skill.");
    assert_snapshot!(names(&events), @"turn_started state_changed state_changed model_called responded tool_started tool_answered state_changed model_called responded turn_ended");
    let answered = events.iter().find(|event| event.name == "tool_answered").unwrap();
    assert_eq!(answered.data["loaded"][0]["name"], "tides");

    // All of it is there afterwards, in the list too.
    let whole = settled(&ada, &thread);
    assert_eq!(whole["title"], "When is high tide?");
    assert_eq!(whole["status"], "idle");
    assert_eq!(whole["skills"][0]["name"], "tides");
    let texts: Vec<&str> = whole["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .map(|message| message["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["It is high tide at noon.", "", "Loaded."]);
    let listed = ada.get("/threads?search=HIGH");
    assert_eq!(listed["items"][0]["id"], thread.as_str());
    assert_eq!(ada.get("/threads?search=sextant")["items"], json!([]));
    let log = ada.get(&format!("/threads/{thread}/log"));
    let numbers: Vec<u64> =
        log["items"].as_array().unwrap().iter().map(|event| event["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=log["last"].as_u64().unwrap()).collect::<Vec<_>>());
    let context = ada.get(&format!("/threads/{thread}/context"));
    assert!(context["tokens"].as_u64().unwrap() > 100, "{context}");
    assert_eq!(context["window"], 100_000);
    let usage = ada.get(&format!("/threads/{thread}/usage"));
    assert_eq!(usage["model_calls"].as_array().unwrap().len(), 3);
    assert_eq!(ada.get("/usage")["total"]["tokens"], usage["tokens"]);
    let markdown = ada.request("GET", &format!("/api/v1/threads/{thread}/export"), None, &[]).text();
    assert!(
        markdown.contains("# When is high tide?") && markdown.contains("It is high tide at noon."),
        "{markdown}"
    );
}

#[test]
fn an_agent_says_what_it_has_and_who_may_reply() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let server = Server::start_with(&world, &["--own-skills", "admin"]);
    let agents = server.client("admin").get("/agents");
    let agent = &agents["items"][0];
    assert_eq!((&agent["name"], &agent["model"]), (&json!("prowess"), &json!("fake:m")));
    assert_eq!((&agent["window"], &agent["skills"]), (&json!(100_000), &json!(1)));
    assert_eq!(agent["own_skills"], "admin");
    assert_eq!(agent["approvers"], "the owner of the thread, with the scope `approve`");
    let rules = agent["rules"].as_array().unwrap();
    assert!(rules.contains(&json!({"kind": "write", "pattern": "*", "decision": "ask"})), "{agent:#}");
    let budgets = json!({"overview_tokens": 4000, "loaded_skills": 10, "loaded_tokens": null});
    assert_eq!(agent["budgets"], budgets);
    // The paths of the server are nobody's business.
    let told = agents.to_string();
    assert!(!told.contains(world.path("").to_str().unwrap()) && !told.contains("/etc/"), "{agent:#}");
    assert!(agent["limits"]["model_calls"].is_u64(), "{agent:#}");
    assert!(agent["limits"]["tokens"].is_null() && agent["limits"]["cost"].is_null(), "{agent:#}");
}

/// The thread when no worker has it any more.
#[expect(clippy::disallowed_methods, reason = "the server limits how often a user asks")]
pub(super) fn settled(client: &super::client::Client, thread: &str) -> Value {
    let begun = std::time::Instant::now();
    loop {
        let whole = client.get(&format!("/threads/{thread}"));
        if matches!(whole["status"].as_str(), Some("idle" | "waiting")) {
            return whole;
        }
        assert!(begun.elapsed() < super::PATIENCE, "the thread never came to rest: {whole:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn lists_of_skills_and_events_come_in_parts() {
    let model = FakeModel::start(vec![Answer::text("One."), Answer::text("Two.")]);
    let world = world(&model);
    for name in ["one", "two", "three"] {
        world.skill("home/.prowess/skills", name, "Counts. Use to count.");
    }
    let server = Server::start(&world);
    let ada = server.client("admin");
    for search in ["", "&search=count"] {
        let (mut names, mut after) = (Vec::new(), String::new());
        loop {
            let part = ada.get(&format!("/skills?limit=1{search}{after}"));
            let items = part["items"].as_array().unwrap();
            assert_eq!(items.len(), 1, "{part}");
            names.push(items[0]["name"].as_str().unwrap().to_owned());
            let Some(next) = part["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        let all = ada.get(&format!("/skills?limit=200{search}"));
        let all: Vec<&str> =
            all["items"].as_array().unwrap().iter().map(|skill| skill["name"].as_str().unwrap()).collect();
        assert!(names.len() >= 3);
        assert_eq!(names, all);
    }
    let thread = ada.thread();
    for text in ["First.", "Second."] {
        ada.say(&thread, text);
    }
    settled(&ada, &thread);
    let path = format!("/threads/{thread}/log");
    let whole = ada.get(&path);
    let mut items = Vec::new();
    while (items.len() as u64) < whole["last"].as_u64().unwrap() {
        let part = ada.get(&format!("{path}?limit=3&after={}", items.len()));
        assert!(part["items"].as_array().unwrap().len() <= 3);
        items.extend(part["items"].as_array().unwrap().clone());
    }
    assert_eq!(json!(items), whole["items"]);
    let exported = ada.request("GET", &format!("/api/v1/threads/{thread}/export?format=json"), None, &[]);
    assert_eq!(exported.json(), whole["items"]);
}

#[test]
fn a_stream_that_is_resumed_misses_and_repeats_nothing() {
    let model = FakeModel::start(vec![
        Answer::call("write_todos", json!({"todos": [{"content": "Look", "status": "in_progress"}]})),
        Answer::text("One."),
        Answer::text("Two."),
    ]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    ada.say(&thread, "Begin.");
    ada.say(&thread, "Go on.");
    let whole = settled(&ada, &thread);
    assert_eq!(whole["todos"], json!([{"content": "Look", "status": "in_progress"}]));
    let last = whole["last"].as_u64().unwrap();
    let mut all = ada.events(&thread, Some(0)).until("live");
    all.pop();
    assert_eq!(all.len() as u64, last);
    for after in 0..=last {
        let mut resumed = ada.events(&thread, Some(after)).until("live");
        resumed.pop();
        let expected: Vec<_> = all.iter().filter(|event| event.id > Some(after)).cloned().collect();
        assert_eq!(resumed, expected, "after {after}");
    }
}

#[test]
fn case_141_a_foreign_or_future_event_id_is_refused() {
    let model = FakeModel::start(vec![Answer::text("One.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    ada.say(&thread, "Begin.");
    assert_eq!(ada.events(&thread, Some(10_000)).status, 400);
    for id in ["x", "-1", "1e9", "18446744073709551616", "1\u{0}"] {
        let header = format!("last-event-id: {id}");
        let answered = ada.request("GET", &format!("/api/v1/threads/{thread}/events"), None, &[&header]);
        assert_eq!(answered.status, 400, "{id:?}: {}", answered.text());
    }
}

#[test]
fn a_message_during_a_turn_waits_interrupts_or_is_refused() {
    let model = FakeModel::start(vec![Answer::hang(), Answer::text("Second.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    let turns = format!("/threads/{thread}/turns");
    ada.post(&turns, json!({"text": "First?", "id": "mine"}), 202);
    model.wait_for_requests(1);
    let refused = ada.post(&turns, json!({"text": "Second?"}), 409);
    assert_eq!(refused["error"]["code"], "conflict");
    assert!(refused["error"]["message"].as_str().unwrap().contains("A turn is in progress"), "{refused}");
    // The same message again is not said twice, whatever the mode.
    ada.post(&turns, json!({"text": "First?", "id": "mine"}), 202);
    ada.post(&turns, json!({"text": "Third?", "mode": "queue"}), 202);
    ada.post(&format!("/threads/{thread}/cancel"), json!({}), 202);
    let ended = stream.until("turn_ended");
    assert_eq!(ended.last().unwrap().data["outcome"], "cancelled");
    model.wait_for_ends(1);
    let ended = stream.until("turn_ended");
    assert_eq!(ended.last().unwrap().data["outcome"], "answered");
    let whole = settled(&ada, &thread);
    let said: Vec<&str> = whole["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "user" && message["by"].is_null())
        .map(|message| message["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["First?", "Third?"]);
    assert_eq!(ada.ask("POST", &format!("/threads/{thread}/cancel"), Some(json!({}))).status, 409);

    // An interrupting message ends the turn and begins the next one.
    model.then(vec![Answer::hang(), Answer::text("Now.")]);
    ada.post(&turns, json!({"text": "Fourth?"}), 202);
    model.wait_for_requests(3);
    ada.post(&turns, json!({"text": "Fifth?", "mode": "interrupt"}), 202);
    assert_eq!(stream.until("turn_ended").last().unwrap().data["outcome"], "cancelled");
    assert_eq!(stream.until("turn_ended").last().unwrap().data["outcome"], "answered");
}

#[test]
fn threads_are_renamed_forked_and_deleted() {
    let model = FakeModel::start(vec![Answer::text("One."), Answer::text("Two.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    ada.say(&thread, "Begin.");
    settled(&ada, &thread);
    let named = ada.ask("PATCH", &format!("/threads/{thread}"), Some(json!({"title": "Tides <b>"})));
    assert_eq!(named.json()["title"], "Tides <b>");
    let content = format!("/api/v1/threads/{thread}/files/content?path=/project/plan.md");
    assert_eq!(ada.request("PUT", &content, Some(b"The plan."), &[]).status, 201);

    let copy =
        ada.post(&format!("/threads/{thread}/fork"), json!({}), 201)["id"].as_str().unwrap().to_owned();
    ada.say(&copy, "Go on.");
    assert_eq!(settled(&ada, &copy)["messages"].as_array().unwrap().len(), 4);
    assert_eq!(settled(&ada, &thread)["messages"].as_array().unwrap().len(), 2);
    let in_copy = format!("/api/v1/threads/{copy}/files/content?path=/project/plan.md");
    assert_eq!(ada.request("GET", &in_copy, None, &[]).text(), "The plan.");

    settled(&ada, &copy);
    assert_eq!(ada.ask("DELETE", &format!("/threads/{thread}"), None).status, 204);
    assert_eq!(ada.ask("GET", &format!("/threads/{thread}"), None).status, 404);
    assert_eq!(ada.get("/threads")["items"].as_array().unwrap().len(), 1);
    let left = world.path(&format!("home/.local/state/prowess/serve/projects/{thread}"));
    assert!(!left.exists());
    assert_eq!(ada.request("GET", &in_copy, None, &[]).text(), "The plan.");
}

#[test]
fn skills_are_listed_searched_started_and_unloaded() {
    let model = FakeModel::start(vec![Answer::text("Yes."), Answer::text("Unloaded.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    assert_eq!(ada.get("/skills")["items"][0]["name"], "tides");
    assert_eq!(ada.get("/skills?search=boat")["items"][0]["name"], "tides");
    assert_eq!(ada.get("/skills?search=sextant")["items"], json!([]));
    let skill = ada.get("/skills/tides");
    assert!(skill["instructions"].as_str().unwrap().contains("Run scripts/tides.sh"), "{skill:#}");
    let paths: Vec<&str> =
        skill["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["scripts/tides.sh"]);
    assert_eq!(ada.ask("GET", "/skills/other", None).status, 404);

    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/skills/tides"), json!({}), 202);
    stream.until("turn_ended");
    let loaded = ada.get(&format!("/threads/{thread}/skills"));
    assert_eq!(loaded["items"][0]["name"], "tides");
    settled(&ada, &thread);
    assert_eq!(ada.ask("DELETE", &format!("/threads/{thread}/skills/tides"), None).status, 202);
    let changed = stream.until("state_changed");
    assert_eq!(changed.last().unwrap().data["unloaded"], json!(["tides"]));
    assert_eq!(ada.get(&format!("/threads/{thread}/skills"))["items"], json!([]));
    assert_eq!(ada.ask("DELETE", &format!("/threads/{thread}/skills/tides"), None).status, 404);
}
