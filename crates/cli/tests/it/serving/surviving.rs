//! Kills and restarts: every turn ends, and every stream is complete.

use std::time::Duration;

use serde_json::json;

use super::Server;
use super::conversing::settled;
use crate::chat::world;
use crate::model::{Answer, FakeModel};

#[test]
fn a_turn_that_a_killed_server_left_goes_on() {
    let model = FakeModel::start(vec![
        Answer::call("write_todos", json!({"todos": [{"content": "Look", "status": "in_progress"}]})),
        Answer::hang(),
        Answer::text("After the restart."),
    ]);
    let world = world(&model);
    let mut server = Server::start(&world);
    let ada = server.client("admin");
    let token = ada.headers.clone();
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Begin."}), 202);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "And then?", "mode": "queue"}), 202);
    let before = stream.until("tool_answered");
    model.wait_for_requests(2);
    server.kill();
    stream.rest();

    let server = Server::start(&world);
    let ada = super::client::Client { address: server.address.clone(), headers: token };
    model.then(vec![Answer::text("And the second.")]);
    let last = before.iter().filter_map(|event| event.id).max().unwrap();
    let mut stream = ada.events(&thread, Some(last));
    let after = [stream.until("turn_ended"), stream.until("turn_ended")].concat();
    assert_eq!(after.iter().filter(|event| event.name == "turn_started").count(), 1);
    let whole = settled(&ada, &thread);
    let texts: Vec<&str> = whole["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .map(|message| message["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["", "After the restart.", "And the second."]);
    let ids: Vec<u64> = before.iter().chain(&after).filter_map(|event| event.id).collect();
    assert_eq!(ids, (ids[0]..=whole["last"].as_u64().unwrap()).collect::<Vec<_>>());
}

#[test]
fn a_question_outlives_the_server_and_its_reply_is_not_lost() {
    let run = json!({"skill": "tides", "command": "scripts/tides.sh"});
    let model = FakeModel::start(vec![Answer::call("skill_run", run), Answer::text("High.")]);
    let world = world(&model);
    let mut server = Server::start(&world);
    let ada = server.client("admin");
    let token = ada.headers.clone();
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Look it up."}), 202);
    let question = stream.until("asked").last().unwrap().data.clone();
    settled(&ada, &thread);
    server.kill();

    let server = Server::start(&world);
    let ada = super::client::Client { address: server.address.clone(), headers: token };
    assert_eq!(ada.get("/questions")["items"][0]["number"], question["number"]);
    let mut stream = ada.events(&thread, None);
    let number = &question["number"];
    ada.post(&format!("/threads/{thread}/questions/{number}"), json!({"reply": "approve"}), 202);
    let ended = stream.until("turn_ended");
    assert_eq!(ended.last().unwrap().data["outcome"], "answered");
}

#[test]
fn turns_that_together_take_longer_than_a_claim_are_made_once() {
    const TURNS: usize = 10;
    // Each is shorter than the time after which a worker looks after its turn.
    let answer = |number| Answer::slow(&format!("This is answer {number}."), Duration::from_millis(80));
    let model = FakeModel::start((0..TURNS).map(answer).collect());
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    for number in 0..TURNS {
        let text = format!("Question {number}?");
        ada.post(&format!("/threads/{thread}/turns"), json!({"text": text, "mode": "queue"}), 202);
    }
    for _ in 0..TURNS {
        stream.until("turn_ended");
    }
    settled(&ada, &thread);
    assert_eq!(model.requests().len(), TURNS);
    let metrics = ada.request("GET", "/metrics", None, &[]).text();
    assert!(metrics.contains("\nprowess_work_failed_total 0\n"), "{metrics}");
}

#[test]
fn a_server_that_is_asked_to_stop_lets_its_turns_rest() {
    let (answer, go_on) = Answer::paused("Nearly done.");
    let model = FakeModel::start(vec![answer]);
    let world = world(&model);
    let mut server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Begin."}), 202);
    stream.until("text");
    let id = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    // The stream says that it ends, and the turn goes on.
    assert_eq!(stream.rest().last().unwrap().name, "resume");
    go_on.send(()).unwrap();
    let code = server.child.wait().unwrap().code();
    assert_eq!(code, Some(128 + 15));
    let server = Server::start(&world);
    let ada = super::client::Client { address: server.address.clone(), headers: ada.headers };
    let whole = settled(&ada, &thread);
    assert_eq!(whole["messages"].as_array().unwrap().last().unwrap()["text"], "Nearly done.");
}
