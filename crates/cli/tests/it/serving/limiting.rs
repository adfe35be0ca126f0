//! Limits of a user: over the wire, with the program's own options.

use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::thread::scope;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Server;
use super::client::{Events, Streamed};
use super::conversing::settled;
use crate::chat::world;
use crate::model::{Answer, FakeModel, Gate};

/// What `look` sees once it is so.
#[expect(clippy::disallowed_methods, reason = "the server limits how often a user asks")]
pub(super) fn until<T: std::fmt::Debug>(look: impl Fn() -> T, is_so: impl Fn(&T) -> bool) -> T {
    let begun = Instant::now();
    loop {
        let seen = look();
        if is_so(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < super::PATIENCE, "{seen:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const PRICE: &str = "[price.\"fake:*\"]\ninput = 1000\noutput = 1000\n";

#[test]
fn a_user_who_used_the_day_up_waits_until_tomorrow() {
    let todos = json!({"todos": [{"content": "Look", "status": "in_progress"}]});
    let model = FakeModel::start(vec![
        Answer::text("One.").usage(600, 10),
        Answer::call("write_todos", todos).usage(600, 10),
        // Whether the next call begins before the turn ends is open.
        Answer::hang()
            .when(|request| request["messages"].as_array().unwrap().last().unwrap()["role"] == "tool"),
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
    // A message that is refused interrupts nothing.
    assert_eq!(ada.ask("POST", &turns, Some(json!({"text": "Stop.", "mode": "interrupt"}))).status, 429);
    let thread = ada.get(turns.trim_end_matches("/turns"));
    assert_eq!(
        (&thread["status"], thread["queued"].as_array().unwrap().len()),
        (&json!("working"), accepted)
    );
}

#[test]
fn queued_messages_wait_at_a_limit() {
    let gate = Gate::default();
    let mut answers: Vec<Answer> = (0..6).map(|_| Answer::text("Yes.").usage(600, 10)).collect();
    answers[0] = Answer::text("Yes.").usage(600, 10).held(&gate);
    let model = FakeModel::start(answers);
    let world = world(&model);
    let server = Server::start_with(&world, &["--daily-tokens", "1000"]);
    let bob = server.new_user("bob");
    let thread = bob.thread();
    let turns = format!("/threads/{thread}/turns");
    bob.post(&turns, json!({"text": "Number 0."}), 202);
    model.wait_for_requests(1);
    for number in 1..6 {
        bob.post(&turns, json!({"text": format!("Number {number}."), "mode": "queue"}), 202);
    }
    gate.open();
    let path = format!("/threads/{thread}?messages=false");
    // Two turns fit. The other messages can be seen, and wait.
    let waiting = until(
        || bob.get(&path),
        |whole| whole["queued"].as_array().unwrap().len() == 4 && whole["status"] == "queued",
    );
    assert_eq!(waiting["queued"][0]["text"], "Number 2.");
    assert_eq!(waiting["messages"], Value::Null);
    assert_eq!(bob.get("/usage")["today"]["tokens"], 1220);
    world.stdout(&["serve", "user", "limit", "bob", "--daily-tokens", "1000000"]);
    let whole = settled(&bob, &thread);
    assert_eq!(whole["queued"], json!([]));
    let said = whole["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
    assert_eq!(said.count(), 6);
}

#[test]
fn what_a_disabled_user_said_waits() {
    let model = FakeModel::start(vec![Answer::hang(), Answer::text("One."), Answer::text("Two.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let bob = server.new_user("bob");
    let thread = bob.thread();
    let turns = format!("/threads/{thread}/turns");
    bob.post(&turns, json!({"text": "Begin."}), 202);
    model.wait_for_requests(1);
    for text in ["First.", "Second."] {
        bob.post(&turns, json!({"text": text, "mode": "queue"}), 202);
    }
    world.stdout(&["serve", "user", "disable", "bob"]);
    model.wait_for_ends(1);
    world.stdout(&["serve", "user", "enable", "bob"]);
    settled(&bob, &thread);
    let log = bob.get(&format!("/threads/{thread}/log"));
    let ends = log["items"].as_array().unwrap().iter().filter(|event| event["type"] == "turn_ended");
    let ends: Vec<&str> = ends.map(|event| event["outcome"].as_str().unwrap()).collect();
    assert_eq!(ends, ["stopped", "answered", "answered"]);
}

#[test]
fn a_model_without_a_price_ends_the_turn_of_a_user_with_a_limit_of_cost() {
    let todos = json!({"todos": [{"content": "Look", "status": "in_progress"}]});
    let model = FakeModel::start(vec![
        Answer::call("write_todos", todos).usage(600, 10),
        Answer::hang()
            .when(|request| request["messages"].as_array().unwrap().last().unwrap()["role"] == "tool"),
    ]);
    let world = world(&model);
    let path = "home/.config/prowess/prowess.toml";
    let settings = std::fs::read_to_string(world.path(path)).unwrap();
    world.file(path, &format!("{settings}\n[price.\"fake:m\"]\ninput = 1000\noutput = 1000\n"));
    let other = "---\nname: other\ndescription: Uses another model.\nmodel: fake:n\n---\nLook.\n";
    world.file("home/.prowess/skills/other/SKILL.md", other);
    let server = Server::start_with(&world, &["--daily-cost", "5000"]);
    let bob = server.new_user("bob");
    let thread = bob.thread();
    let events = bob.say(&thread, "/other");
    let ended = events.last().unwrap();
    assert_eq!(ended.data["outcome"], "stopped", "{ended:?}");
    assert!(ended.data["reason"].as_str().unwrap().contains("does not know the price"), "{ended:?}");
    settled(&bob, &thread);
    // It counts like the agent's own model. The call that was cut off may have begun.
    let cost: f64 = bob.get("/usage")["today"]["cost"].as_str().unwrap().parse().unwrap();
    assert!(cost >= 0.61, "{cost}");
}

#[test]
fn case_148_searches_look_for_letters_and_have_limits() {
    let model = FakeModel::start(vec![Answer::text("Half: 50%_off.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let bob = server.new_user("bob");
    let thread = bob.thread();
    bob.say(&thread, "Begin.");
    settled(&bob, &thread);
    let search = |words: &str| bob.ask("GET", &format!("/threads?search={words}"), None);
    let found = |words: &str| search(words).json()["items"].as_array().unwrap().len();
    assert_eq!(found("50%25_OFF"), 1);
    // Wildcards of SQL are letters.
    for pattern in ["%25", "_", "5%25f"].map(|pattern| pattern.repeat(20)) {
        assert_eq!(found(&pattern), 0, "{pattern}");
    }
    assert_eq!(search(&"%C3%A9".repeat(100)).status, 200);
    let refused = search(&"%C3%A9".repeat(101));
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("at most 100 characters"), "{}", refused.text());
    // However many there are at once, each has a clear answer, and what is not a search waits for none of them.
    let all: Vec<_> = scope(|scope| {
        let asking: Vec<_> = (0..24).map(|_| scope.spawn(|| search("half"))).collect();
        assert_eq!(bob.ask("GET", "/threads", None).status, 200);
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(all.iter().any(|answered| answered.status == 200));
    for refused in all.iter().filter(|answered| answered.status != 200) {
        assert_eq!((refused.status, refused.header("retry-after")), (429, "1"), "{}", refused.text());
    }
}

#[test]
fn case_148_slow_requests_of_one_user_leave_room_for_others() {
    let model = FakeModel::start(vec![]);
    let world = world(&model);
    let server = Server::start(&world);
    let (ada, bob) = (server.client("admin"), server.new_user("bob"));
    let half = format!(
        "POST /api/v1/threads HTTP/1.1\r\nhost: {}\r\n{}\r\ncontent-type: application/json\r\ncontent-length: 20000\r\n\r\n{{",
        bob.address, bob.headers[0]
    );
    // More than there is room for: a request below may have a place when one of these arrives.
    let slow: Vec<TcpStream> = (0..270)
        .map(|_| {
            let mut stream = TcpStream::connect(&bob.address).unwrap();
            stream.write_all(half.as_bytes()).unwrap();
            stream
        })
        .collect();
    // A body that pauses for too long ends.
    let go_on = || slow.iter().for_each(|mut stream| drop(stream.write(b" ")));
    let ask = || {
        go_on();
        bob.ask("GET", "/me", None)
    };
    let refused = until(ask, |answered| answered.status == 429);
    assert!(refused.text().contains("are in progress"), "{}", refused.text());
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(ada.ask("GET", "/me", None).status, 200);
    // Their places are given back.
    drop(slow);
    until(|| bob.ask("GET", "/me", None).status, |status| *status == 200);
}

/// Sends a request through a socket that keeps little of the answer.
fn sent_through_little_room(address: &str, request: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(address.parse().unwrap()).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    (&stream).write_all(request.as_bytes()).unwrap();
    stream
}

#[test]
fn case_142_a_slow_reader_is_told_to_resume_and_misses_nothing() {
    // More than what sockets keep.
    let long = Answer::text(&format!("{} ", "tide".repeat(150_000)).repeat(10));
    let todos = || json!({"todos": [{"content": "Look", "status": "in_progress"}]});
    let many = || {
        (1..40)
            .fold(Answer::call("write_todos", todos()), |answer, _| answer.and_call("write_todos", todos()))
    };
    let model = FakeModel::start(vec![long, many(), many(), many(), Answer::text("Done.")]);
    let world = world(&model);
    let config = "home/.config/prowess/prowess.toml";
    let text = std::fs::read_to_string(world.path(config)).unwrap();
    world.file(config, &text.replace("context_window = 100000", "context_window = 100000000"));
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let request = format!(
        "GET /api/v1/threads/{thread}/events HTTP/1.1\r\nhost: {}\r\n{}\r\n\r\n",
        ada.address, ada.headers[0]
    );
    let slow = sent_through_little_room(&ada.address, &request);
    slow.set_read_timeout(Some(super::PATIENCE)).unwrap();
    let mut slow = Events::of(BufReader::new(slow));
    slow.until("live");
    // More happens than the server keeps for somebody who reads nothing.
    ada.say(&thread, "Tell me everything.");
    ada.say(&thread, "And now look.");
    let whole = settled(&ada, &thread);
    let mut first = slow.rest();
    assert_eq!(first.pop().unwrap().name, "resume");
    let ids = |events: &[Streamed]| events.iter().filter_map(|event| event.id).collect::<Vec<_>>();
    let last = *ids(&first).last().unwrap();
    let second = ada.events(&thread, Some(last)).until("live");
    let all = [ids(&first), ids(&second)].concat();
    assert_eq!(all, (1..=whole["last"].as_u64().unwrap()).collect::<Vec<_>>());
}

#[test]
fn case_148_messages_behind_questions_count_too() {
    let run = json!({"skill": "tides", "command": "sh scripts/tides.sh"});
    let model = FakeModel::scripted(move |_| Answer::call("skill_run", run.clone()));
    let world = world(&model);
    let server = Server::start(&world);
    let bob = server.new_user("bob");
    let mut answered = Vec::new();
    for _ in 0..7 {
        let thread = bob.thread();
        let mut stream = bob.events(&thread, None);
        bob.post(&format!("/threads/{thread}/turns"), json!({"text": "Look it up."}), 202);
        stream.until("asked");
        settled(&bob, &thread);
        let more = || json!({"text": "And then?", "mode": "queue"});
        let turns = format!("/threads/{thread}/turns");
        answered.extend((0..32).map(|_| bob.ask("POST", &turns, Some(more())).status));
    }
    assert_eq!(answered.iter().filter(|status| **status == 202).count(), 200);
    assert!(answered[200..].iter().all(|status| *status == 429), "{answered:?}");
}

#[test]
fn case_148_one_user_cannot_fill_the_queue() {
    let model = FakeModel::scripted(|_| Answer::hang());
    let world = world(&model);
    let server = Server::start(&world);
    let (ada, bob) = (server.client("admin"), server.new_user("bob"));
    let mut accepted = 0;
    'threads: for _ in 0..8 {
        let turns = format!("/threads/{}/turns", bob.thread());
        for _ in 0..32 {
            let answered = bob.ask("POST", &turns, Some(json!({"text": "Go on.", "mode": "queue"})));
            if answered.status == 429 {
                let text = answered.text();
                assert!(text.contains("200 messages can wait in all your threads"), "{text}");
                break 'threads;
            }
            assert_eq!(answered.status, 202, "{}", answered.text());
            accepted += 1;
        }
    }
    assert_eq!(accepted, 200);
    let thread = ada.thread();
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Begin."}), 202);
}

#[test]
fn case_139_a_revoked_token_does_not_finish_a_request_that_it_began() {
    let model = FakeModel::start(vec![]);
    let world = world(&model);
    let server = Server::start(&world);
    let bob = server.new_user("bob");
    let wish = json!({"name": "mine", "scopes": ["read", "write", "approve"]}).to_string();
    let head = format!(
        "POST /api/v1/tokens HTTP/1.1\r\nhost: {}\r\n{}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{}",
        bob.address,
        bob.headers[0],
        wish.len(),
        &wish[..5]
    );
    let mut stream = TcpStream::connect(&bob.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let tokens = world.stdout(&["serve", "token", "list", "bob"]);
    let id = tokens.lines().flat_map(str::split_whitespace).rfind(|word| word.len() == 32).unwrap();
    world.stdout(&["serve", "token", "revoke", "bob", id]);
    until(|| bob.ask("GET", "/me", None).status, |status| *status == 401);
    // Only slow requests are checked twice.
    let begun = Instant::now();
    until(|| begun.elapsed(), |elapsed| *elapsed > Duration::from_millis(700));
    stream.write_all(&wish.as_bytes()[5..]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let left = world.stdout(&["serve", "token", "list", "bob"]);
    assert!(!left.contains("mine"), "{left}");
}

#[test]
fn a_message_that_is_too_large_is_refused_at_every_door() {
    let model = FakeModel::start(vec![]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let text = "x".repeat(300 << 10);
    let thread = ada.thread();
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": text}), 413);
    let input = json!({"threadId": thread, "runId": "r", "messages": [{"id": "m", "role": "user", "content": text}], "tools": [], "context": [], "state": {}, "forwardedProps": {}});
    let chat = json!({"model": "prowess", "messages": [{"role": "user", "content": text}]});
    let response = json!({"model": "prowess", "input": text});
    let json = &["content-type: application/json"];
    for (path, body) in
        [("/agui/prowess", input), ("/v1/chat/completions", chat), ("/v1/responses", response)]
    {
        let answered = ada.request("POST", path, Some(body.to_string().as_bytes()), json);
        assert_eq!(answered.status, 413, "{path}: {}", answered.text());
    }
    // Many tiny values take more memory than their text.
    let tiny =
        format!("{{\"threadId\": \"t\", \"runId\": \"r\", \"messages\": [{}{{}}]}}", "{},".repeat(400_000));
    assert_eq!(ada.request("POST", "/agui/prowess", Some(tiny.as_bytes()), json).status, 413);
}

#[test]
fn a_deletion_that_is_refused_removes_nothing() {
    let model = FakeModel::start(vec![Answer::hang(), Answer::text("Done.")]);
    let world = world(&model);
    let server = Server::start_with(&world, &["-v"]);
    let ada = server.client("admin");
    let thread = ada.thread();
    let path = format!("/threads/{thread}");
    let file = format!("/api/v1{path}/files/content?path=/project/plan.md");
    assert_eq!(ada.request("PUT", &file, Some(b"The plan."), &[]).status, 201);
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("{path}/turns"), json!({"text": "Begin."}), 202);
    stream.until("model_called");
    assert_eq!(ada.ask("DELETE", &path, None).status, 409);
    assert_eq!(ada.request("GET", &file, None, &[]).text(), "The plan.");
    ada.post(&format!("{path}/cancel"), json!({}), 202);
    settled(&ada, &thread);
    // What a call that was cut off cost is estimated.
    assert!(ada.get("/usage")["today"]["tokens"].as_u64().unwrap() > 100);
    assert_eq!(ada.ask("DELETE", &path, None).status, 204);
    assert_eq!(ada.ask("GET", &path, None).status, 404);
}
