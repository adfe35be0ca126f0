//! The output of a command, while the command runs: on a screen, and as an event.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::*;

/// Where the skill has a script that prints something, waits for [`let_go`], and prints more.
fn waiting_world(model: &FakeModel, first: &str) -> World {
    let world = world(model);
    let script = format!("{first}\nuntil test -e /work/work/go; do sleep 0.02; done; echo over\n");
    world.file("home/.prowess/skills/tides/scripts/wait.sh", &script);
    world
}

fn let_go(world: &World) {
    let workspaces = std::fs::read_dir(world.path("home/.local/state/prowess/workspaces")).unwrap();
    let works = workspaces.flatten().map(|entry| entry.path().join("ws/work"));
    works.filter(|work| work.is_dir()).for_each(|work| std::fs::write(work.join("go"), "").unwrap());
}

#[test]
fn the_last_line_is_below_the_call_until_the_call_ends() {
    let model = FakeModel::start(vec![runs("sh scripts/wait.sh"), Answer::text("It is high.")]);
    let world = waiting_world(&model, r"seq 1 5000; printf '10 %% of it\r  half of it: 潮汐\n\n'");
    let pty = begun(&world, &["--yes"], 60, 20);
    pty.type_line("is it high?");
    let screen = pty.wait_for("half of it");
    insta::assert_snapshot!(stable(&world, &without_spinner(&screen)));
    // It fits into one row, on any screen.
    pty.resize(12, 20);
    pty.wait_for("  half of i…");
    pty.resize(60, 20);
    let_go(&world);
    pty.wait_for("It is high.");
    let screen = at_prompt(&pty);
    assert!(screen.contains("✓ run tides") && !screen.contains("of it"), "{screen}");
    assert!(!pty.everything().contains("4999"), "nothing scrolled off");
}

#[test]
fn escape_sequences_and_long_lines_in_it_are_harmless() {
    let hostile =
        r"printf '\033[2J\033]0;title\007\033[31mred\033[0m\342\200\256 \302\2332J end'; printf '%0500d\n' 7";
    let model = FakeModel::start(vec![runs("sh scripts/wait.sh"), Answer::text("Done.")]);
    let world = waiting_world(&model, hostile);
    let pty = begun(&world, &["--yes"], 60, 20);
    pty.type_line("do it");
    let screen = pty.wait_for("00000…");
    assert!(screen.starts_with("prowess") && screen.contains("> do it"), "nothing was wiped:\n{screen}");
    let row = screen.lines().find(|row| row.contains("00000…")).unwrap();
    assert!(row.starts_with("  red") && !row.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{row:?}");
    let_go(&world);
    pty.wait_for("Done.");
    assert!(!at_prompt(&pty).contains("00000"));
}

#[test]
fn it_is_an_event() {
    let model = FakeModel::start(vec![runs("sh scripts/wait.sh"), Answer::text("It is high.")]);
    let world = waiting_world(&model, "echo begun");
    let mut command = world.command(&["chat", "--json", "--yes", "is it high?"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut events = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let progress = events.by_ref().find(|event| event["type"] == "progress").unwrap();
    assert_eq!(progress["text"], "begun");
    let_go(&world);
    let rest: Vec<Value> = events.collect();
    let result = rest.iter().position(|event| event["type"] == "result").unwrap();
    let told: Vec<&Value> = rest[..result].iter().filter(|event| event["type"] == "progress").collect();
    assert_eq!((told.len(), &told[0]["text"]), (1, &json!("over")));
    assert_eq!(told[0]["call"], rest[result]["call"]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_output_of_a_sub_agents_command_belongs_to_its_task() {
    let model = FakeModel::start(vec![
        Answer::call("task", json!({"description": "look", "subagent_type": "general-purpose"})),
        runs("echo from below"),
        Answer::text("Looked."),
        Answer::text("It is high."),
    ]);
    let world = world(&model);
    let output = world.output(&["chat", "--json", "--yes", "is it high?"]);
    let told = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let call = events.iter().find(|event| event["type"] == "call" && event["tool"] == "task").unwrap();
    let is_output = |event: &&Value| event["type"] == "progress" && event["text"] == "from below";
    let progress: Vec<&Value> = events.iter().filter(is_output).collect();
    assert_eq!(progress.len(), 1, "{told}");
    assert_eq!(progress[0]["call"], call["call"]);
}

/// The screen with the same frame of the spinner each time.
fn without_spinner(screen: &str) -> String {
    screen.replace(['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'], "⠋")
}
