//! Questions show all that will be done.

use insta::assert_snapshot;
use serde_json::json;

use super::*;

#[test]
fn a_command_of_many_lines_is_shown_whole() {
    let command = "echo harmless\n\trm -rf /\u{1b}[2K\u{1b}[1A\r# \u{202e}sselmrah\n";
    let long = format!(
        "{command}{}\necho the last line\n",
        "# and so on, in words that take some room\n".repeat(15)
    );
    let arguments = json!({
        "skill": "tides", "command": long, "env": {"LD_PRELOAD": "x".repeat(200)}, "cwd": "work",
    });
    let model = FakeModel::start(vec![Answer::call("skill_run", arguments), Answer::text("As you like.")]);
    let world = world(&model);
    let pty = begun(&world, &[], 60, 70);
    pty.type_line("do it");
    pty.wait_for("allow it?");
    let screen = pty.screen();
    for part in [
        "echo harmless",
        "rm -rf /\\u{1b}[2K\\u{1b}[1A",
        "\\u{202e}sselmrah",
        "echo the last line",
        "LD_PRELOAD",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    assert!(screen.chars().filter(|c| *c == 'x').count() >= 200, "{screen}");
    assert_snapshot!(stable(&world, &screen));
    pty.type_line("n it is not harmless");
    pty.wait_for("As you like.");
    assert!(last(&model.requests()[1]).contains("it is not harmless"));
}

#[test]
fn files_are_shown_before_they_are_written() {
    let many: String = (1..=40).map(|line| format!("line {line}\n")).collect();
    let model = FakeModel::start(vec![
        Answer::call("write_file", json!({"file_path": "/notes.txt", "content": "high\n\ttide\n"})),
        Answer::call(
            "edit_file",
            json!({"file_path": "/notes.txt", "old_string": "high", "new_string": "low"}),
        ),
        Answer::call("write_file", json!({"file_path": "/many.txt", "content": many})),
        Answer::call("read_file", json!({"file_path": "/.env"})),
        Answer::text("Written."),
    ]);
    let world = world(&model);
    world.file("project/.env", "KEY=hush\n");
    let mut pty = begun(&world, &[], 200, 110);
    pty.type_line("write it down");
    for (questions, answer) in [(1, "yes"), (2, "y"), (3, "v"), (4, "y"), (5, "n it is a secret")] {
        pty.wait_until("a question", |screen| screen.matches("allow it?").count() == questions);
        pty.type_line(answer);
    }
    pty.wait_for("Written.");
    at_prompt(&pty);
    assert_snapshot!(stable(&world, &pty.screen()));
    assert_eq!(std::fs::read_to_string(world.path("project/notes.txt")).unwrap(), "low\n\ttide\n");
    assert!(!all(model.requests().last().unwrap()).contains("hush"));
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn two_calls_are_asked_about_one_after_the_other() {
    let both = runs("echo one").and_call("skill_run", json!({"skill": "tides", "command": "echo two"}));
    let model = FakeModel::start(vec![both, Answer::text("Half of it.")]);
    let world = world(&model);
    let pty = begun(&world, &[], 60, 40);
    pty.type_line("do both");
    pty.wait_until("a question", |screen| screen.matches("allow it?").count() == 1);
    pty.type_line("y");
    pty.wait_until("another question", |screen| screen.matches("allow it?").count() == 2);
    pty.type_line("n not this one");
    pty.wait_for("Half of it.");
    let said = all(&model.requests()[1]);
    assert!(said.contains("not this one") && said.contains("one\\\\n"), "{said}");
}

#[test]
fn a_skill_is_started_by_its_name() {
    let model = FakeModel::start(vec![Answer::text("Aye.")]);
    let world = world(&model);
    let pty = begun(&world, &[], 60, 30);
    pty.type_line("/tides at Dover");
    pty.wait_for("Aye.");
    at_prompt(&pty);
    assert_snapshot!(stable(&world, &pty.screen()));
    let said = all(&model.requests()[0]);
    assert!(said.contains("Run scripts/tides.sh.") && said.contains("at Dover"), "{said}");
}

#[test]
fn ctrl_d_at_a_question_of_a_resumed_thread_ends_the_chat() {
    let model = FakeModel::start(vec![runs("echo one"), Answer::text("Done.")]);
    let world = world(&model);
    let output = world.output(&["chat", "go"]);
    assert!(world.told(&output).contains("a question is waiting"), "{}", world.told(&output));
    let mut pty = Pty::start(&world, &["chat", "--resume", "last"], 110, 30);
    pty.wait_for("allow it?");
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    let screen = pty.screen();
    assert!(screen.contains("a question is waiting; continue with `prowess chat --resume"), "{screen}");
    assert!(screen.lines().all(|line| line != ">"), "{screen}");
    // The question is still there.
    let pty = Pty::start(&world, &["chat", "--resume", "last"], 110, 30);
    pty.wait_for("allow it?");
    pty.type_line("y");
    pty.wait_for("Done.");
}

#[test]
fn a_line_break_in_a_command_never_looks_like_a_blank() {
    let command = "# harmless comment\necho tide";
    let model = FakeModel::start(vec![runs(command), runs(command), Answer::text("Done.")]);
    let world = world(&model);
    let told = world.told(&world.output(&["chat", "go"]));
    assert!(
        told.contains("a question is waiting: run in skill 'tides': # harmless comment⏎echo tide;"),
        "{told}"
    );
    let pty = begun(&world, &["--yes"], 120, 40);
    pty.type_line("go");
    pty.wait_for("Done.");
    let screen = at_prompt(&pty);
    for line in [
        "approved by --yes: run in skill 'tides': # harmless comment⏎echo tide",
        "✓ run tides: # harmless comment⏎echo tide",
    ] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
}
