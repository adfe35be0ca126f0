//! Ctrl-C, Ctrl-D, and the other keys of a person who types.

use std::time::Duration;

use insta::assert_snapshot;

use super::*;

const LONG: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen";

#[test]
fn ctrl_c_in_an_answer_stops_the_turn_and_not_the_program() {
    let model = FakeModel::start(vec![
        Answer::slow(&LONG.repeat(100), Duration::from_millis(30)),
        Answer::text("Here again."),
    ]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 60, 20);
    pty.type_line("count");
    pty.wait_for("one two three");
    pty.press("\x03");
    pty.wait_for("! stopped");
    at_prompt(&pty);
    model.wait_for_ends(1);
    pty.type_line("are you there?");
    pty.wait_for("Here again.");
    at_prompt(&pty);
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn ctrl_c_in_an_answer_that_hangs() {
    let model = FakeModel::start(vec![Answer::hang(), Answer::text("Here again.")]);
    let world = world(&model);
    let pty = begun(&world, &[], 60, 20);
    pty.type_line("count");
    model.wait_for_requests(1);
    pty.wait_for("thinking");
    pty.press("\x03");
    pty.wait_for("! stopped");
    model.wait_for_ends(1);
    at_prompt(&pty);
    pty.type_line("are you there?");
    pty.wait_for("Here again.");
}

#[test]
fn ctrl_c_in_a_run_leaves_no_process() {
    let seconds = format!("8{}", std::process::id());
    let model = FakeModel::start(vec![runs(&format!("sleep {seconds}")), Answer::text("It was stopped.")]);
    let world = world(&model);
    let pty = begun(&world, &[], 60, 20);
    pty.type_line("wait");
    pty.wait_for("allow it?");
    pty.type_line("y");
    eventually("the command to run", || is_running(&seconds));
    pty.press("\x03");
    pty.wait_for("! stopped");
    at_prompt(&pty);
    eventually("the command to be gone", || !is_running(&seconds));
    pty.type_line("what happened?");
    pty.wait_for("It was stopped.");
    let request = model.requests().pop().unwrap();
    let messages = request["messages"].as_array().unwrap();
    let result = messages.iter().find(|message| message["role"] == "tool");
    assert!(result.is_some(), "a call has its result: {request}");
}

#[test]
fn ctrl_c_at_a_question_ends_the_turn() {
    let model = FakeModel::start(vec![runs("true"), Answer::text("Something else, then.")]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 60, 24);
    pty.type_line("do it");
    pty.wait_for("allow it?");
    pty.press("\x03");
    pty.wait_for("! stopped");
    at_prompt(&pty);
    pty.type_line("do something else");
    pty.wait_for("Something else, then.");
    at_prompt(&pty);
    pty.press("half a line\x03");
    pty.wait_until("another prompt", |screen| {
        screen.ends_with("> half a line^C\n>") || screen.ends_with("> half a line\n>")
    });
    pty.press("\x03");
    pty.wait_until("one more prompt", |screen| screen.ends_with("\n>\n>"));
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn ctrl_d_at_a_question_leaves_it_for_later() {
    let model = FakeModel::start(vec![runs("echo it ran"), Answer::text("Done.")]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 70, 24);
    pty.type_line("do it");
    pty.wait_for("allow it?");
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    let mut pty = Pty::start(&world, &["chat", "--resume", "last"], 70, 24);
    pty.wait_for("allow it?");
    assert_snapshot!(stable(&world, &pty.screen()));
    pty.type_line("y");
    pty.wait_for("Done.");
    at_prompt(&pty);
    assert!(last(&model.requests()[1]).contains("it ran"), "{}", last(&model.requests()[1]));
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn ctrl_d_at_the_reason_is_a_no_without_one() {
    let model = FakeModel::start(vec![runs("true"), Answer::text("As you like.")]);
    let world = world(&model);
    let pty = begun(&world, &[], 60, 24);
    pty.type_line("do it");
    pty.wait_for("allow it?");
    pty.type_line("maybe");
    pty.wait_until("the question again", |screen| screen.matches("allow it?").count() == 2);
    pty.type_line("N");
    pty.wait_for("why?");
    pty.press("\x04");
    pty.wait_for("As you like.");
}

#[test]
fn tab_completes_and_up_brings_back() {
    let model = FakeModel::start(vec![Answer::text("Hello."), Answer::text("Hello again.")]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 60, 30);
    pty.press("/con\t\r");
    pty.wait_for("conversation");
    at_prompt(&pty);
    pty.press("/ti\t");
    pty.wait_for("> /tides");
    pty.press("\x15");
    at_prompt(&pty);
    pty.type_line("say hello");
    pty.wait_for("Hello.");
    at_prompt(&pty);
    pty.press("\x1b[A");
    pty.wait_until("the line before", |screen| screen.ends_with("> say hello"));
    pty.press("\x1b[A");
    pty.wait_until("the line before that", |screen| screen.ends_with("> /context"));
    pty.press("\x15\x04");
    assert_eq!(pty.wait(), Some(0));
    // Also in the next conversation.
    let pty = begun(&world, &[], 60, 30);
    pty.press("\x1b[A\r");
    pty.wait_for("Hello again.");
    assert!(last(&model.requests()[1]).contains("say hello"));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(world.path("home/.local/state/prowess/history")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o077, 0, "what was typed is for this user alone");
}

#[test]
fn what_is_typed_wrong_is_told() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let mut pty = begun(&world, &[], 90, 40);
    for line in [
        "/contxt",
        "/zeppelin x",
        "/fork it",
        "/unload",
        "/unload tides",
        "/model nobody:x",
        "/model gpt",
        "/resume zz",
        "/export /nowhere/x",
    ] {
        pty.type_line(line);
        pty.wait_for(&format!("> {line}\n·"));
        at_prompt(&pty);
    }
    assert_snapshot!(stable(&world, &pty.screen()));
    pty.type_line("/exit");
    assert_eq!(pty.wait(), Some(0));
    assert_eq!(model.requests().len(), 0);
}

#[test]
fn the_terminal_changes_its_size_in_the_middle_of_an_answer() {
    let model = FakeModel::start(vec![Answer::slow(LONG, Duration::from_millis(60))]);
    let world = world(&model);
    let pty = begun(&world, &[], 60, 20);
    pty.type_line("count");
    pty.wait_for("three");
    pty.resize(30, 12);
    pty.wait_for("six");
    pty.resize(50, 16);
    pty.wait_for("fifteen");
    let screen = at_prompt(&pty);
    let answer: Vec<&str> = screen.split_whitespace().collect();
    let answer = answer.join(" ");
    assert!(answer.contains(LONG), "said once and whole:\n{screen}");
    assert_eq!(screen.matches("thirteen").count(), 1, "{screen}");
}
