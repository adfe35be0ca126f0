//! A person is asked only about changes that can be made, and sees what is around them.

use insta::assert_snapshot;

use super::*;

fn writes(path: &str, content: &str) -> Answer {
    Answer::call("write_file", json!({"file_path": path, "content": content}))
}

fn edits(path: &str, old: &str, new: &str) -> Answer {
    Answer::call("edit_file", json!({"file_path": path, "old_string": old, "new_string": new}))
}

#[test]
fn nobody_is_asked_about_a_change_that_cannot_be_made() {
    let copies = Answer::call("copy_file", json!({"from": "/notes.md", "to": "/skills/tides/"}));
    let model = FakeModel::start(vec![
        writes("/skills/tides/new.md", "x"),
        edits("/skills/tides/SKILL.md", "Run", "Do not run"),
        copies,
        writes("/notes.md", "x"),
        writes("/docs", "x"),
        edits("/notes.md", "ebb", "x"),
        edits("/notes.md", "tide", "x"),
        edits("/lost.md", "ebb", "x"),
        edits("/link.md", "tide", "x"),
        writes("/dangling.md", "x"),
        writes("/out.md", "x"),
        writes("/notes.md/deep/new.md", "x"),
        Answer::text("None of it."),
    ]);
    let world = world(&model);
    world.file("project/notes.md", "tide\ntide\n").file("project/docs/a.md", "a\n");
    for (target, link) in
        [("notes.md", "link.md"), ("gone.md", "dangling.md"), ("/nowhere/gone.md", "out.md")]
    {
        std::os::unix::fs::symlink(target, world.path(&format!("project/{link}"))).unwrap();
    }
    let pty = begun(&world, &[], 90, 60);
    pty.type_line("write it down");
    pty.wait_until("an end or a question", |screen| {
        screen.contains("None of it.") || screen.contains("allow it?")
    });
    let screen = at_prompt(&pty);
    assert!(!screen.contains("allow it?"), "{screen}");
    assert_snapshot!(stable(&world, &screen));
    let requests = model.requests();
    for (request, told) in [
        "skills are read-only",
        "skills are read-only",
        "skills are read-only",
        "/project/notes.md already exists; choose another path, or change the file with edit_file",
        "/project/docs is a directory",
        "does not occur in /project/notes.md",
        "occurs 2 times in /project/notes.md",
        "/project/lost.md does not exist",
        "access to /project/link.md is denied: it is a link, or below one; it leads to /project/notes.md",
        "access to /project/dangling.md is denied: it is a link, or below one; it leads to /project/gone.md",
        "access to /project/out.md is denied",
        "/project/notes.md is not a directory",
    ]
    .iter()
    .enumerate()
    {
        assert!(last(&requests[request + 1]).contains(told), "{told}: {}", last(&requests[request + 1]));
    }
}

#[test]
fn a_check_reveals_nothing_that_rules_withhold() {
    let model = FakeModel::start(vec![
        writes("/hidden.md", "x"),
        edits("/.env", "KEY=guess", "KEY=x"),
        edits("/hidden.md", "guess", "x"),
        Answer::text("I know nothing."),
    ]);
    let world = world(&model);
    configure(&world, &model.url(), "[permission.read]\n\"./hidden.md\" = \"deny\"\n");
    world.file("project/hidden.md", "hush\n").file("project/.env", "KEY=hush\n");
    let pty = begun(&world, &[], 90, 60);
    pty.type_line("guess");
    pty.wait_for("allow it?");
    assert!(pty.screen().contains("hidden.md"), "{}", pty.screen());
    pty.type_line("n no");
    pty.wait_until("a second question", |screen| screen.matches("allow it?").count() == 2);
    let screen = pty.screen();
    assert!(screen.contains("- KEY=guess") && !screen.contains("hush"), "{screen}");
    pty.type_line("n no");
    pty.wait_for("I know nothing.");
    let said = all(model.requests().last().unwrap());
    for secret in ["hush", "already exists", "does not occur"] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
}

#[test]
fn an_edit_is_shown_with_the_lines_around_it() {
    let text: String = (1..=30).map(|line| format!("line {line}\n")).collect();
    let model = FakeModel::start(vec![
        edits("/notes.md", "line 12\n", "line twelve\n").and_call(
            "edit_file",
            json!({"file_path": "/notes.md", "old_string": "line 10\n", "new_string": "line 10\nline 10½\n"}),
        ),
        edits("/long.txt", "low", "high"),
        Answer::text("Edited."),
    ]);
    let world = world(&model);
    world.file("project/notes.md", &text).file("project/long.txt", &format!("{}low", "x".repeat(5000)));
    let pty = begun(&world, &[], 90, 60);
    pty.type_line("edit it");
    // An edit of the lines around another one makes that a new question.
    for questions in 1..=4 {
        pty.wait_until("a question", |screen| screen.matches("allow it?").count() == questions);
        pty.type_line("y");
    }
    pty.wait_for("Edited.");
    let screen = at_prompt(&pty);
    assert_snapshot!(stable(&world, &screen));
    let edited = std::fs::read_to_string(world.path("project/notes.md")).unwrap();
    assert!(edited.contains("line 10½\n") && edited.contains("line twelve\n"), "{edited}");
}

#[test]
fn an_edit_that_would_be_another_one_is_asked_about_again() {
    let model = FakeModel::start(vec![edits("/notes.md", "low", "high"), Answer::text("As you like.")]);
    let world = world(&model);
    world.file("project/notes.md", "Tide: low\n");
    let pty = begun(&world, &[], 90, 60);
    pty.type_line("edit it");
    pty.wait_for("allow it?");
    world.file("project/notes.md", "Spirits: low\n");
    pty.type_line("y");
    pty.wait_until("a new question", |screen| screen.matches("allow it?").count() == 2);
    assert!(pty.screen().contains("+Spirits: high"), "{}", pty.screen());
    assert_eq!(std::fs::read_to_string(world.path("project/notes.md")).unwrap(), "Spirits: low\n");
    // What is approved no longer occurs.
    world.file("project/notes.md", "Spirits: none\n");
    pty.type_line("y");
    pty.wait_for("As you like.");
    assert!(last(&model.requests()[1]).contains("does not occur"), "{}", last(&model.requests()[1]));
    assert_eq!(std::fs::read_to_string(world.path("project/notes.md")).unwrap(), "Spirits: none\n");
}
