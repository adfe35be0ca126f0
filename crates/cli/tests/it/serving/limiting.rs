//! Limits of a user: over the wire, with the program's own options.

use std::thread::scope;

use serde_json::json;

use super::Server;
use super::conversing::settled;
use crate::chat::world;
use crate::model::{Answer, FakeModel};

const PRICE: &str = "[price.\"fake:*\"]\ninput = 1000\noutput = 1000\n";

#[test]
fn a_user_who_used_the_day_up_waits_until_tomorrow() {
    let todos = json!({"todos": [{"content": "Look", "status": "in_progress"}]});
    let model = FakeModel::start(vec![
        Answer::text("One.").usage(600, 10),
        Answer::call("write_todos", todos).usage(600, 10),
        Answer::hang(),
    ]);
    let world = world(&model);
    let server = Server::start_with(&world, &["--daily-tokens", "1000"]);
    let (ada, bob) = (server.client("admin"), server.new_user("bob"));
    assert_eq!(bob.get("/usage")["daily"], json!({"tokens": 1000, "cost": null}));
    let thread = bob.thread();
    bob.say(&thread, "Begin.");
    settled(&bob, &thread);
    // The turn that goes past the limit ends, and its log says why.
    let events = bob.say(&thread, "Go on.");
    let ended = events.last().unwrap();
    assert_eq!(ended.data["outcome"], "stopped");
    let reason = ended.data["reason"].as_str().unwrap();
    assert!(reason.contains("your limit of 1000 tokens for today"), "{reason}");
    settled(&bob, &thread);
    let refused = bob.post(&format!("/threads/{thread}/turns"), json!({"text": "More."}), 429);
    assert!(refused["error"]["message"].as_str().unwrap().contains("midnight UTC"), "{refused}");
    // Neither another thread nor another protocol is a way around it.
    let other = bob.thread();
    bob.post(&format!("/threads/{other}/turns"), json!({"text": "More.", "mode": "queue"}), 429);
    bob.post(&format!("/threads/{other}/skills/tides"), json!({}), 429);
    let asked = json!({"model": "prowess", "messages": [{"role": "user", "content": "More."}]}).to_string();
    let completion = bob.request(
        "POST",
        "/v1/chat/completions",
        Some(asked.as_bytes()),
        &["content-type: application/json"],
    );
    assert_eq!(completion.status, 429, "{}", completion.text());

    // Limits of a user's own count before those of the server.
    // The turn that was stopped may have asked once more, or not.
    model.instead(vec![Answer::text("Two."), Answer::text("Three.")]);
    world.stdout(&["serve", "user", "limit", "bob", "--daily-tokens", "100000"]);
    bob.say(&other, "More.");
    assert_eq!(bob.get("/usage")["daily"]["tokens"], 100_000);
    let users = server.client_with("admin", &["--scope", "admin", "--scope", "read"]);
    let id = bob.get("/me")["user"]["id"].as_str().unwrap().to_owned();
    let change = json!({"daily": {"tokens": 5, "cost": null}});
    assert_eq!(users.ask("PATCH", &format!("/users/{id}"), Some(change)).status, 204);
    bob.post(&format!("/threads/{other}/turns"), json!({"text": "More."}), 429);
    // Others have their own day.
    let thread = ada.thread();
    ada.say(&thread, "Begin.");
}

#[test]
fn a_limit_of_cost_needs_a_price() {
    let model = FakeModel::start(vec![Answer::text("One.").usage(600, 10), Answer::text("Two.")]);
    let world = world(&model);
    let refused = world.run(&["serve", "--listen", ":0", "--daily-cost", "0.50"]);
    assert!(refused.contains("--daily-cost needs a price for `fake:m`"), "{refused}");
    // A user's own limit is not kept in silence either.
    {
        let server = Server::start(&world);
        let bob = server.new_user("bob");
        world.stdout(&["serve", "user", "limit", "bob", "--daily-cost", "0.50"]);
        let thread = bob.thread();
        let refused = bob.post(&format!("/threads/{thread}/turns"), json!({"text": "Begin."}), 429);
        assert!(
            refused["error"]["message"].as_str().unwrap().contains("does not know the price"),
            "{refused}"
        );
    }
    let path = "home/.config/prowess/prowess.toml";
    let settings = std::fs::read_to_string(world.path(path)).unwrap();
    world.file(path, &format!("{settings}\n{PRICE}"));
    let server = Server::start(&world);
    let bob = server.client("bob");
    let thread = bob.thread();
    bob.say(&thread, "Begin.");
    settled(&bob, &thread);
    assert_eq!(bob.get("/usage")["today"], json!({"tokens": 610, "cost": "0.61"}));
    let refused = bob.post(&format!("/threads/{thread}/turns"), json!({"text": "More."}), 429);
    assert!(refused["error"]["message"].as_str().unwrap().contains("your limit of $0.50"), "{refused}");
}

#[test]
fn the_turn_of_a_user_who_is_disabled_ends() {
    let model = FakeModel::start(vec![Answer::hang(), Answer::text("Back.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let bob = server.new_user("bob");
    let thread = bob.thread();
    bob.post(&format!("/threads/{thread}/turns"), json!({"text": "Begin."}), 202);
    model.wait_for_requests(1);
    world.stdout(&["serve", "user", "disable", "bob"]);
    model.wait_for_ends(1);
    world.stdout(&["serve", "user", "enable", "bob"]);
    let whole = settled(&bob, &thread);
    let log = bob.get(&format!("/threads/{thread}/log"));
    let last = log["items"].as_array().unwrap().last().unwrap();
    assert_eq!(last["outcome"], "stopped", "{whole}");
    assert!(last["reason"].as_str().unwrap().contains("disabled"), "{last}");
    bob.say(&thread, "Again.");
}

#[test]
fn of_messages_at_the_same_time_one_begins_a_turn() {
    let model = FakeModel::start(vec![Answer::hang()]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let turns = format!("/threads/{}/turns", ada.thread());
    let begin = || ada.ask("POST", &turns, Some(json!({"text": "Begin."}))).status;
    let mut statuses: Vec<u16> = scope(|scope| {
        let asking: Vec<_> = (0..6).map(|_| scope.spawn(begin)).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 409, 409, 409, 409, 409]);
    // So many messages wait, and no more.
    let waits = || ada.ask("POST", &turns, Some(json!({"text": "Go on.", "mode": "queue"}))).status;
    let accepted = (0..40).map(|_| waits()).take_while(|status| *status == 202).count();
    assert!((31..=32).contains(&accepted), "{accepted}");
    assert_eq!(waits(), 429);
}
