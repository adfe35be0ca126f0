//! OpenAI's protocols over the wire.

use serde_json::{Value, json};

use super::Server;
use super::client::{Answered, Client};
use crate::chat::world;
use crate::model::{Answer, FakeModel};

fn post(client: &Client, path: &str, body: &Value) -> Answered {
    let body = body.to_string();
    client.request("POST", path, Some(body.as_bytes()), &["content-type: application/json"])
}

fn hello() -> Value {
    json!({"model": "prowess", "messages": [{"role": "user", "content": "Hello"}]})
}

#[test]
fn a_chat_completion_is_a_new_thread_of_its_user() {
    let model = FakeModel::start(vec![Answer::text("One."), Answer::text("Two.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let listed = ada.request("GET", "/v1/models", None, &[]).json();
    assert_eq!(listed["data"][0]["id"], "prowess");
    let whole = post(&ada, "/v1/chat/completions", &hello()).json();
    assert_eq!(whole["choices"][0]["message"]["content"], "One.");
    assert_eq!(whole["usage"]["total_tokens"], 110);
    let thread = whole["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap().to_owned();
    assert_eq!(ada.get(&format!("/threads/{thread}"))["messages"][1]["text"], "One.");
    let mut request = hello();
    request["stream"] = true.into();
    let streamed = post(&ada, "/v1/chat/completions", &request).text();
    assert!(streamed.contains("Two.") && streamed.trim_end().ends_with("data: [DONE]"), "{streamed}");
    assert_eq!(ada.get("/threads")["items"].as_array().unwrap().len(), 2);
}

#[test]
fn a_response_continues_its_thread_and_nobody_elses() {
    let model = FakeModel::start(vec![Answer::text("One."), Answer::text("Two."), Answer::text("Other.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let (ada, bob) = (server.client("admin"), server.new_user("bob"));
    let ask = |client: &Client, input: &str, previous: Option<&Value>| {
        let body = json!({"model": "prowess", "input": input, "previous_response_id": previous});
        post(client, "/v1/responses", &body)
    };
    let first = ask(&ada, "First", None).json();
    assert_eq!(first["output"][0]["content"][0]["text"], "One.", "{first:#}");
    let second = ask(&ada, "Second", Some(&first["id"])).json();
    assert_eq!(second["output"][0]["content"][0]["text"], "Two.");
    let thread = |response: &Value| response["id"].as_str().unwrap().split('_').nth(1).unwrap().to_owned();
    assert_eq!(thread(&first), thread(&second));
    // An earlier response goes on in a copy, which does not have what came later.
    let branch = ask(&ada, "Third", Some(&first["id"])).json();
    assert_ne!(thread(&first), thread(&branch));
    let said = model.requests()[2]["messages"].to_string();
    assert!(said.contains("First") && !said.contains("Second"), "{said}");
    let foreign = ask(&bob, "Mine?", Some(&first["id"]));
    assert_eq!(
        (foreign.status, foreign.json()["error"]["type"].as_str().unwrap()),
        (404, "invalid_request_error")
    );
}

#[test]
fn a_question_ends_the_answer_with_a_link() {
    let run = json!({"skill": "tides", "command": "sh scripts/tides.sh"});
    let model =
        FakeModel::start(vec![Answer::call("skill_run", run), Answer::text("High."), Answer::text("Yes.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let ask = |previous: Option<&Value>| {
        let body =
            json!({"model": "prowess", "input": "Look up the tide.", "previous_response_id": previous});
        post(&ada, "/v1/responses", &body)
    };
    let asked = ask(None).json();
    let text = asked["output"][0]["content"][0]["text"].as_str().unwrap();
    let question = ada.get("/questions")["items"][0].clone();
    let (thread, number) = (question["thread"].as_str().unwrap(), &question["number"]);
    assert!(text.contains(&format!("http://{}/#/thread/{thread}", ada.address)), "{text}");
    assert_eq!(ask(Some(&asked["id"])).status, 409);
    ada.post(&format!("/threads/{thread}/questions/{number}"), json!({"reply": "approve"}), 202);
    super::conversing::settled(&ada, thread);
    assert_eq!(ask(Some(&asked["id"])).json()["output"][0]["content"][0]["text"], "Yes.");
}

#[test]
fn errors_have_the_form_of_the_protocol() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let reader = server.client_with("admin", &["--scope", "read"]);
    let anonymous = Client::anonymous(&ada.address);
    let refused = |client: &Client, body: &Value, status: u16| {
        let answered = post(client, "/v1/chat/completions", body);
        assert_eq!(answered.status, status, "{}", answered.text());
        let error = answered.json()["error"].clone();
        assert!(
            error["message"].is_string() && error["type"].is_string() && error["code"].is_string(),
            "{error}"
        );
    };
    refused(&anonymous, &hello(), 401);
    refused(&reader, &hello(), 403);
    refused(&ada, &json!({"model": "other", "messages": [{"role": "user", "content": "Hello"}]}), 404);
    refused(&ada, &json!({"model": "prowess", "messages": []}), 400);
    refused(&ada, &json!({"messages": 1}), 400);
    let plain = ada.request("POST", "/v1/responses", Some(b"{}"), &["content-type: text/plain"]);
    assert_eq!((plain.status, plain.json()["error"]["code"].as_str().unwrap()), (415, "unsupported"));
    // The API answers in its own form.
    let plain = ada.request("POST", "/api/v1/threads", Some(b"{}"), &["content-type: text/plain"]);
    assert_eq!((plain.status, plain.json()["error"]["code"].as_str().unwrap()), (415, "unsupported"));
    for (method, path, body) in
        [("POST", "/threads", "{"), ("POST", "/threads", "{\"title\": 1}"), ("GET", "/threads?limit=x", "")]
    {
        let body = (!body.is_empty()).then_some(body.as_bytes());
        let path = format!("/api/v1{path}");
        let answered = ada.request(method, &path, body, &["content-type: application/json"]);
        assert_eq!(
            (answered.status, answered.json()["error"]["code"].as_str().unwrap()),
            (400, "bad_request")
        );
    }
}
