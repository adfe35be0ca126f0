//! Questions and replies over the wire.

use serde_json::{Value, json};

use super::Server;
use super::client::Client;
use super::conversing::settled;
use crate::chat::world;
use crate::model::{Answer, FakeModel};

const RUN: &str = "skill_run";

fn run() -> Value {
    json!({"skill": "tides", "command": "sh scripts/tides.sh"})
}

/// Says something that leads to a question, and gives the question.
fn asked(client: &Client, thread: &str, text: &str) -> Value {
    let mut stream = client.events(thread, None);
    client.post(&format!("/threads/{thread}/turns"), json!({"text": text}), 202);
    stream.until("asked").last().unwrap().data.clone()
}

fn reply(client: &Client, question: &Value, body: Value, status: u16) -> Value {
    let (thread, number) = (question["thread"].as_str().unwrap(), &question["number"]);
    client.post(&format!("/threads/{thread}/questions/{number}"), body, status)
}

#[test]
fn a_question_is_asked_once_and_the_first_reply_counts() {
    let model = FakeModel::start(vec![Answer::call(RUN, run()), Answer::text("High.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let question = asked(&ada, &thread, "Look up the tide.");
    assert!(question["title"].as_str().unwrap().contains("tides"), "{question:#}");
    assert_eq!(question["tool"], RUN);
    assert_eq!(settled(&ada, &thread)["status"], "waiting");
    let waiting = &ada.get("/questions")["items"];
    assert_eq!((&waiting[0]["number"], &waiting[0]["title"]), (&question["number"], &question["title"]));
    assert_eq!(waiting.as_array().unwrap().len(), 1);
    assert_eq!(ada.get("/threads")["items"][0]["waiting"], 1);

    let mut stream = ada.events(&thread, None);
    reply(&ada, &question, json!({"reply": "approve"}), 202);
    let again = reply(&ada, &question, json!({"reply": "reject"}), 409);
    assert_eq!(again["error"]["code"], "conflict");
    let events = stream.until("turn_ended");
    let answered = events.iter().find(|event| event.name == "tool_answered").unwrap();
    assert!(answered.data["text"].as_str().unwrap().contains("high"), "{:#}", answered.data);
    assert_eq!(answered.data["data"]["kind"], "ran");
    settled(&ada, &thread);
    assert_eq!(ada.get("/questions")["items"], json!([]));
    reply(&ada, &question, json!({"reply": "approve"}), 409);
    // Nothing that a client reads names a directory of the server.
    let log = ada.get(&format!("/threads/{thread}/log")).to_string();
    let home = world.path("home/.local");
    assert!(!log.contains(home.to_str().unwrap()), "{log}");
}

#[test]
fn a_rejection_has_a_reason_that_the_model_reads() {
    let model = FakeModel::start(vec![Answer::call(RUN, run()), Answer::text("Then not.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let question = asked(&ada, &thread, "Look up the tide.");
    let mut stream = ada.events(&thread, None);
    reply(&ada, &question, json!({"reply": "reject", "message": "The sensor is broken."}), 202);
    let events = stream.until("turn_ended");
    let replied = events.iter().find(|event| event.name == "replied").unwrap();
    assert_eq!(replied.data["message"], "The sensor is broken.");
    assert!(model.requests()[1].to_string().contains("The sensor is broken."));
}

#[test]
fn an_edited_call_is_asked_about_again_and_made_as_edited() {
    let write = json!({"file_path": "/project/plan.md", "content": "Sail at ten."});
    let model =
        FakeModel::start(vec![Answer::call(RUN, run()).and_call("write_file", write), Answer::text("Done.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Look up the tide, and plan."}), 202);
    let questions = [stream.until("asked"), stream.until("asked")];
    let mut edited = Vec::new();
    for events in questions {
        let question = &events.last().unwrap().data;
        assert_eq!(question["can_edit"], true, "{question:#}");
        reply(&ada, question, json!({"reply": "edit", "arguments": [1]}), 400);
        let arguments = match question["tool"].as_str() {
            Some(RUN) => json!({"skill": "tides", "command": "echo low > out/low.txt; cat out/low.txt"}),
            _ => json!({"file_path": "/project/plan.md", "content": "Sail at noon."}),
        };
        edited.push((question.clone(), arguments));
    }
    for (question, arguments) in edited {
        reply(&ada, &question, json!({"reply": "edit", "arguments": arguments}), 202);
        let replied = stream.until("replied").pop().unwrap().data;
        assert_eq!((&replied["reply"], &replied["arguments"]), (&json!("edit"), &arguments));
        // Nothing was done yet. The new question is about the new arguments.
        let again = stream.until("asked").pop().unwrap().data;
        assert_eq!((&again["call"], &again["arguments"]), (&question["call"], &arguments));
        let told = format!("{} {}", again["title"], again["details"]);
        assert!(told.contains("echo low") || told.contains("Sail at noon."), "{again:#}");
        reply(&ada, &question, json!({"reply": "approve"}), 409);
        reply(&ada, &again, json!({"reply": "approve"}), 202);
        stream.until("replied");
    }
    stream.until("turn_ended");
    let whole = settled(&ada, &thread);
    let answers: Vec<&str> = whole["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["text"].as_str().unwrap())
        .collect();
    assert!(answers.iter().all(|text| text.starts_with("(The user changed the arguments")), "{answers:#?}");
    assert!(answers[0].contains("\"stdout\":\"low"), "{answers:#?}");
    let plan = format!("/api/v1/threads/{thread}/files/content?path=/project/plan.md");
    assert_eq!(ada.request("GET", &plan, None, &[]).text(), "Sail at noon.");
}

#[test]
fn a_reply_to_no_question_is_told_from_a_late_one() {
    let model = FakeModel::start(vec![Answer::call(RUN, run()), Answer::text("Then not.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let (ada, bob) = (server.client("admin"), server.new_user("bob"));
    let thread = ada.thread();
    let question = asked(&ada, &thread, "Look up the tide.");
    let number = question["number"].as_u64().unwrap();
    for unknown in ["1".to_owned(), (number + 1000).to_string(), "x".to_owned(), "-1".to_owned()] {
        let path = format!("/threads/{thread}/questions/{unknown}");
        let refused = ada.post(&path, json!({"reply": "approve"}), 404);
        let text = format!("There is no question `{unknown}` in this thread.");
        assert_eq!(refused["error"]["message"], text);
    }
    // A question of somebody else is no question, whatever its number.
    for number in [number, number + 1000] {
        let path = format!("/threads/{thread}/questions/{number}");
        let refused = bob.post(&path, json!({"reply": "approve"}), 404);
        assert_eq!(refused["error"]["message"], format!("There is no thread `{thread}`."));
    }
    reply(&ada, &question, json!({"reply": "reject"}), 202);
    reply(&ada, &question, json!({"reply": "reject"}), 409);
    settled(&ada, &thread);
    reply(&ada, &question, json!({"reply": "reject"}), 409);
}

#[test]
fn always_is_for_one_user_alone() {
    let model = FakeModel::start(vec![
        Answer::call(RUN, run()),
        Answer::text("One."),
        Answer::call(RUN, run()),
        Answer::text("Two."),
        Answer::call(RUN, run()),
    ]);
    let world = world(&model);
    let server = Server::start(&world);
    let (ada, bob) = (server.client("admin"), server.new_user("bob"));
    let thread = ada.thread();
    let question = asked(&ada, &thread, "Look up the tide.");
    assert_eq!(question["can_always"], true);
    let mut stream = ada.events(&thread, None);
    reply(&ada, &question, json!({"reply": "always"}), 202);
    stream.until("turn_ended");
    settled(&ada, &thread);
    // Ada is not asked again, in another thread too.
    let events = ada.say(&ada.thread(), "Again.");
    assert!(!events.iter().any(|event| event.name == "asked"));
    let question = asked(&bob, &bob.thread(), "Look up the tide.");
    assert_eq!(question["tool"], RUN);
}

#[test]
fn replies_are_in_the_audit_log_and_need_their_scope() {
    let model = FakeModel::start(vec![Answer::call(RUN, run()), Answer::text("High.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let reader = server.client_with("admin", &["--scope", "read", "--scope", "write"]);
    let admin = server.client_with("admin", &["--scope", "read", "--scope", "admin"]);
    let thread = ada.thread();
    let question = asked(&ada, &thread, "Look up the tide.");
    let refused = reply(&reader, &question, json!({"reply": "approve"}), 403);
    assert!(refused["error"]["message"].as_str().unwrap().contains("approve"), "{refused}");
    reply(&ada, &question, json!({"reply": "approve"}), 202);
    settled(&ada, &thread);
    let entry = &admin.get("/audit")["items"][0];
    assert_eq!(entry["action"], "reply");
    assert_eq!(entry["thread"], thread.as_str());
    assert_eq!(entry["detail"]["number"], question["number"]);
    assert_eq!(ada.ask("GET", "/audit", None).status, 403);
}
