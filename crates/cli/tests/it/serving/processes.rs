//! A server of several processes: some take requests, others run turns.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Server;
use super::client::{Client, Streamed};
use super::conversing::settled;
use super::postgres::{execute, schema};
use crate::chat::world;
use crate::model::{Answer, FakeModel};
use crate::world::World;

/// A process that only runs turns.
pub(super) fn worker(world: &World) -> Server<'_> {
    let mut worker = Server::begin(world, &["--role", "worker"]);
    let rest = worker.line("prowess worker http://");
    worker.address = rest.split(' ').next().unwrap().to_owned();
    worker
}

/// A process that only takes requests.
pub(super) fn web(world: &World) -> Server<'_> {
    Server::start_with(world, &["--role", "web"])
}

/// Text of a thread as somebody sees it who watches it: pieces, and whether they began again.
fn seen(events: &[Streamed]) -> String {
    let mut text = String::new();
    for event in events {
        match event.name.as_str() {
            "live" => text = format!("|{}", event.data["text"].as_str().unwrap_or_default()),
            "text" => text.push_str(event.data["text"].as_str().unwrap_or_default()),
            _ => {}
        }
    }
    text
}

/// A schema that goes when its servers are gone.
pub(super) struct Schema(String);

impl Drop for Schema {
    fn drop(&mut self) {
        execute(&format!("DROP SCHEMA {} CASCADE", self.0));
    }
}

pub(super) fn on_postgres(model: &FakeModel, name: &str) -> (World, Schema) {
    let (schema, url) = schema(name);
    let mut world = world(model);
    world.variable("PROWESS_DATABASE", &url);
    (world, Schema(schema))
}

fn metric(process: &Server<'_>, name: &str) -> f64 {
    let text = Client::anonymous(&process.address).request("GET", "/metrics", None, &[]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "another process tells nobody")]
fn waits_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn converses(world: &World, model: &FakeModel) {
    let (web, other_web, worker) = (web(world), self::web(world), worker(world));
    let ada = web.client("admin");
    let thread = ada.thread();
    let there = Client { address: other_web.address.clone(), headers: ada.headers.clone() };
    let mut elsewhere = there.events(&thread, None);
    let events = ada.say(&thread, "When?");
    assert_eq!(events.last().unwrap().data["outcome"], "answered");
    let same = elsewhere.until("turn_ended");
    let ids = |events: &[Streamed]| events.iter().filter_map(|event| event.id).collect::<Vec<_>>();
    assert_eq!(ids(&events), ids(&same), "both processes stream the same log");
    assert_eq!(settled(&ada, &thread)["messages"].as_array().unwrap().last().unwrap()["text"], "High.");
    assert_eq!(model.requests().len(), 1);
    let context = there.get(&format!("/threads/{thread}/context"));
    assert!(context["tokens"].as_u64().unwrap() > 100, "{context}");
    // A worker has no API and no page, and a web process claims nothing.
    for path in ["/api/v1/threads", "/", "/openapi.json"] {
        assert_eq!(Client::anonymous(&worker.address).request("GET", path, None, &[]).status, 404, "{path}");
    }
    assert_eq!(Client::anonymous(&worker.address).request("GET", "/readyz", None, &[]).status, 200);
    assert!(metric(&worker, "prowess_queue_claims_total") >= 1.0);
    assert!(metric(&web, "prowess_queue_claims_total") < 1.0);
}

#[test]
fn processes_share_a_file_and_its_directory() {
    let model = FakeModel::start(vec![Answer::text("High.")]);
    converses(&world(&model), &model);
}

#[test]
fn processes_share_a_database_of_postgres() {
    let model = FakeModel::start(vec![Answer::text("High.")]);
    let (world, _schema) = on_postgres(&model, "shared");
    converses(&world, &model);
}

#[test]
fn text_is_seen_in_another_process_while_the_model_speaks() {
    let (answer, go_on) = Answer::paused("Nearly done.");
    let model = FakeModel::start(vec![answer]);
    let (world, _schema) = on_postgres(&model, "spoken");
    let (web, late_web, worker) = (web(&world), self::web(&world), worker(&world));
    waits_until("signals arrive", || metric(&worker, "prowess_signals_heard") > 0.0);
    let ada = web.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Begin."}), 202);
    stream.until("text");
    // Somebody who comes later gets what was said so far.
    let there = Client { address: late_web.address.clone(), headers: ada.headers.clone() };
    let mut late = there.events(&thread, None);
    waits_until("what was said is known", || seen(&late.seen).ends_with("Nearly ") || late.next().is_none());
    go_on.send(()).unwrap();
    stream.until("responded");
    late.until("responded");
    assert!(seen(&stream.seen).ends_with("Nearly done."), "{}", seen(&stream.seen));
    assert!(seen(&late.seen).ends_with("|Nearly done."), "{}", seen(&late.seen));
    // Nobody made the text begin again.
    for stream in [&stream, &late] {
        assert_eq!(stream.seen.iter().filter(|event| event.name == "live").count(), 1);
    }
}

