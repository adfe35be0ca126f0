//! What a programmer reads when a request is wrong.

use insta::assert_snapshot;
use serde_json::json;

use super::Server;
use super::conversing::settled;
use crate::chat::world;
use crate::model::{Answer, FakeModel};

#[test]
fn an_error_names_the_field_in_a_plain_sentence() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let send = |path: &str, body: &str| {
        let json = ["content-type: application/json"];
        let answered = ada.request("POST", path, Some(body.as_bytes()), &json);
        assert_eq!(answered.status, 400, "{body}: {}", answered.text());
        answered.json()["error"]["message"].as_str().unwrap().to_owned()
    };
    let turn = |body: &str| send(&format!("/api/v1/threads/{thread}/turns"), body);
    assert_snapshot!(turn(""), @"The body is empty. Send a JSON object.");
    assert_snapshot!(turn("[1]"), @"The body must be a JSON object, not an array.");
    assert_snapshot!(turn("1"), @"The body is wrong: invalid type: integer `1`, expected an object.");
    assert_snapshot!(turn("{}"), @"The body is wrong: missing field `text`.");
    assert_snapshot!(turn(r#"{"text": "a"} b"#), @"The body is not valid JSON: trailing characters at line 1 column 15.");
    assert_snapshot!(turn(r#"{"text": 1}"#), @"The field `text` is wrong: invalid type: integer `1`, expected a string.");
    assert_snapshot!(turn(r#"{"text": "a", "txt": 1}"#), @"The field `txt` is wrong: unknown field `txt`, expected one of `text`, `mode`, `id`, `priority`.");
    assert_snapshot!(turn(r#"{"text": "a", "mode": "wait"}"#), @"The field `mode` is wrong: unknown variant `wait`, expected one of `reject`, `queue`, `interrupt`.");
    assert!(turn(&format!(r#"{{"{}": 1}}"#, "x".repeat(100_000))).len() < 1000);
    let agui = |messages: &str| {
        send("/agui/prowess", &format!(r#"{{"threadId": "t", "runId": "r", "messages": {messages}}}"#))
    };
    assert_snapshot!(agui(r#"["x"]"#), @r#"The field `messages[0]` is wrong: invalid type: string "x", expected an object."#);
    assert_snapshot!(agui(r#"[{"role": "user"}]"#), @"The field `messages[0]` is wrong: missing field `id`.");
    assert_snapshot!(send("/v1/responses", r#"{"model": "prowess", "input": 1}"#), @"The field `input` is wrong: it is neither a text nor an array of messages.");
    let query = |path: &str| {
        let answered = ada.ask("GET", path, None);
        assert_eq!(answered.status, 400, "{path}: {}", answered.text());
        answered.json()["error"]["message"].as_str().unwrap().to_owned()
    };
    assert_snapshot!(query("/threads?limit=many"), @"A parameter is wrong: limit: invalid digit found in string.");
    assert_snapshot!(query(&format!("/threads/{thread}/export?format=pdf")), @"A parameter is wrong: format: unknown variant `pdf`, expected `markdown` or `json`.");
    assert_snapshot!(query("/threads/%FF"), @"A part of the address is not text in UTF-8.");
}

#[test]
fn advice_about_a_turn_in_progress_is_something_that_the_client_can_do() {
    let model = FakeModel::start(vec![
        Answer::call("skill_run", json!({"skill": "tides", "command": "sh scripts/tides.sh"})),
        Answer::hang(),
    ]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let refusals = || {
        let json = ["content-type: application/json"];
        let turn = json!({"text": "And?"}).to_string();
        let message = json!({"id": "m", "role": "user", "content": "And?"});
        let run = json!({"threadId": thread, "runId": "r", "messages": [message]}).to_string();
        let said = [(format!("/api/v1/threads/{thread}/turns"), turn), ("/agui/prowess".to_owned(), run)];
        let texts = said.map(|(path, body)| {
            let refused = ada.request("POST", &path, Some(body.as_bytes()), &json);
            assert_eq!(refused.status, 409, "{path}: {}", refused.text());
            refused.json()["error"]["message"].as_str().unwrap().to_owned()
        });
        texts.join("\n")
    };
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Look up the tide."}), 202);
    let question = stream.until("asked").pop().unwrap().data;
    settled(&ada, &thread);
    assert_snapshot!(refusals(), @r#"A question waits for a reply. Reply to it, or send the message with the mode `queue` or `interrupt`.
A question waits for a reply. Send the reply in `resume`. A message of the same run waits for the end of the turn."#);
    let path = format!("/threads/{thread}/questions/{}", question["number"]);
    ada.post(&path, json!({"reply": "approve"}), 202);
    model.wait_for_requests(2);
    assert_snapshot!(refusals(), @r#"A turn is in progress. Wait for its end, or send the message with the mode `queue` or `interrupt`.
A turn is in progress. Send a run without a new message to join it, and the message after its end."#);
}

#[test]
fn a_thread_that_the_server_only_looks_at_can_be_deleted() {
    let model = FakeModel::start(vec![Answer::text("One."), Answer::hang()]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    ada.say(&thread, "Begin.");
    for _ in 0..10 {
        let fork = ada.post(&format!("/threads/{thread}/fork"), json!({}), 201);
        ada.post(&format!("/threads/{thread}/fork"), json!({"through": 999}), 400);
        let path = format!("/threads/{}", fork["id"].as_str().unwrap());
        let deleted = ada.ask("DELETE", &path, None);
        assert_eq!(deleted.status, 204, "{}", deleted.text());
        assert_eq!(ada.ask("GET", &path, None).status, 404);
    }
    // A turn in progress has to be cancelled before, and that is enough.
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Go on.", "mode": "queue"}), 202);
    model.wait_for_requests(2);
    let refused = ada.ask("DELETE", &format!("/threads/{thread}"), None);
    assert_eq!(refused.status, 409);
    assert_snapshot!(refused.json()["error"]["message"].as_str().unwrap(), @"The agent works on the thread. Cancel its turn first.");
    ada.post(&format!("/threads/{thread}/cancel"), json!({}), 202);
    let deleted = ada.ask("DELETE", &format!("/threads/{thread}"), None);
    assert_eq!(deleted.status, 204, "{}", deleted.text());
}
