//! After a run, a person is told where its files are, and how to fetch what is kept.

use super::*;

/// The paths below `home` that a text names.
fn paths(world: &World, text: &str) -> Vec<String> {
    let home = world.path("home").to_string_lossy().into_owned();
    let mut joined = String::new();
    for line in text.lines() {
        joined.push_str(line.trim_start());
        joined.push('\n');
    }
    let pattern = regex::Regex::new(&format!(r"{}/[^\s`\n]*", regex::escape(&home))).unwrap();
    pattern.find_iter(&joined).map(|found| found.as_str().trim_end_matches([',', ';']).to_owned()).collect()
}

fn saves() -> Answer {
    Answer::call(
        "skill_run",
        json!({
            "skill": "tides", "command": "echo high > \"$OUTPUT_DIR/tide.txt\"",
            "output_files": ["out/**"], "save_as_artifacts": true,
        }),
    )
}

#[test]
fn a_run_in_a_conversation_says_where_its_files_are() {
    let model = FakeModel::start(vec![runs("echo high > \"$OUTPUT_DIR/tide.txt\""), Answer::text("High.")]);
    let world = world(&model);
    let pty = begun(&world, &[], 200, 40);
    pty.type_line("is it high?");
    pty.wait_for("allow it?");
    pty.type_line("y");
    pty.wait_for("High.");
    let screen = at_prompt(&pty);
    let found = paths(&world, &screen);
    let file = found.iter().find(|path| path.ends_with("out/tide.txt"));
    let file = file.unwrap_or_else(|| panic!("no path of the file on the screen:\n{screen}"));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "high\n");
}

#[test]
fn what_is_kept_is_fetched_by_the_command_that_is_shown() {
    let model = FakeModel::start(vec![saves(), Answer::text("High."), saves(), Answer::text("High.")]);
    let world = world(&model);
    let told = world.run(&["chat", "--yes", "is it high?"]);
    let line = told.lines().find_map(|line| line.split_once("`prowess artifacts get ")?.1.split('`').next());
    let line = line.unwrap_or_else(|| panic!("no command in what is told:\n{told}"));
    let words: Vec<&str> = ["artifacts", "get"].into_iter().chain(line.split(' ')).collect();
    assert_eq!(world.stdout(&words), "high\n", "{line}");

    let output = world.output(&["chat", "--yes", "--json", "once more"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let files: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &Value| event["type"] == "file")
        .collect();
    let path = files.iter().find_map(|file| file["path"].as_str()).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "high\n");
    let fetch = files.iter().find_map(|file| file["fetch"].as_str()).unwrap_or_else(|| panic!("{text}"));
    // The other conversation has its own.
    assert!(fetch.starts_with("prowess artifacts get out/tide.txt@0 --thread "), "{fetch}");
}

#[test]
fn names_of_files_cannot_write_on_the_screen() {
    let command = "touch \"$OUTPUT_DIR/$(printf 'a\\033[2Jb\\nc')\"";
    let model = FakeModel::start(vec![runs(command), Answer::text("Made.")]);
    let world = world(&model);
    let output = world.output(&["chat", "--yes", "make it"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!told.contains('\u{1b}') && told.contains("out/a"), "{told}");
}

#[test]
fn a_question_to_write_a_file_shows_its_real_path() {
    let model = FakeModel::start(vec![
        Answer::call("write_file", json!({"file_path": "/notes.md", "content": "high\n"})),
        Answer::call(
            "edit_file",
            json!({"file_path": "/notes.md", "old_string": "high", "new_string": "low"}),
        ),
        Answer::text("Written."),
    ]);
    let world = world(&model);
    let pty = begun(&world, &[], 200, 40);
    pty.type_line("write it down");
    let question = format!("? write {}", world.path("project/notes.md").display());
    let screen = pty.wait_for("allow it?");
    assert!(screen.contains(&question), "{screen}");
    pty.type_line("y");
    let screen = pty.wait_until("another question", |screen| screen.matches("allow it?").count() == 2);
    assert_eq!(screen.matches(&question).count(), 2, "{screen}");
    pty.type_line("y");
    pty.wait_for("Written.");
}

#[test]
fn a_run_by_hand_says_where_its_files_are() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let command = ["run", "tides", "--save", "--", "echo high > \"$OUTPUT_DIR/tide.txt\""];
    let output = world.output(&command);
    let told = String::from_utf8(output.stderr).unwrap();
    let found = paths(&world, &told);
    let file = found.iter().find(|path| path.ends_with("out/tide.txt"));
    let file = file.unwrap_or_else(|| panic!("no path of the file:\n{told}"));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "high\n");
    assert!(told.contains("prowess artifacts get out/tide.txt@0"), "{told}");
    let report = world.json(&[&["run", "--json"], &command[1..]].concat());
    let place = report["workspace"].as_str().unwrap_or_else(|| panic!("{report}"));
    assert!(std::path::Path::new(place).join("out/tide.txt").is_file(), "{report}");
}

#[test]
fn a_failed_command_says_why() {
    let commands = [
        "echo fine; printf 'first\\n\\033[31mno \\033[2Jsuch tide\\n\\n' >&2; exit 3",
        "echo 'only here'; exit 4",
        "echo fine; echo 'a warning' >&2",
        "printf 'x%.0s' $(seq 1 300) >&2; exit 5",
    ];
    let answers = || commands.map(runs).into_iter().chain([Answer::text("Done.")]);
    let model = FakeModel::start(answers().chain(answers()).collect());
    let world = world(&model);
    let pty = begun(&world, &["--yes"], 80, 60);
    pty.type_line("go");
    pty.wait_for("Done.");
    let screen = at_prompt(&pty);
    for line in ["  no such tide", "  only here"] {
        assert!(
            screen.lines().any(|shown| shown.replace("[31m", "").replace("[2J", "") == line),
            "{line}: {screen}"
        );
    }
    assert!(!screen.contains("  a warning"), "{screen}");
    let long = screen.lines().find(|line| line.starts_with("  xxx")).expect(&screen);
    assert!(long.chars().count() == 80 && long.ends_with('…'), "{screen}");
    let told = String::from_utf8(world.output(&["chat", "--yes", "go"]).stderr).unwrap();
    assert!(told.contains(": only here\n") && told.contains("skill_run: exit 4"), "{told}");
}
