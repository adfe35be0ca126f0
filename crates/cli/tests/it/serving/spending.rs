//! What a user's models are paid counts, whoever pays: sub-agents, turns that are cancelled, and a server that was killed.

use serde_json::{Value, json};

use super::Server;
use super::client::Client;
use super::conversing::settled;
use super::limiting::until;
use crate::chat::world;
use crate::model::{Answer, FakeModel};

/// What each call takes.
const CALL: u64 = 610;

fn paid(answer: Answer) -> Answer {
    answer.usage(600, 10)
}

fn task() -> Answer {
    paid(Answer::call("task", json!({"description": "Look."})))
}

fn todos() -> Answer {
    paid(Answer::call("write_todos", json!({"todos": [{"content": "Look", "status": "in_progress"}]})))
}

/// Whether a request has the answer of a tool at its end.
fn follows_a_tool(request: &Value) -> bool {
    request["messages"].as_array().unwrap().last().unwrap()["role"] == "tool"
}

fn today(client: &Client) -> u64 {
    client.get("/usage")["today"]["tokens"].as_u64().unwrap()
}

#[test]
fn case_148_a_limit_ends_the_turn_while_a_sub_agent_spends() {
    // Whether the sub-agent calls its model once more before the turn ends is open.
    let model = FakeModel::start(vec![task(), todos(), Answer::hang().when(follows_a_tool)]);
    let world = world(&model);
    let server = Server::start_with(&world, &["--daily-tokens", "1000"]);
    let bob = server.new_user("bob");
    let thread = bob.thread();
    let ended = bob.say(&thread, "Hand it over.").pop().unwrap();
    assert_eq!(ended.data["outcome"], "stopped", "{ended:?}");
    assert!(ended.data["reason"].as_str().unwrap().contains("your limit of 1000 tokens"), "{ended:?}");
    settled(&bob, &thread);
    assert!(today(&bob) >= 2 * CALL);
    bob.post(&format!("/threads/{thread}/turns"), json!({"text": "More."}), 429);
}

#[test]
fn what_a_sub_agent_spends_counts_once() {
    let model =
        FakeModel::start(vec![task(), paid(Answer::text("High.")), paid(Answer::text("High at one."))]);
    let world = world(&model);
    let server = Server::start(&world);
    let bob = server.new_user("bob");
    let thread = bob.thread();
    bob.say(&thread, "Hand it over.");
    settled(&bob, &thread);
    assert_eq!(today(&bob), 3 * CALL);
    // The calls of a fork were paid before.
    let fork =
        bob.post(&format!("/threads/{thread}/fork"), json!({}), 201)["id"].as_str().unwrap().to_owned();
    settled(&bob, &fork);
    assert_eq!(today(&bob), 3 * CALL);
}

#[test]
fn what_a_sub_agent_spent_before_the_server_was_killed_counts_once() {
    let model = FakeModel::start(vec![task(), todos(), Answer::hang()]);
    let world = world(&model);
    let mut server = Server::start(&world);
    let bob = server.new_user("bob");
    let thread = bob.thread();
    bob.post(&format!("/threads/{thread}/turns"), json!({"text": "Hand it over."}), 202);
    model.wait_for_requests(3);
    until(|| today(&bob), |tokens| *tokens == 2 * CALL);
    server.kill();
    model.then(vec![paid(Answer::text("High.")), paid(Answer::text("High at one."))]);
    let server = Server::start(&world);
    let bob = Client { address: server.address.clone(), ..bob };
    let whole = settled(&bob, &thread);
    assert_eq!(whole["messages"].as_array().unwrap().last().unwrap()["text"], "High at one.");
    assert_eq!(today(&bob), 4 * CALL);
}

#[test]
fn a_cost_that_nobody_knows_is_not_zero() {
    let model = FakeModel::start(vec![paid(Answer::text("High.")), paid(Answer::text("Low."))]);
    let world = world(&model);
    let path = "home/.config/prowess/prowess.toml";
    let settings = std::fs::read_to_string(world.path(path)).unwrap();
    let priced = |dollars: u32| {
        let price = format!("[price.\"fake:*\"]\ninput = {dollars}\noutput = {dollars}\n");
        world.file(path, &format!("{settings}\n{price}"));
    };
    let spent = |tokens: u64, cost: Value| json!({"tokens": tokens, "cost": cost});
    let server = Server::start(&world);
    let bob = server.new_user("bob");
    assert_eq!(bob.get("/usage")["today"], spent(0, json!("0.00")));
    let thread = bob.thread();
    bob.say(&thread, "How is the tide?");
    settled(&bob, &thread);
    let usage = bob.get("/usage");
    assert_eq!([&usage["today"], &usage["total"]], [&spent(CALL, json!(null)); 2]);
    drop(server);
    // What was free is known, but what an earlier call would cost now is not.
    for (dollars, cost) in [(0, json!("0.00")), (1000, json!(null))] {
        priced(dollars);
        let server = Server::start(&world);
        assert_eq!(server.client("bob").get("/usage")["today"], spent(CALL, cost));
    }
    let server = Server::start(&world);
    let bob = server.client("bob");
    bob.say(&thread, "And now?");
    settled(&bob, &thread);
    assert_eq!(bob.get("/usage")["total"], spent(2 * CALL, json!("0.61")));
}

#[test]
fn case_148_calls_that_are_cut_off_are_not_free() {
    let many = |_: &Value| (0..200).map(|_| ("write_todos", json!({"todos": []}))).collect();
    let model = FakeModel::start(vec![task(), Answer::hang(), paid(Answer::calls(many))]);
    let world = world(&model);
    let server = Server::start(&world);
    let bob = server.new_user("bob");
    let thread = bob.thread();
    bob.post(&format!("/threads/{thread}/turns"), json!({"text": "Hand it over."}), 202);
    model.wait_for_requests(2);
    bob.post(&format!("/threads/{thread}/cancel"), json!({}), 202);
    settled(&bob, &thread);
    // The request of the sub-agent has a prompt and tools.
    let before = today(&bob);
    assert!(before > CALL + 100, "{before}");
    // Nobody can use a response with so many calls, but the provider bills it.
    let other = bob.thread();
    let ended = bob.say(&other, "Do too much.").pop().unwrap();
    assert_eq!(ended.data["outcome"], "failed", "{ended:?}");
    settled(&bob, &other);
    assert!(today(&bob) >= before + CALL);
}
