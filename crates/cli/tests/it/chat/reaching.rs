//! What a model reaches for: files of the machine, other providers, an answer before the question.

use serde_json::json;

use super::*;

/// Files of the machine come into a run without a question only from the directory that the person works in.
#[test]
fn files_of_the_machine_are_asked_about() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    world
        .file("home/.ssh/key", "PRIVATE\n")
        .file("project/data.csv", "a,b\n")
        .file("project/sub/.env", "TOKEN=hush\n");
    let from = |path: &str| format!("host://{}", world.path(path).display());
    let run = |path: &str| json!({"skill": "tides", "command": "find work/inputs -type f | xargs cat", "inputs": [{"from": from(path)}]});
    for (path, asks, seen) in [
        ("home/.ssh/key", true, "PRIVATE"),
        ("project/data.csv", false, "a,b"),
        ("project/sub", true, "TOKEN=hush"),
    ] {
        let model = FakeModel::start(vec![Answer::call("skill_run", run(path)), Answer::text("Done.")]);
        configure(&world, &model.url(), "[permission.run]\n\"tides *\" = \"allow\"\n");
        let told = told(&world, &["chat", "look"]);
        assert_eq!(told.contains("a question is waiting: let skill 'tides' read"), asks, "{path}: {told}");
        let answered = model.requests().get(1).map(last).unwrap_or_default();
        assert_eq!(answered.contains(seen), !asks, "{path}: {answered}");
    }
}

/// Who is asked in the thread can say yes, and then it is done.
#[test]
fn a_file_of_the_machine_comes_after_a_yes() {
    let placeholder = FakeModel::start(Vec::new());
    let world = world(&placeholder);
    world.file("home/notes.txt", "NOTES\n");
    let from = format!("host://{}", world.path("home/notes.txt").display());
    let call = json!({"skill": "tides", "command": "cat work/inputs/notes.txt", "inputs": [{"from": from}]});
    let model = FakeModel::start(vec![Answer::call("skill_run", call), Answer::text("Done.")]);
    configure(&world, &model.url(), "[permission.run]\n\"tides *\" = \"allow\"\n");
    let pty = begun(&world, &[], 100, 30);
    pty.type_line("look");
    pty.wait_for("allow it? [y/n]");
    pty.type_line("y");
    pty.wait_for("Done.");
    let answered = last(&model.requests()[1]);
    assert!(answered.contains("NOTES"), "{answered}");
}

/// What is typed while the model works is no answer to what it asks then, whatever it begins with.
#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let (moment, go_on) = Answer::paused("One moment, please.");
    let model = FakeModel::start(vec![
        moment.and_call("skill_run", json!({"skill": "tides", "command": "echo ran"})),
        Answer::text("Very well."),
    ]);
    let world = world(&model);
    let pty = begun(&world, &[], 80, 30);
    pty.type_line("do it");
    pty.wait_for("One");
    pty.type_ahead("a better way may be to ask me");
    pty.type_ahead("y");
    go_on.send(()).unwrap();
    pty.wait_for("allow it?");
    // More words than a yes are none.
    pty.type_line("a better way would be to wait");
    pty.wait_until("the question again", |screen| screen.matches("allow it?").count() == 2);
    pty.type_line("n no");
    pty.wait_for("Very well.");
    assert!(!last(&model.requests()[1]).contains("ran"), "{}", last(&model.requests()[1]));
    assert!(!world.path("home/.local/state/prowess/approvals.json").exists());
}

/// A skill chooses among the models of the provider that the person chose, and what is said goes to no other.
#[test]
fn a_skill_does_not_choose_the_provider() {
    let other = FakeModel::start(vec![Answer::text("I should not hear this.")]);
    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "abroad"})),
        Answer::text("Still here."),
        Answer::call("skill_load", json!({"skill": "within"})),
        Answer::text("Another, of the same."),
    ]);
    let world = world(&model);
    let more = format!("[provider.other]\napi = \"openai\"\nbase_url = \"{}\"\n", other.url());
    configure(&world, &model.url(), &more);
    for (name, wanted) in [("abroad", "other:m"), ("within", "n")] {
        world.file(
            &format!("home/.prowess/skills/{name}/SKILL.md"),
            &format!("---\nname: {name}\ndescription: Goes {name}.\nmodel: {wanted}\n---\nGo.\n"),
        );
    }
    let pty = begun(&world, &[], 80, 30);
    pty.type_line("private words");
    pty.wait_for("Still here.");
    at_prompt(&pty);
    assert_eq!(other.requests().len(), 0);
    pty.type_line("more of them");
    pty.wait_for("Another, of the same.");
    pty.wait_for("fake:n responded");
    assert_eq!(model.requests()[3]["model"], "n");
}

/// A program that is told to end leaves a terminal that can be used.
#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    // A shell looks before and after; whoever runs in it says which process it is.
    let script = r#"before=$(stty -g); (echo $BASHPID > pid; exec "$0" chat); code=$?
        test "$(stty -g)" = "$before" && echo "same after $code""#;
    let prowess = world.command(&[]);
    let mut command = std::process::Command::new("bash");
    command.args(["-c", script]).arg(prowess.get_program()).current_dir(world.path("project")).env_clear();
    command
        .envs(prowess.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("TERM", "xterm-256color");
    let pty = Pty::run(command, 80, 24);
    at_prompt(&pty);
    let process = std::fs::read_to_string(world.path("project/pid")).unwrap();
    std::process::Command::new("kill").args(["-TERM", process.trim()]).status().unwrap();
    pty.wait_for("same after 143");
}
