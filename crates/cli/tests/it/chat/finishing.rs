//! The last screen of a run, in a terminal: what a person reads once it is over.

use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::world::examples;

#[test]
fn calls_that_were_allowed_by_yes_have_ended() {
    let both =
        runs("sh scripts/tides.sh").and_call("skill_run", json!({"skill": "tides", "command": "true"}));
    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "tides"})),
        both,
        Answer::text("It is *high* water."),
    ]);
    let world = world(&model);
    let mut pty = Pty::start(&world, &["chat", "--yes", "is it high?"], 200, 30);
    assert_eq!(pty.wait(), Some(0));
    let screen = pty.screen();
    assert!(!screen.contains('✗') && !screen.contains("stopped after"), "{screen}");
    assert_snapshot!(stable(&world, &screen));
}

#[test]
fn a_command_that_failed_has_no_tick() {
    let model = FakeModel::start(vec![runs("exit 3"), Answer::text("It failed.")]);
    let world = world(&model);
    let mut pty = Pty::start(&world, &["chat", "--yes", "is it high?"], 100, 30);
    assert_eq!(pty.wait(), Some(0));
    let screen = pty.screen();
    assert!(
        screen.contains("✗ run tides: exit 3  exit 3, sandbox bwrap") && !screen.contains('✓'),
        "{screen}"
    );
}

#[test]
fn the_first_chat_of_the_readme_ends_with_its_answer() {
    let world = World::new();
    let args = ["chat", "--yes", "--root", &examples(), "Compute the first ten Fibonacci numbers."];
    let mut pty = Pty::start(&world, &args, 100, 40);
    assert_eq!(pty.wait(), Some(0));
    let screen = pty.screen();
    assert!(!screen.contains('✗') && !screen.contains("stopped after"), "{screen}");
    assert_eq!(screen.matches("✓ run python-math").count(), 1, "{screen}");
}

#[test]
fn a_call_that_a_person_allowed_has_ended_once() {
    let model = FakeModel::start(vec![runs("true"), Answer::text("Done.")]);
    let world = world(&model);
    let pty = begun(&world, &[], 100, 30);
    pty.type_line("do it");
    pty.wait_for("allow it?");
    pty.type_line("y");
    pty.wait_for("Done.");
    let screen = at_prompt(&pty);
    assert_eq!((screen.matches("run tides: true").count(), screen.matches('✗').count()), (1, 0), "{screen}");
}
