//! Writes a dump with the version that this test is built from.
//!
//! Write the dump of a version once, before its stored data changes, and never change the dump again:
//!
//! ```sh
//! eval "$(scripts/test-postgres.sh start)"
//! PROWESS_FIXTURES=/tmp/new.sql cargo test -p prowess-store --all-features --test it -- --ignored --exact earlier::writing::dump
//! ```
//!
//! Then move the file to `crates/store/tests/fixtures/VERSION.sql`.

use std::process::Command;
use std::sync::Arc;

use prowess_agent::{CallReply, Event, NoWatcher, ThreadStore as _, TurnOutcome, TurnStatus};
use prowess_models::ScriptedTurn as Says;
use prowess_workspace::artifact::MemoryBlobs;
use prowess_workspace::{ArtifactName, ArtifactStore as _, Artifacts, Scope};
use serde_json::{Value, json};

use super::{COMMAND, Harbour, SCHEMA, id};
use crate::support::{postgres_url, variable};

fn call(tool: &str, arguments: Value) -> Says {
    Says::new().call(tool, arguments)
}

fn run() -> Says {
    call("skill_run", json!({"skill": "kites", "command": COMMAND}))
}

fn write() -> Value {
    json!({"file_path": "/log.txt", "content": "Monday: calm\n"})
}

/// A thread with this message and these responses, in which each question gets this reply until the turn ends.
async fn talk(harbour: &Harbour, name: &str, text: &str, says: Vec<Says>, reply: Option<CallReply>) {
    let mut thread = harbour.thread(name, says).await;
    let mut turn = thread.say(text, &NoWatcher).await.unwrap();
    while let (TurnStatus::Waiting(waiting), Some(reply)) = (&turn, &reply) {
        turn = thread.reply(&waiting[0], reply.clone(), &NoWatcher).await.unwrap();
    }
    let expected = thread.last_response().filter(|answer| !answer.is_empty()).map(|_| TurnOutcome::Responded);
    match expected {
        Some(outcome) => assert_eq!(turn, TurnStatus::Ended(outcome), "{name}"),
        None => {
            assert!(matches!(&turn, TurnStatus::Waiting(waiting) if waiting.len() == 1), "{name}: {turn:?}")
        }
    }
    thread.close().await.unwrap();
}

/// The same thread as if its process was killed after the last such event.
async fn cut(harbour: &Harbour, from: &str, name: &str, is_last: fn(&Event) -> bool) {
    let events = harbour.store.events(&id(from), 0, usize::MAX).await.unwrap();
    let last = events.iter().rev().find(|stored| is_last(&stored.event)).unwrap();
    harbour.store.fork(&id(from), last.number, &id(name)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes a file that is written once for a version"]
async fn dump() {
    let target = std::env::var("PROWESS_FIXTURES").expect("PROWESS_FIXTURES names a file to be written");
    let url = postgres_url().await;
    let harbour = Harbour::new(&url).await;
    let select = json!({"skill": "tides", "docs": ["references/calais.md"]});
    let says = vec![call("skill_select_docs", select), Says::new().say("High at one.")];
    talk(&harbour, "loaded", "/tides at Dover", says, None).await;
    let load = |skill: &str| call("skill_load", json!({"skill": skill}));
    talk(&harbour, "load", "Load the tides.", vec![load("tides")], None).await;
    talk(&harbour, "run", "Run it.", vec![run()], None).await;
    talk(&harbour, "write", "Write the log.", vec![call("write_file", write())], None).await;
    talk(&harbour, "tool", "List the files.", vec![call("ls", json!({"path": "/"}))], None).await;
    talk(&harbour, "both", "Load and write.", vec![load("kites").call("write_file", write())], None).await;
    let task = json!({"description": "Look it up.", "subagent_type": "general-purpose"});
    talk(&harbour, "task", "Ask somebody else.", vec![call("task", task), run()], None).await;

    cut(&harbour, "write", "cut-answer", |event| matches!(event, Event::ModelCalled { .. })).await;
    talk(&harbour, "done", "Run it.", vec![run(), Says::new().say("Done.")], Some(CallReply::Approve)).await;
    cut(&harbour, "done", "cut-run", |event| matches!(event, Event::ToolStarted { .. })).await;
    cut(&harbour, "done", "cut-reply", |event| matches!(event, Event::Replied { .. })).await;
    harbour.store.delete(&id("done")).await.unwrap();

    let says = vec![
        load("knots"),
        call("skill_run", json!({"skill": "kites", "command": "echo a kite"})),
        call("glob", json!({"pattern": "*"})),
        Says::new().say("All of it."),
    ];
    talk(&harbour, "always", "Always.", says, Some(CallReply::Always)).await;
    let artifacts = Artifacts::new(Arc::new(MemoryBlobs::default()), Arc::new(harbour.store.clone()));
    let artifacts = artifacts.in_scope(Scope::thread("loaded").unwrap());
    let name = ArtifactName::parse("out/tide.txt").unwrap();
    for text in ["high\n", "low\n"] {
        artifacts.save(&name, text.into(), "text/plain").await.unwrap();
    }

    let (_, schema) = url.rsplit_once("%3D").unwrap();
    let mut dump = Command::new("pg_dump");
    dump.args([
        "--inserts",
        "--no-owner",
        "--no-privileges",
        "--schema",
        schema,
        &variable("PROWESS_TEST_POSTGRES"),
    ]);
    let dumped = dump.output().unwrap();
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    std::fs::write(target, String::from_utf8(dumped.stdout).unwrap().replace(schema, SCHEMA)).unwrap();
}
