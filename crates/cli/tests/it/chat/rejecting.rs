//! A no ends everything else that the message wants, as docs/permissions.md promises.

use super::*;

fn three() -> Answer {
    let run = |command: &str| json!({"skill": "tides", "command": command});
    runs("echo one > \"$OUTPUT_DIR/one\"")
        .and_call("skill_run", run("echo two > \"$OUTPUT_DIR/two\""))
        .and_call("write_file", json!({"file_path": "/three.txt", "content": "three\n"}))
}

/// Whether any command has left its file in a workspace.
fn has_run(world: &World, name: &str) -> bool {
    let workspaces = world.path("home/.local/state/prowess/workspaces");
    let spaces = std::fs::read_dir(workspaces).into_iter().flatten().flatten();
    spaces.map(|space| space.path()).any(|space| {
        let inside = std::fs::read_dir(space).into_iter().flatten().flatten();
        inside.map(|entry| entry.path().join("out").join(name)).any(|file| file.exists())
    })
}

#[test]
fn a_no_ends_the_other_questions_of_the_message() {
    let model = FakeModel::start(vec![three(), Answer::text("I leave it.")]);
    let world = world(&model);
    let pty = begun(&world, &[], 90, 40);
    pty.type_line("do all");
    pty.wait_for("allow it?");
    pty.type_line("n not today");
    let screen = pty.wait_until("the next question or the end", |screen| {
        screen.matches("allow it?").count() == 2 || screen.contains("I leave it.")
    });
    assert_eq!(screen.matches("allow it?").count(), 1, "{screen}");
    pty.wait_for("I leave it.");
    at_prompt(&pty);
    let said = all(&model.requests()[1]);
    assert!(said.contains("The user said no: not today"), "{said}");
    assert_eq!(said.matches("The user said no").count(), 3, "{said}");
    assert!(!has_run(&world, "one") && !has_run(&world, "two"));
    assert!(!world.path("project/three.txt").exists());
}

#[test]
fn a_no_to_stored_questions_ends_all_of_them() {
    let model = FakeModel::start(vec![three(), Answer::text("I leave it.")]);
    let world = world(&model);
    assert_eq!(world.output(&["chat", "do all"]).status.code(), Some(1), "it waits");
    let pty = Pty::start(&world, &["chat", "--resume", "last"], 90, 40);
    pty.wait_for("allow it?");
    pty.type_line("y");
    pty.wait_until("the second question", |screen| screen.matches("allow it?").count() == 2);
    pty.type_line("n enough");
    let screen = pty.wait_until("the next question or the end", |screen| {
        screen.matches("allow it?").count() == 3 || screen.contains("I leave it.")
    });
    assert_eq!(screen.matches("allow it?").count(), 2, "{screen}");
    assert!(has_run(&world, "one"), "what was allowed before was done");
    assert!(!has_run(&world, "two") && !world.path("project/three.txt").exists());
}
