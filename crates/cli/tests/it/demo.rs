//! The demo as a person meets it, and its picture.

use std::path::Path;

use prowess_record::{Kind, Picture};

use crate::pty::Pty;
use crate::world::World;

/// What shows that a stage happened, in the order of the stages.
const EVIDENCE: [&str; 14] = [
    "1/8  Discovery",
    "json-schema-check",
    "2/8  Overview",
    "- python-math: ",
    "3/8  Load, sandboxed run, output files, artifact",
    "There is the file `out/fib.txt`",
    "out/fib.txt\t0\t23 B",
    "4/8  Approval",
    "5/8  Resume",
    "I loaded the skill `json-schema-check` and ran its first example",
    "6/8  Unload",
    "7/8  Compaction",
    "8/8  After compaction",
    "That was the demo.",
];

#[test]
fn every_stage_is_played_and_leaves_nothing_behind() {
    let world = World::new();
    let temporary = world.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = world.command(&["demo"]);
    let output = command.env("TMPDIR", &temporary).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    let mut rest = out.as_str();
    for evidence in EVIDENCE {
        let at = rest.find(evidence).unwrap_or_else(|| panic!("{evidence} is not in\n{rest}"));
        rest = &rest[at + evidence.len()..];
    }
    for evidence in [
        "python-math is loaded",
        "exit 0, sandbox bwrap",
        "/ws/out/fib.txt  23 B",
        "out/fib.txt@0 is saved  `prowess artifacts get out/fib.txt@0 --thread ",
        "a question is waiting",
        "approved by --yes: run in skill 'json-schema-check'",
        "python-math is unloaded",
        "messages summarised",
    ] {
        assert!(err.contains(evidence), "{evidence} is not in\n{err}");
    }
    // What fills the window, before and after: one skill and a conversation less.
    let left = out.rsplit("8/8").next().unwrap();
    assert!(left.contains("json-schema-check") && !left.contains("python-math"), "{left}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left behind");
    assert!(!world.path("home/.local/state/prowess").exists(), "the user's own state is not touched");
}

#[test]
fn a_conversation_is_shorter_after_the_summary() {
    let world = World::new();
    let output = world.command(&["demo"]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let line = err.lines().find(|line| line.contains("tokens before")).unwrap();
    let numbers: Vec<f64> =
        line.split(&['k', ' '][..]).filter_map(|word| word.trim_end_matches(',').parse().ok()).collect();
    assert!(numbers.len() == 2 && numbers[1] < numbers[0], "{line}");
}

#[test]
fn without_bubblewrap_it_says_what_to_install_and_what_else_there_is() {
    let world = World::new();
    let empty = world.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let output = world.command(&["demo"]).env("PATH", &empty).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1), "{told}");
    assert!(told.contains("commands cannot be isolated here: "), "{told}");
}

#[test]
fn nothing_fails_on_a_screen() {
    let world = World::new();
    let mut pty = Pty::start(&world, &["demo"], 92, 34);
    for stage in EVIDENCE.iter().filter(|evidence| evidence.contains("/8  ")) {
        pty.wait_for(stage);
    }
    pty.wait_for("That was the demo.");
    assert_eq!(pty.wait(), Some(0));
    let shown = pty.everything();
    assert!(!shown.contains('✗') && !shown.contains("stopped after"), "{shown}");
    assert_eq!(shown.matches("✓ run python-math").count(), 1, "{shown}");
    assert_eq!(shown.matches("✓ run json-schema-check").count(), 1, "{shown}");
}

#[test]
fn whoever_has_seen_enough_leaves_nothing_behind_either() {
    let world = World::new();
    let temporary = world.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = world.command(&["demo"]);
    command.env("TMPDIR", &temporary).env("TERM", "xterm-256color");
    let mut pty = crate::pty::Pty::run(command, 100, 40);
    pty.wait_for("2/8");
    pty.press("\x03");
    assert_eq!(pty.wait(), Some(130), "{}", pty.everything());
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left behind");
}

/// The picture of the README is of this demo, and not of an earlier one.
#[test]
fn the_picture_shows_these_stages() {
    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/demo.svg");
    let picture = std::fs::read_to_string(picture).unwrap();
    for stage in EVIDENCE.iter().filter(|evidence| evidence.contains("/8  ")) {
        let name = stage.split("  ").nth(1).unwrap();
        assert!(picture.contains(name), "docs/demo.svg lacks {name}: `make demo-svg`");
    }
    assert!(!picture.contains('✗'), "docs/demo.svg shows a call that failed");
}

/// `make demo-svg` does this, in a picture that moves.
#[test]
fn a_recording_is_a_picture() {
    let world = World::new();
    let file = world.path("demo.svg");
    let picture = Picture { columns: 92, rows: 34, title: "prowess demo", kind: Kind::Still };
    let status = prowess_record::record(world.command(&["demo"]), picture, &file).unwrap();
    let picture = std::fs::read_to_string(file).unwrap();
    assert_eq!(status.code(), Some(0), "{picture}");
    assert!(picture.starts_with("<svg") && picture.contains("That was the demo."), "{picture}");
}

/// The recorder is for development, and no part of the program.
#[test]
fn the_program_does_not_record_itself() {
    let world = World::new();
    let output = world.output(&["demo", "--record", "demo.svg"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!world.path("project/demo.svg").exists());
}
