//! AG-UI over the wire.

use std::time::Duration;

use serde_json::{Value, json};

use super::Server;
use super::client::{Answered, Client};
use crate::chat::world;
use crate::model::{Answer, FakeModel};

fn send(client: &Client, input: &Value) -> Answered {
    let body = input.to_string();
    client.request("POST", "/agui/prowess", Some(body.as_bytes()), &["content-type: application/json"])
}

/// The events of a run.
fn run(client: &Client, input: &Value) -> Vec<Value> {
    let answered = send(client, input);
    assert_eq!(answered.status, 200, "{}", answered.text());
    let text = answered.text();
    text.split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .map(|event| serde_json::from_str(event).unwrap())
        .collect()
}

fn input(thread: &str, said: &[(&str, &str)]) -> Value {
    let message = |(id, text): &(&str, &str)| json!({"id": id, "role": "user", "content": text});
    let messages: Vec<Value> = said.iter().map(message).collect();
    json!({"threadId": thread, "runId": "r", "state": {}, "messages": messages, "tools": [], "context": [], "forwardedProps": {}})
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[test]
fn a_run_says_what_is_new_once() {
    let model = FakeModel::start(vec![Answer::text("One."), Answer::text("Two.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let events = run(&ada, &input("mine", &[("a", "First")]));
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..3], ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]);
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
    let said: String =
        of(&events, "TEXT_MESSAGE_CONTENT").iter().map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(said, "One.");
    // The same again says nothing.
    run(&ada, &input("mine", &[("a", "First")]));
    run(&ada, &input("mine", &[("a", "First"), ("b", "Second")]));
    assert_eq!(model.requests().len(), 2);
    let thread = events[1]["snapshot"]["thread"].as_str().unwrap();
    // The server's own id of the thread means it, too.
    let events = run(&ada, &input(thread, &[]));
    assert_eq!(of(&events, "MESSAGES_SNAPSHOT")[0]["messages"].as_array().unwrap().len(), 4);
    assert_eq!(ada.get("/threads")["items"].as_array().unwrap().len(), 1);
}

#[test]
fn the_same_name_of_a_thread_means_another_thread_for_each_user() {
    let model = FakeModel::start(vec![Answer::text("For Ada."), Answer::text("For Bob.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let (ada, bob) = (server.client("admin"), server.new_user("bob"));
    let events = run(&ada, &input("ours", &[("a", "Hello")]));
    let thread = events[1]["snapshot"]["thread"].as_str().unwrap().to_owned();
    let events = run(&bob, &input("ours", &[("a", "Hello")]));
    assert_ne!(events[1]["snapshot"]["thread"], thread.as_str());
    // The id of Ada's thread is a name like any other for Bob.
    let events = run(&bob, &input(&thread, &[]));
    assert_eq!(of(&events, "MESSAGES_SNAPSHOT")[0]["messages"], json!([]));
    assert_eq!(ada.get(&format!("/threads/{thread}"))["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn an_interrupt_is_answered_once_and_needs_the_right_to_approve() {
    let call = json!({"skill": "tides", "command": "sh scripts/tides.sh"});
    let model = FakeModel::start(vec![Answer::call("skill_run", call), Answer::text("High.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let writer = server.client_with("admin", &["--scope", "read", "--scope", "write"]);
    let events = run(&ada, &input("mine", &[("a", "Look up the tide.")]));
    let interrupt = &events.last().unwrap()["outcome"]["interrupts"][0];
    assert!(interrupt["message"].as_str().unwrap().contains("tides"), "{interrupt:#}");
    let mut reply = input("mine", &[]);
    reply["resume"] =
        json!([{"interruptId": interrupt["id"], "status": "resolved", "payload": {"reply": "approve"}}]);
    assert_eq!(send(&writer, &reply).status, 403);
    let mut wrong = reply.clone();
    wrong["resume"][0]["payload"] = json!({"reply": "perhaps"});
    assert_eq!(send(&ada, &wrong).json()["error"]["code"], "bad_request");
    // Without a reply, a message is refused.
    let refused = send(&ada, &input("mine", &[("b", "And?")]));
    assert_eq!(refused.status, 409);
    assert!(refused.text().contains("A question waits for a reply"), "{}", refused.text());
    let events = run(&ada, &reply);
    assert!(of(&events, "TOOL_CALL_RESULT")[0]["content"].as_str().unwrap().contains("high"));
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
    let events = run(&ada, &reply);
    assert_eq!(of(&events, "CUSTOM")[0]["name"], "prowess.notice");
    assert_eq!(model.requests().len(), 2);
}

#[test]
fn an_interrupt_offers_the_replies_that_its_question_takes() {
    let call = json!({"skill": "tides", "command": "sh scripts/tides.sh"});
    let model = FakeModel::start(vec![Answer::call("skill_run", call), Answer::text("Low.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let events = run(&ada, &input("mine", &[("a", "Look up the tide.")]));
    let interrupt = &events.last().unwrap()["outcome"]["interrupts"][0];
    let properties = &interrupt["responseSchema"]["properties"];
    assert_eq!(properties["reply"]["enum"], json!(["approve", "always", "reject", "reject_all", "edit"]));
    assert_eq!(properties["arguments"]["type"], "object");
    let resume = |id: &Value, payload: Value| {
        let mut input = input("mine", &[]);
        input["resume"] = json!([{"interruptId": id, "status": "resolved", "payload": payload}]);
        input
    };
    let unknown = send(&ada, &resume(&json!("1000"), json!({"reply": "approve"})));
    assert_eq!((unknown.status, unknown.json()["error"]["code"].as_str()), (404, Some("not_found")));
    let arguments = json!({"skill": "tides", "command": "echo low"});
    let edit = json!({"reply": "edit", "arguments": arguments});
    let events = run(&ada, &resume(&interrupt["id"], edit));
    let again = &events.last().unwrap()["outcome"]["interrupts"][0];
    assert_ne!(again["id"], interrupt["id"]);
    assert_eq!(again["metadata"]["question"]["arguments"], arguments);
    let events = run(&ada, &resume(&again["id"], json!({"reply": "approve"})));
    let result = of(&events, "TOOL_CALL_RESULT")[0]["content"].as_str().unwrap();
    assert!(result.starts_with("(The user changed the arguments") && result.contains("low"), "{result}");
}

#[test]
fn a_turn_goes_on_without_its_client_and_a_run_joins_it() {
    let model =
        FakeModel::start(vec![Answer::slow("It is high tide at noon today.", Duration::from_millis(300))]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let said = input("mine", &[("a", "When is high tide?")]);
    // A client that goes at once.
    let body = said.to_string();
    let mut stream = std::net::TcpStream::connect(&ada.address).unwrap();
    let head = format!(
        "POST /agui/prowess HTTP/1.1\r\nhost: {}\r\n{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        ada.address,
        ada.headers[0],
        body.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    model.wait_for_requests(1);
    drop(stream);
    let events = run(&ada, &said);
    let text: String =
        of(&events, "TEXT_MESSAGE_CONTENT").iter().map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(text, "It is high tide at noon today.");
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
    assert_eq!(model.requests().len(), 1);
}
