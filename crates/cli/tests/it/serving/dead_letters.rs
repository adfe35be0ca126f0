//! Threads that no worker can work on: what their users see, and what administrators do with them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::Server;
use super::client::Client;
use super::conversing::settled;
use super::processes::{on_postgres, web, worker};
use crate::chat::world;
use crate::model::{Answer, FakeModel};
use crate::world::World;

/// An administrator with all rights.
fn administrator(server: &Server<'_>) -> Client {
    let scopes = ["read", "write", "approve", "admin"];
    server.client_with("admin", &scopes.map(|scope| ["--scope", scope]).concat())
}

/// The directory of a thread.
fn directory(world: &World, thread: &str) -> PathBuf {
    world.path(&format!("home/.local/state/prowess/serve/projects/{thread}"))
}

/// Puts a file in the place of a thread's directory, so that no worker can open the thread.
fn break_thread(world: &World, thread: &str) {
    let directory = directory(world, thread);
    std::fs::rename(&directory, directory.with_extension("aside")).unwrap();
    std::fs::write(&directory, "").unwrap();
}

fn mend_thread(world: &World, thread: &str) {
    let directory = directory(world, thread);
    std::fs::remove_file(&directory).unwrap();
    std::fs::rename(directory.with_extension("aside"), &directory).unwrap();
}

/// A thread in the queue.
fn queued(admin: &Client, thread: &str) -> Value {
    let queue = admin.get("/queue?limit=200");
    let mut items = queue["items"].as_array().unwrap().iter();
    items.find(|item| item["thread"] == thread).cloned().unwrap_or_default()
}

