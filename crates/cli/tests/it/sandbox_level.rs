//! A machine without bubblewrap: a weaker sandbox needs a person's word.

use std::path::Path;
use std::process::Command;

use crate::pty::Pty;
use crate::world::{World, examples};

const QUESTION: &str = "Run commands with `landlock` this time? [y/N]";

/// `prowess` on a machine that has everything except bubblewrap.
pub(crate) fn without_bubblewrap(world: &World, args: &[&str]) -> Command {
    let programs = world.path("programs");
    if !programs.exists() {
        std::fs::create_dir(&programs).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        for place in std::env::split_paths(&path).filter(|place| place.is_absolute()) {
            link_all(&place, &programs);
        }
    }
    let mut command = world.command(args);
    command.env("PATH", programs).env("TERM", "xterm-256color");
    command
}

fn link_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let link = to.join(entry.file_name());
        if entry.file_name() != "bwrap" && !link.exists() {
            let _ = std::os::unix::fs::symlink(entry.path(), link);
        }
    }
}

/// Waits until chat is ready for a line.
fn at_prompt(pty: &Pty) {
    pty.wait_until("the prompt", |screen| screen.lines().last() == Some(">"));
}

#[test]
fn chat_says_it_once_asks_and_runs_with_the_level_that_was_agreed_to() {
    let world = World::new();
    let skills = examples();
    let command = without_bubblewrap(&world, &["chat", "--yes", "--only", "--root", &skills]);
    let mut pty = Pty::run(command, 110, 50);
    let screen = pty.wait_for(QUESTION);
    assert!(screen.contains("bubblewrap is not installed"), "{screen}");
    assert!(screen.contains("Install the package `bubblewrap`"), "{screen}");
    pty.type_line("y");
    at_prompt(&pty);
    pty.type_line("Compute the first ten Fibonacci numbers.");
    pty.wait_for("exit 0, sandbox landlock");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0), "{}", pty.everything());
    assert_eq!(pty.everything().matches(QUESTION).count(), 1, "{}", pty.everything());
}

#[test]
fn chat_goes_on_without_commands_when_the_answer_is_no() {
    let world = World::new();
    let skills = examples();
    let command = without_bubblewrap(&world, &["chat", "--yes", "--only", "--root", &skills]);
    let mut pty = Pty::run(command, 110, 50);
    pty.wait_for(QUESTION);
    pty.type_line("");
    pty.wait_for("skill commands cannot run: bubblewrap is not installed");
    at_prompt(&pty);
    pty.type_line("Compute the first ten Fibonacci numbers.");
    pty.wait_for("Cannot run a command of skill 'python-math': bubblewrap is not installed");
    assert!(!pty.everything().contains("exit 0, sandbox"), "{}", pty.everything());
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0), "{}", pty.everything());
}

#[test]
fn a_prompt_on_a_terminal_is_asked_about_and_yes_to_everything_is_no_answer() {
    let world = World::new();
    let skills = examples();
    let prompt = "Compute the first ten Fibonacci numbers.";
    let command = without_bubblewrap(&world, &["chat", "--yes", "--only", "--root", &skills, prompt]);
    let mut pty = Pty::run(command, 110, 50);
    pty.wait_for(QUESTION);
    pty.type_line("y");
    assert_eq!(pty.wait(), Some(0), "{}", pty.everything());
    assert!(pty.everything().contains("exit 0, sandbox landlock"), "{}", pty.everything());
}

#[test]
fn a_level_that_was_given_is_not_asked_about() {
    let world = World::new();
    let skills = examples();
    let args =
        ["chat", "--yes", "--sandbox", "landlock", "--only", "--root", &skills, "Compute Fibonacci numbers."];
    let mut pty = Pty::run(without_bubblewrap(&world, &args), 110, 50);
    assert_eq!(pty.wait(), Some(0), "{}", pty.everything());
    assert!(pty.everything().contains("exit 0, sandbox landlock"), "{}", pty.everything());
    assert!(!pty.everything().contains("[y/N]"), "{}", pty.everything());
}

#[test]
fn without_a_terminal_commands_are_refused() {
    let world = World::new();
    let skills = examples();
    let args = ["chat", "--yes", "--only", "--root", &skills, "Compute the first ten Fibonacci numbers."];
    let output = without_bubblewrap(&world, &args).output().unwrap();
    let told = world.told(&output);
    assert!(
        told.contains("Cannot run a command of skill 'python-math': bubblewrap is not installed"),
        "{told}"
    );
    assert!(!told.contains("[y/N]") && !told.contains("exit 0, sandbox"), "{told}");
}

#[test]
fn the_demo_asks_on_a_terminal_and_is_not_played_without_a_yes() {
    let world = World::new();
    let mut refused = Pty::run(without_bubblewrap(&world, &["demo"]), 110, 50);
    refused.wait_for(QUESTION);
    refused.type_line("n");
    assert_eq!(refused.wait(), Some(1));
    let told = refused.everything();
    assert!(told.contains("prowess demo --sandbox landlock"), "{told}");
    assert!(!told.contains("1/8"), "{told}");
    let agreed = Pty::run(without_bubblewrap(&world, &["demo"]), 110, 50);
    agreed.wait_for(QUESTION);
    agreed.type_line("y");
    agreed.wait_for("1/8  Discovery");
}

#[test]
fn the_demo_plays_with_less_around_its_commands_when_it_is_told_to() {
    let world = World::new();
    let output = without_bubblewrap(&world, &["demo", "--sandbox", "landlock"]).output().unwrap();
    let told = world.told(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("exit 0, sandbox landlock") && told.contains("That was the demo."), "{told}");
}
