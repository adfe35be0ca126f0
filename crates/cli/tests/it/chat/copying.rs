//! A file is copied into the project after the person saw what will be there.

use insta::assert_snapshot;

use super::*;

fn copies(from: &str, to: &str) -> Answer {
    Answer::call("copy_file", json!({"from": from, "to": to, "replace": true}))
}

/// What `--json` says that a turn made: how and where.
fn made(world: &World, args: &[&str]) -> Vec<(String, String)> {
    let output = world.output(&[&["chat", "--yes", "--json"], args].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let made: Vec<&Value> = events.iter().filter(|event| event["type"] == "made").collect();
    assert!(made.len() <= 1, "{text}");
    let text = |value: &Value| value.as_str().unwrap().replace(&*world.path("").to_string_lossy(), "");
    let files = made.iter().flat_map(|event| event["files"].as_array().unwrap());
    files.map(|file| (text(&file["how"]), text(&file["name"]))).collect()
}

#[test]
fn a_person_sees_the_difference_before_text_replaces_text() {
    let old: String = (1..=30).map(|line| format!("line {line}\n")).collect();
    let new = old.replace("line 3\n", "line three\n").replace("line 28\n", "line 28\nline 28½\n");
    let model = FakeModel::start(vec![
        copies("/draft.md", "/notes.md"),
        copies("/chart.png", "/docs/"),
        copies("/draft.md", "/new.md"),
        Answer::text("Copied."),
    ]);
    let world = world(&model);
    world.file("project/notes.md", &old).file("project/draft.md", &new);
    std::fs::create_dir(world.path("project/docs")).unwrap();
    std::fs::write(world.path("project/chart.png"), b"\x89PNG\r\n\x1a\n\0\xff\x1b[2J").unwrap();
    let mut pty = begun(&world, &[], 120, 120);
    pty.type_line("put it there");
    for (questions, answer) in [(1, "v"), (2, "y"), (3, "y"), (4, "y")] {
        pty.wait_until("a question", |screen| screen.matches("allow it?").count() == questions);
        pty.type_line(answer);
    }
    pty.wait_for("Copied.");
    at_prompt(&pty);
    assert_snapshot!(stable(&world, &pty.screen()));
    assert_eq!(std::fs::read_to_string(world.path("project/notes.md")).unwrap(), new);
    assert_eq!(std::fs::read_to_string(world.path("project/new.md")).unwrap(), new);
    let chart = std::fs::read(world.path("project/docs/chart.png")).unwrap();
    assert_eq!(chart, b"\x89PNG\r\n\x1a\n\0\xff\x1b[2J");
    assert!(
        last(&model.requests()[1]).contains("Copied /project/draft.md to /project/notes.md"),
        "{}",
        last(&model.requests()[1])
    );
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn case_114_a_file_that_was_swapped_during_the_question_is_asked_about_again() {
    let model = FakeModel::start(vec![copies("/draft.md", "/notes.md"), Answer::text("As you like.")]);
    let world = world(&model);
    world.file("project/notes.md", "old\n").file("project/draft.md", "good\n");
    let pty = begun(&world, &[], 120, 60);
    pty.type_line("put it there");
    pty.wait_for("+good");
    pty.wait_for("allow it?");
    world.file("project/draft.md", "evil\n");
    pty.type_line("y");
    pty.wait_until("the new bytes", |screen| {
        screen.contains("+evil") && screen.matches("allow it?").count() == 2
    });
    assert_eq!(std::fs::read_to_string(world.path("project/notes.md")).unwrap(), "old\n");
    pty.type_line("n I did not write this");
    pty.wait_for("As you like.");
    assert_eq!(std::fs::read_to_string(world.path("project/notes.md")).unwrap(), "old\n");
    assert!(!at_prompt(&pty).contains('→'), "nothing was made:\n{}", pty.screen());
}

#[test]
fn the_end_of_a_turn_lists_what_was_made() {
    let model = FakeModel::start(vec![
        runs("echo draft > $OUTPUT_DIR/gone.txt; echo high > $OUTPUT_DIR/tide.txt"),
        runs("rm $OUTPUT_DIR/gone.txt; echo higher >> $OUTPUT_DIR/tide.txt"),
        Answer::call("write_file", json!({"file_path": "/notes.md", "content": "high\n"})),
        Answer::call("edit_file", json!({"file_path": "/old.md", "old_string": "low", "new_string": "high"})),
        copies("/notes.md", "/copy.md"),
        Answer::text("All of it."),
        Answer::text("Nothing."),
    ]);
    let world = world(&model);
    world.file("project/old.md", "low\n");
    let list = made(&world, &["make it"]);
    let (outside, inside): (Vec<_>, Vec<_>) = list.into_iter().partition(|(how, _)| how == "run");
    let expected =
        [("created", "project/notes.md"), ("created", "project/copy.md"), ("edited", "project/old.md")];
    assert_eq!(inside, expected.map(|(how, name)| (how.to_owned(), name.to_owned())));
    assert_eq!(outside.len(), 1, "{outside:?}");
    let tide = std::fs::read_to_string(world.path(&outside[0].1)).unwrap();
    assert_eq!(tide, "high\nhigher\n");
    assert_eq!(made(&world, &["and now?"]), [], "a turn that makes nothing has no list");
}

#[test]
fn the_list_has_what_sub_agents_made() {
    let task = |what: &str| Answer::call("task", json!({"description": what}));
    let model = FakeModel::start(vec![
        task("Make it."),
        Answer::call("write_file", json!({"file_path": "/project/notes.md", "content": "high\n"})),
        runs("echo high > $OUTPUT_DIR/tide.txt"),
        Answer::text("Made."),
        Answer::text("All of it."),
        Answer::text("Nothing."),
    ]);
    let world = world(&model);
    let list = made(&world, &["make it"]);
    assert_eq!(list[0], ("created".to_owned(), "project/notes.md".to_owned()), "{list:?}");
    assert_eq!((list.len(), list[1].0.as_str()), (2, "run"), "{list:?}");
    assert_eq!(std::fs::read_to_string(world.path(&list[1].1)).unwrap(), "high\n");
    assert_eq!(made(&world, &["and now?"]), []);
}
