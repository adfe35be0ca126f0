//! The output of a command, while the command runs.

use std::io::BufRead as _;

use serde_json::{Value, json};

use super::Server;
use super::client::Client;
use super::conversing::settled;
use crate::chat::{eventually, world};
use crate::model::{Answer, FakeModel};
use crate::world::World;

/// Waits until a file appears that the test makes, and prints what it has.
const WAITS: &str = "until test -e /work/work/go; do sleep 0.02; done; head -c 40 /work/work/go; \
                     sleep 0.1; tail -c +41 /work/work/go; echo over";

fn runs(command: &str) -> Answer {
    Answer::call("skill_run", json!({"skill": "tides", "command": format!("{command}; {WAITS}")}))
}

/// A world whose commands need no reply.
pub(super) fn permissive(model: &FakeModel) -> World {
    let world = world(model);
    let path = "home/.config/prowess/prowess.toml";
    let config = std::fs::read_to_string(world.path(path)).unwrap();
    world.file(path, &format!("{config}\n[permission]\nskill = \"allow\"\nrun = \"allow\"\n"));
    world
}

/// Lets the only command that waits go on. It prints the real path of its workspace.
fn let_go(world: &World) -> String {
    let workspaces = world.path("home/.local/state/prowess/workspaces");
    let mut found = std::fs::read_dir(workspaces).unwrap().flatten().map(|entry| entry.path().join("ws"));
    let workspace = found.find(|path| path.join("work").is_dir()).unwrap();
    let real = workspace.to_str().unwrap().to_owned();
    std::fs::write(workspace.join("work/new"), format!("it is {real}/out!\n")).unwrap();
    std::fs::rename(workspace.join("work/new"), workspace.join("work/go")).unwrap();
    real
}

/// Waits until a call has reported this, and gives the progress so far.
pub(super) fn reported(stream: &mut super::client::Events, words: &str) -> String {
    let mut progress = String::new();
    while !progress.contains(words) {
        progress.push_str(stream.until("progress").last().unwrap().data["text"].as_str().unwrap());
    }
    progress
}

fn begun(client: &Client, thread: &str) {
    client.post(&format!("/threads/{thread}/turns"), json!({"text": "Look up the tide."}), 202);
}

#[test]
fn output_comes_while_the_command_runs_and_names_no_path_of_the_server() {
    let model = FakeModel::start(vec![
        runs(r"printf 'begun caf\303'; sleep 0.1; printf '\251\n'; echo 'a fault' >&2"),
        Answer::text("High."),
    ]);
    let world = permissive(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    begun(&ada, &thread);
    let first = reported(&mut stream, "a fault\n");
    assert_eq!(first, "begun café\na fault\n");
    // The call has no answer yet, and somebody who comes now reads what there was.
    let mut late = ada.events(&thread, Some(0));
    let live = late.until("live").pop().unwrap();
    let progress = live.data["progress"].as_object().unwrap();
    assert_eq!(progress.values().collect::<Vec<_>>(), [&first]);

    let real = let_go(&world);
    let rest = stream.until("tool_answered");
    for later in late.until("turn_ended").iter().chain(&rest) {
        assert!(!later.data.to_string().contains(&real), "{later:#?}");
    }
    let pieces = rest.iter().filter(|event| event.name == "progress");
    let printed: String = pieces.map(|event| event.data["text"].as_str().unwrap()).collect();
    assert_eq!(printed, "it is /work/out!\nover\n");
    let answer = rest.last().unwrap().data["text"].as_str().unwrap();
    assert!(answer.contains("begun café") && answer.contains("over"), "{answer}");
    settled(&ada, &thread);
    // It is not stored.
    assert!(!ada.get(&format!("/threads/{thread}/log")).to_string().contains("progress"));
    let after = ada.events(&thread, Some(0)).until("live").pop().unwrap();
    assert_eq!(after.data["progress"], json!({}));
}

#[test]
fn a_command_that_floods_is_bounded() {
    let model = FakeModel::start(vec![
        runs("yes 'a line that is long enough' | head -c 200000000; echo; echo begun"),
        Answer::text("High."),
    ]);
    let world = permissive(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    begun(&ada, &thread);
    let shown = reported(&mut stream, "begun");
    assert!(shown.len() < 10_000_000, "{} of 200 MB were sent", shown.len());
    let live = ada.events(&thread, Some(0)).until("live").pop().unwrap();
    let progress = live.data["progress"].as_object().unwrap().values().next().unwrap().as_str().unwrap();
    assert!(progress.len() <= 64 << 10 && progress.ends_with("begun\n"), "{}", progress.len());
    let_go(&world);
    stream.until("turn_ended");
}

#[test]
fn ag_ui_says_it_too() {
    let model = FakeModel::start(vec![runs("echo begun"), Answer::text("High.")]);
    let world = permissive(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    let input = json!({"threadId": thread, "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "a", "role": "user", "content": "Look up the tide."}]});
    let body = input.to_string();
    let (path, json) = ("/agui/prowess", "content-type: application/json");
    let text = std::thread::scope(|scope| {
        let run = scope.spawn(|| ada.request("POST", path, Some(body.as_bytes()), &[json]).text());
        reported(&mut stream, "begun");
        // A run that joins now gets what there was.
        let mut late = ada.send("POST", path, Some(body.as_bytes()), &[json]);
        let mut told = String::new();
        while !told.contains("begun\\n") {
            assert_ne!(late.read_line(&mut told).unwrap(), 0, "{told}");
        }
        let_go(&world);
        run.join().unwrap()
    });
    let events = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    let events = events.map(|event| serde_json::from_str::<Value>(event).unwrap());
    let progress = events.filter(|event| event["name"] == "prowess.progress");
    let printed: String = progress.map(|event| event["value"]["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(printed, "begun\nit is /work/out!\nover\n");
}

#[test]
fn the_output_of_a_command_that_is_typed_into_comes_too() {
    let command = format!("echo begun; {WAITS}");
    let model = FakeModel::start(vec![
        Answer::call("skill_exec", json!({"skill": "tides", "command": command, "yield_ms": 60_000})),
        Answer::text("High."),
    ]);
    let world = permissive(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    begun(&ada, &thread);
    assert_eq!(reported(&mut stream, "begun"), "begun\n");
    let_go(&world);
    let rest = stream.until("tool_answered");
    let answer = rest.last().unwrap().data["text"].as_str().unwrap();
    assert!(answer.contains("over"), "{answer}");
    eventually("the turn to end", || settled(&ada, &thread)["status"] == "idle");
}