#[test]
fn case_144_another_worker_takes_over_and_text_begins_again() {
    let (paused, _held) = Answer::paused("From the first.");
    let model = FakeModel::start(vec![
        Answer::call("write_todos", json!({"todos": [{"content": "Look", "status": "in_progress"}]})),
        paused,
        Answer::text("From the second."),
    ]);
    let (world, _schema) = on_postgres(&model, "taken");
    let (web, mut first) = (web(&world), worker(&world));
    let ada = web.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Begin."}), 202);
    let mut events = stream.until("text");
    first.kill();
    let second = worker(&world);
    events.extend(stream.until("turn_ended"));
    let told = seen(&events);
    // The log can be ahead of the pieces of the second.
    assert!(told == "|" || told == "|From the second.", "{told}");
    let responded = events.iter().rfind(|event| event.name == "responded").unwrap();
    assert_eq!(responded.data["message"]["text"], "From the second.");
    let answered = events.iter().filter(|event| event.name == "tool_answered").count();
    assert_eq!(answered, 1, "what was answered is not asked again");
    let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    assert!(metric(&second, "prowess_queue_takeovers_total") >= 1.0);
}

#[test]
fn a_cancel_reaches_a_worker_in_another_process() {
    let model = FakeModel::start(vec![Answer::hang()]);
    let (world, _schema) = on_postgres(&model, "cancelled");
    let (web, _worker) = (web(&world), worker(&world));
    let ada = web.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Begin."}), 202);
    model.wait_for_requests(1);
    ada.post(&format!("/threads/{thread}/cancel"), json!({}), 202);
    assert_eq!(stream.until("turn_ended").last().unwrap().data["outcome"], "cancelled");
}

#[test]
fn a_process_that_drains_leaves_what_waits_to_the_next_one() {
    let model = FakeModel::start(vec![Answer::text("High.")]);
    let (world, _schema) = on_postgres(&model, "drained");
    let (mut web, other_web) = (web(&world), self::web(&world));
    let ada = web.client("admin");
    let thread = ada.thread();
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "When?"}), 202);
    let told = world.stdout(&["serve", "--drain"]);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(told, format!("2 processes on {} handed over all threads\n", host.trim()));
    assert_eq!(web.child.wait().unwrap().code(), Some(0));
    drop(other_web);
    assert_eq!(world.stdout(&["serve", "--drain=all"]), "no process of this server runs\n");
    // What was posted waits for the next process.
    let server = Server::start(&world);
    let ada = server.client("admin");
    assert_eq!(ada.events(&thread, Some(0)).until("turn_ended").last().unwrap().data["outcome"], "answered");
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn a_process_that_was_killed_hands_nothing_over() {
    let model = FakeModel::start(Vec::new());
    let (world, _schema) = on_postgres(&model, "killed");
    let (web, mut worker) = (web(&world), worker(&world));
    worker.kill();
    let told = world.stdout(&["serve", "--drain=all"]);
    assert_eq!(
        told,
        "1 process handed over all threads; 1 does not answer: others take their threads when the leases end\n"
    );
    drop(web);
}

#[test]
fn a_worker_that_stops_hands_its_threads_over() {
    let model = FakeModel::start(vec![Answer::hang(), Answer::text("From the second.")]);
    let (world, _schema) = on_postgres(&model, "handed");
    let web = web(&world);
    // Nobody waits for the end of such a lease.
    let with_long_lease = ["--role", "worker", "--lease", "600"];
    let mut first = Server::begin(&world, &with_long_lease);
    first.line("prowess worker http://");
    let ada = web.client("admin");
    let thread = ada.thread();
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Begin."}), 202);
    model.wait_for_requests(1);
    let mut second = Server::begin(&world, &with_long_lease);
    let rest = second.line("prowess worker http://");
    second.address = rest.split(' ').next().unwrap().to_owned();
    let pid = first.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    first.child.wait().unwrap();
    let events = ada.events(&thread, Some(0)).until("turn_ended");
    let responded = events.iter().rfind(|event| event.name == "responded").unwrap();
    assert_eq!(responded.data["message"]["text"], "From the second.");
    assert!(metric(&second, "prowess_queue_takeovers_total") < 1.0, "it was handed over");
}

#[test]
fn case_145_a_process_stops_when_a_newer_one_changed_the_tables() {
    let model = FakeModel::start(Vec::new());
    let (world, schema) = on_postgres(&model, "newer");
    let schema = &schema.0;
    let mut server = Server::start(&world);
    execute(&format!("UPDATE {schema}.prowess_schema SET version = 99"));
    // What was added does no harm.
    let second = Server::start(&world);
    drop(second);
    execute(&format!("UPDATE {schema}.prowess_schema SET works_with = 99"));
    let told = server.line("prowess: ");
    assert!(told.contains("has version 99") && told.contains("use a newer prowess"), "{told}");
    assert_eq!(server.child.wait().unwrap().code(), Some(2));
    let refused = world.run(&["serve", "--listen", ":0"]);
    assert!(refused.starts_with("exit 2\n") && refused.contains("use a newer prowess"), "{refused}");
}

#[test]
fn many_processes_that_start_at_once_make_the_tables_once() {
    let model = FakeModel::start(Vec::new());
    let (world, _schema) = on_postgres(&model, "started");
    let starts: Vec<Command> = ["worker", "web"]
        .repeat(4)
        .iter()
        .map(|role| world.command(&["serve", "--listen", ":0", "--role", role]))
        .collect();
    let mut children: Vec<_> = starts
        .into_iter()
        .map(|mut start| {
            start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in &mut children {
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
        let first = lines.next().unwrap().unwrap();
        assert!(
            first.starts_with("prowess worker http://") || first.starts_with("prowess http://"),
            "{first}"
        );
        if first.starts_with("prowess http://") {
            let second = lines.next().unwrap().unwrap();
            assert!(second.starts_with("sign in as `admin`, once"), "{second}");
        }
    }
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
