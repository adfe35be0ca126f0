//! One prompt and its answer: in pipes, for scripts, and with nobody to ask.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::json;

use super::*;

/// The events that a run prints.
fn events(output: &std::process::Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn a_pipe_gets_the_answer_alone() {
    let said = "It is **high**.\n\n| a | b |\n";
    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "tides"})),
        runs("sh scripts/tides.sh"),
        Answer::text(said),
        Answer::text("Read from a pipe."),
    ]);
    let world = world(&model);
    assert_snapshot!(told(&world, &["chat", "--yes", "is it high?"]));
    let output = world.fed(&["chat", "--resume", "last"], "  from a pipe\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Read from a pipe.\n");
    assert_eq!(output.status.code(), Some(0));
    assert!(all(&model.requests()[3]).contains("is it high?"), "it is the same thread");
}

#[test]
fn commands_in_a_pipe_have_no_styles() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = world(&model);
    world.output(&["chat", "hello"]);
    let mut all = String::new();
    for line in ["/skills", "/context", "/help", "/resume", "/model", "/export talk.json", "/fork", "/contxt"]
    {
        all.push_str(&format!("{line}\n{}", told(&world, &["chat", "--resume", "last", line])));
    }
    assert!(!all.contains('\u{1b}'), "{all}");
    assert_snapshot!(all);
}

#[test]
fn a_question_waits_where_nobody_answers() {
    let model = FakeModel::start(vec![runs("echo it ran"), Answer::text("Done.")]);
    let world = world(&model);
    assert_snapshot!(told(&world, &["chat", "do it"]));
    let id = thread(&world);
    let output = world.output(&["chat", "--resume", &id, "go on", "--json"]);
    assert_eq!(output.status.code(), Some(1), "it still waits");
    assert_eq!(model.requests().len(), 1);
    let pty = Pty::start(&world, &["chat", "--resume", &id], 70, 30);
    pty.wait_for("allow it?");
    pty.type_line("y");
    pty.wait_for("Done.");
}

#[test]
fn json_is_an_object_a_line() {
    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "tides"})),
        runs("sh scripts/tides.sh"),
        Answer::text("high \u{2028}\u{202e}\u{1b}[2J\u{85}water"),
        Answer::status(400, "no"),
    ]);
    let world = world(&model);
    let output = world.output(&["chat", "--json", "--yes", "is it high?"]);
    let raw = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(!raw.contains(['\u{2028}', '\u{202e}', '\u{1b}', '\u{85}']), "{raw}");
    let all = events(&output);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    let types: Vec<&str> = all.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let once: Vec<&str> = types
        .iter()
        .enumerate()
        .filter(|(at, name)| *at == 0 || types[at - 1] != **name)
        .map(|(_, name)| *name)
        .collect();
    assert_eq!(
        once,
        [
            "thread", "said", "call", "loaded", "result", "said", "call", "question", "note", "replied",
            "call", "progress", "result", "file", "text", "said", "made", "ended", "context"
        ]
    );
    let said: String = all
        .iter()
        .filter(|event| event["type"] == "text")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, "high \u{2028}\u{202e}\u{1b}[2J\u{85}water");
    let ended = all.iter().find(|event| event["type"] == "ended").unwrap();
    assert_eq!(ended["answer"], said);

    let output = world.output(&["chat", "--json", "again"]);
    let all = events(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(all.iter().filter(|event| event["type"] == "ended").count(), 1);
    let types: BTreeSet<&str> = all.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert!(!types.contains("text"), "{types:?}");
}

#[test]
fn a_reader_that_has_enough_ends_it() {
    let model = FakeModel::start(vec![Answer::slow(&"a line\n ".repeat(10_000), Duration::from_millis(2))]);
    let world = world(&model);
    let mut command = world.command(&["chat", "talk"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 6]).unwrap();
    drop(out);
    model.wait_for_ends(1);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}

#[test]
fn an_interrupt_stops_a_single_turn() {
    let model = FakeModel::start(vec![Answer::hang(), Answer::text("Here.")]);
    let world = world(&model);
    let mut command = world.command(&["chat", "talk"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    model.wait_for_requests(1);
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    model.wait_for_ends(1);
    let output = child.wait_with_output().unwrap();
    assert_eq!(stable(&world, &world.told(&output)), "exit 130\n--- out\n--- err\nprowess: stopped\n");
    assert_eq!(world.fed(&["chat", "--resume", "last"], "again").status.code(), Some(0));
}

#[test]
fn what_is_read_has_a_beginning_and_an_end() {
    let model = FakeModel::start(vec![Answer::text("Read.")]);
    let world = world(&model);
    let mut told = String::new();
    for (what, input) in [
        ("nothing", Vec::new()),
        ("blanks", b" \n\t\n".to_vec()),
        ("no text", b"\xff\xfe".to_vec()),
        ("5 MB", vec![b'x'; 5_000_000]),
    ] {
        told.push_str(&format!("{what}: {}", world.told(&world.fed(&["chat"], input))));
    }
    assert_snapshot!(told);
    assert_eq!(model.requests().len(), 0);
    configure(&world, &model.url(), "");
    let large = "word ".repeat(20_000);
    assert_eq!(world.fed(&["chat"], &large).status.code(), Some(0));
    assert!(last(&model.requests()[0]).len() > 99_000);
}