/// Waits until attempts at a broken thread have failed too often. A message ends the wait for the next attempt.
#[expect(clippy::disallowed_methods, reason = "the server limits how often an administrator asks")]
fn dies(admin: &Client, owner: &Client, thread: &str) -> Value {
    let begun = Instant::now();
    loop {
        let item = queued(admin, thread);
        match item["state"].as_str() {
            Some("dead") => return item,
            Some("waiting") => {
                let message = json!({"text": "Still there?", "mode": "queue"});
                owner.post(&format!("/threads/{thread}/turns"), message, 202);
            }
            _ => {}
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the thread never died: {item:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Follows a stream until the thread has this status.
fn watches_until(stream: &mut super::client::Events, status: &str) {
    while stream.until("status").last().unwrap().data["status"] != status {}
}

fn texts(thread: &Value) -> Vec<String> {
    let messages = thread["messages"].as_array().unwrap().iter();
    messages.map(|message| message["text"].as_str().unwrap().to_owned()).collect()
}

/// A text without what differs from run to run.
fn redacted(told: &str, threads: &[&str]) -> String {
    let mut told = told.to_owned();
    for (index, thread) in threads.iter().enumerate() {
        told = told.replace(thread, &format!("[THREAD {}]", index + 1));
    }
    // A slow machine counts minutes.
    regex::Regex::new(r"\t(now|\d+ min)\t").unwrap().replace_all(&told, "\t[SINCE]\t").into_owned()
}

#[test]
fn an_administrator_lists_retries_and_drops_dead_letters() {
    let model = FakeModel::scripted(|_| Answer::text("High."));
    let world = world(&model);
    let server = Server::start(&world);
    let (admin, bob) = (administrator(&server), server.new_user("bob"));
    assert_snapshot!(world.run(&["queue", "list"]), @r"
    exit 0
    --- out
    --- err
    the queue is empty
    ");
    let [one, two] = [(); 2].map(|()| {
        let thread = bob.thread();
        bob.say(&thread, "When?");
        settled(&bob, &thread);
        break_thread(&world, &thread);
        let message = json!({"text": "And tomorrow?", "mode": "queue"});
        bob.post(&format!("/threads/{thread}/turns"), message, 202);
        dies(&admin, &bob, &thread);
        thread
    });
    let shown = |told: String| redacted(&told, &[&one, &two]);

    assert_snapshot!(shown(world.run(&["queue", "list"])));
    assert_snapshot!(shown(world.run(&["queue", "list", "--limit", "1"])));
    let listed = world.json(&["queue", "list", "--json"]);
    assert_eq!(listed, admin.get("/queue"), "the command and the API say the same");
    assert_eq!(
        listed["numbers"],
        json!({"queued": 0, "waiting": 0, "working": 0, "dead": 2, "age_seconds": 0})
    );
    let item = &listed["items"][0];
    assert_eq!((&item["owner_name"], &item["failures"]), (&json!("bob"), &json!(5)));
    assert!(!listed.to_string().contains("tomorrow"), "nothing that bob said: {listed:#}");

    // Its user sees that it waits for somebody.
    assert_eq!(bob.get(&format!("/threads/{one}"))["status"], "dead");
    let refused = bob.post(&format!("/threads/{one}/turns"), json!({"text": "Now?"}), 409);
    assert_snapshot!(refused["error"]["message"].as_str().unwrap(), @"The server cannot continue this turn. Cancel it to go on, or ask an administrator to try again.");

    let resting = admin.thread();
    let shown = |told: String| redacted(&told, &[&one, &two, &resting]);
    let elsewhere = world.path("elsewhere");
    for words in [
        &["retry", "no such thread"][..],
        &["drop", "0193a0000000700080000000000000aa"],
        &["retry", &resting],
        &["drop", &resting],
        &["list", "--data", elsewhere.to_str().unwrap()],
        &["list", "--limit", "0"],
    ] {
        assert_snapshot!(shown(world.run(&[&["queue"], words].concat())));
    }

    mend_thread(&world, &one);
    assert_snapshot!(shown(world.run(&["queue", "retry", &one])));
    let whole = settled(&bob, &one);
    assert_eq!(texts(&whole)[..4], ["When?", "High.", "And tomorrow?", "High."]);
    mend_thread(&world, &two);
    assert_snapshot!(shown(world.run(&["queue", "drop", &two])));
    let whole = settled(&bob, &two);
    assert_eq!((texts(&whole), &whole["queued"]), (vec!["When?".to_owned(), "High.".to_owned()], &json!([])));
    assert_eq!(world.json(&["queue", "list", "--json"])["items"], json!([]));

    let audit = admin.get("/audit?limit=2");
    let bob_id = bob.get("/me")["user"]["id"].clone();
    for (entry, action, thread) in [(0, "drop dead letter", &two), (1, "retry dead letter", &one)]
        .map(|(at, action, thread)| (&audit["items"][at], action, thread))
    {
        assert_eq!((&entry["action"], &entry["thread"]), (&json!(action), &json!(thread)));
        assert_eq!((&entry["user"], &entry["affected"]), (&json!("command line"), &bob_id));
        assert!(entry["detail"]["system_user"].is_string(), "{entry:#}");
    }
}

#[test]
fn only_an_administrator_has_the_queue() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let server = Server::start(&world);
    let (admin, bob) = (administrator(&server), server.new_user("bob"));
    let without_scope = server.client("admin");
    let thread = bob.thread();
    for (method, path) in [
        ("GET", "/queue".to_owned()),
        ("POST", format!("/queue/{thread}/retry")),
        ("POST", format!("/queue/{thread}/drop")),
    ] {
        for client in [&bob, &without_scope] {
            let refused = client.ask(method, &path, None);
            assert_eq!(refused.status, 403, "{method} {path}: {}", refused.text());
        }
        let refused = Client::anonymous(&server.address).ask(method, &path, None);
        assert_eq!(refused.status, 401, "{method} {path}: {}", refused.text());
    }
    for act in ["retry", "drop"] {
        let told = |thread: &str, status| {
            let told = admin.post(&format!("/queue/{thread}/{act}"), Value::Null, status);
            told["error"]["message"].as_str().unwrap().replace(thread, "T")
        };
        assert_eq!(told(&thread, 409), "The thread `T` is no dead letter: it rests.");
        for unknown in ["0193a0000000700080000000000000aa", "no%20thread"] {
            assert!(told(unknown, 404).starts_with("There is no thread `"), "{unknown}");
        }
    }
    assert_eq!(admin.get("/queue?limit=1000")["left_off"], 0);
}

/// A model that says nothing before it is told to speak.
fn silent_model() -> (FakeModel, Arc<AtomicBool>) {
    let speaks = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&speaks);
    let answer = move || if told.load(Ordering::Relaxed) { Answer::text("High.") } else { Answer::hang() };
    (FakeModel::scripted(move |_| answer()), speaks)
}

/// A turn that was under way when its worker died, and that no other worker can go on with.
fn in_turn(world: &World, model: &FakeModel, speaks: &AtomicBool) {
    let web = web(world);
    let (admin, bob) = (administrator(&web), web.new_user("bob"));
    let threads = [(); 3].map(|()| {
        let mut first = worker(world);
        let (thread, asked) = (bob.thread(), model.requests().len());
        let mut stream = bob.events(&thread, None);
        bob.post(&format!("/threads/{thread}/turns"), json!({"text": "When?"}), 202);
        model.wait_for_requests(asked + 1);
        first.kill();
        break_thread(world, &thread);
        let second = worker(world);
        let died = dies(&admin, &bob, &thread);
        assert!(died["problem"].as_str().unwrap().contains(&thread), "{died:#}");
        watches_until(&mut stream, "dead");
        drop(second);
        mend_thread(world, &thread);
        (thread, stream)
    });
    let _worker = worker(world);
    let [(retried, mut retried_stream), (dropped, mut dropped_stream), (cancelled, mut cancelled_stream)] =
        threads;
    speaks.store(true, Ordering::Relaxed);
    admin.post(&format!("/queue/{retried}/retry"), Value::Null, 202);
    assert_eq!(retried_stream.until("turn_ended").last().unwrap().data["outcome"], "answered");
    admin.post(&format!("/queue/{dropped}/drop"), Value::Null, 202);
    assert_eq!(dropped_stream.until("turn_ended").last().unwrap().data["outcome"], "cancelled");
    // What waited goes on after a turn that its user cancelled.
    bob.post(&format!("/threads/{cancelled}/cancel"), json!({}), 202);
    assert_eq!(cancelled_stream.until("turn_ended").last().unwrap().data["outcome"], "cancelled");
    assert_eq!(cancelled_stream.until("turn_ended").last().unwrap().data["outcome"], "answered");
    for thread in [&retried, &dropped, &cancelled] {
        assert_eq!(settled(&bob, thread)["status"], "idle");
    }
    assert_eq!(texts(&settled(&bob, &dropped)), ["When?"]);
    assert_eq!(admin.get("/queue")["numbers"]["dead"], 0);
    let actions = admin.get("/audit?limit=2")["items"].as_array().unwrap().clone();
    let actions: Vec<_> = actions.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["drop dead letter", "retry dead letter"]);
}

#[test]
fn a_turn_in_a_dead_letter_goes_on_or_ends_in_sqlite() {
    let (model, speaks) = silent_model();
    in_turn(&world(&model), &model, &speaks);
}

#[test]
fn a_turn_in_a_dead_letter_goes_on_or_ends_in_postgres() {
    let (model, speaks) = silent_model();
    let (world, _schema) = on_postgres(&model, "dead");
    in_turn(&world, &model, &speaks);
}

#[test]
fn cancel_brings_a_dead_letter_back_that_no_turn_began_in() {
    let model = FakeModel::scripted(|_| Answer::text("High."));
    let world = world(&model);
    let server = Server::start(&world);
    let admin = administrator(&server);
    let thread = admin.thread();
    admin.say(&thread, "When?");
    settled(&admin, &thread);
    break_thread(&world, &thread);
    admin.post(&format!("/threads/{thread}/turns"), json!({"text": "And tomorrow?", "mode": "queue"}), 202);
    dies(&admin, &admin, &thread);
    mend_thread(&world, &thread);
    admin.post(&format!("/threads/{thread}/cancel"), json!({}), 202);
    let whole = settled(&admin, &thread);
    assert_eq!(texts(&whole)[..4], ["When?", "High.", "And tomorrow?", "High."]);
}
