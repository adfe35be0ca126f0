//! What a person types while the agent is at work, in several lines, or all at once: nothing of it is lost.

use insta::assert_snapshot;

use super::*;
use crate::model::Gate;

/// What the person said, turn by turn.
fn said(model: &FakeModel) -> Vec<String> {
    let requests = model.requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap().clone();
    let of_person = messages.into_iter().filter(|message| message["role"] == "user");
    of_person.map(|message| text_of(&message["content"])).collect()
}

fn text_of(content: &Value) -> String {
    match content {
        Value::Array(parts) => parts.iter().map(|part| part["text"].as_str().unwrap_or_default()).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

/// A conversation in whose first turn the model waits for the gate.
fn busy(world: &World, model: &FakeModel) -> Pty {
    let pty = begun(world, &[], 70, 40);
    pty.type_line("first");
    model.wait_for_requests(1);
    pty.wait_for("thinking");
    pty
}

/// Waits until so many turns are over and the person is asked for a line, at the end of which is this.
fn rested(pty: &Pty, turns: usize, end: &str) -> String {
    pty.wait_until(&format!("{end:?} at the end of {turns} turns"), |screen| {
        let is_over = screen.matches("of 100k tokens").count() == turns && !screen.contains("thinking");
        is_over && screen.trim_end().ends_with(end)
    })
}

fn ends_with(pty: &Pty, end: &str) -> String {
    pty.wait_until(&format!("{end:?} at the end"), |screen| screen.trim_end().ends_with(end))
}

#[test]
fn lines_typed_during_a_turn_wait_and_are_said_in_order() {
    let gate = Gate::default();
    let model = FakeModel::start(vec![
        Answer::text("One.").held(&gate),
        Answer::text("Two."),
        Answer::text("Three."),
        Answer::text("Four."),
    ]);
    let world = world(&model);
    let mut pty = busy(&world, &model);
    for line in ["second", "/skills", "third"] {
        pty.type_line(line);
        pty.wait_for(&format!("waiting: {line}"));
    }
    pty.press("hal");
    pty.press("f a lime\x7f\x7fne");
    ends_with(&pty, "> half a line");
    let turning = regex::Regex::new("[⠁-⣿] thinking").unwrap();
    let screen = turning.replace(&pty.screen(), "⠋ thinking").into_owned();
    assert_snapshot!("while_they_wait", stable(&world, &screen));
    gate.open();
    let screen = rested(&pty, 3, "\n> half a line");
    assert!(!screen.contains("waiting:"), "{screen}");
    assert_snapshot!("when_they_were_said", stable(&world, &screen));
    assert_eq!(said(&model), ["first", "second", "third"]);
    pty.type_line(" more");
    pty.wait_for("Four.");
    at_prompt(&pty);
    assert_eq!(said(&model)[3], "half a line more");
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn ctrl_c_gives_the_lines_that_wait_back() {
    let model = FakeModel::start(vec![Answer::hang(), Answer::text("Both.")]);
    let world = world(&model);
    let pty = busy(&world, &model);
    pty.type_line("second");
    pty.type_line("third");
    pty.press("and");
    pty.wait_for("> and");
    pty.press("\x03");
    pty.wait_for("! stopped");
    rested(&pty, 1, "> second\n  third\n  and");
    assert_eq!(model.requests().len(), 1, "nothing was said that can still be changed");
    pty.type_line(" so on");
    pty.wait_for("Both.");
    at_prompt(&pty);
    // Messages without an answer between them are one to this model.
    assert_eq!(said(&model), ["first\n\nsecond\nthird\nand so on"]);
}

#[test]
fn a_turn_that_fails_gives_the_lines_that_wait_back() {
    let gate = Gate::default();
    let model =
        FakeModel::start(vec![Answer::status(400, "no such thing").held(&gate), Answer::text("Yes.")]);
    let world = world(&model);
    let pty = busy(&world, &model);
    pty.type_line("second");
    pty.wait_for("waiting: second");
    gate.open();
    pty.wait_for("no such thing");
    rested(&pty, 1, "\n> second");
    assert_eq!(model.requests().len(), 1);
    pty.press("\r");
    pty.wait_for("Yes.");
}

#[test]
fn a_command_that_fails_gives_the_lines_that_wait_back() {
    for command in ["/unload nothing", "/contxt"] {
        let gate = Gate::default();
        let model = FakeModel::start(vec![Answer::text("One.").held(&gate)]);
        let world = world(&model);
        let pty = busy(&world, &model);
        pty.type_line(command);
        pty.type_line("third");
        pty.wait_for("waiting: third");
        gate.open();
        rested(&pty, 1, "\n> third");
        assert_eq!(model.requests().len(), 1);
    }
}

#[test]
fn a_line_that_waits_can_be_changed_or_dropped() {
    let gate = Gate::default();
    let model = FakeModel::start(vec![Answer::text("One.").held(&gate), Answer::text("Two.")]);
    let world = world(&model);
    let pty = busy(&world, &model);
    pty.type_line("second");
    pty.type_line("a mistake");
    pty.wait_for("waiting: a mistake");
    pty.press("\x1b[A");
    ends_with(&pty, "> a mistake");
    pty.wait_gone("waiting: a mistake");
    pty.press("\x15");
    pty.wait_gone("a mistake");
    pty.press("\x1b[A");
    ends_with(&pty, "> second");
    pty.press("\x01my \x05 thought\r");
    pty.wait_for("waiting: my second thought");
    gate.open();
    pty.wait_for("Two.");
    at_prompt(&pty);
    assert_eq!(said(&model), ["first", "my second thought"]);
}

#[test]
fn lines_that_come_at_once_are_all_said() {
    let model = FakeModel::start(["One.", "Two.", "Three."].map(Answer::text).into());
    let world = world(&model);
    let pty = begun(&world, &[], 70, 40);
    pty.press("first\rsecond\rthird\rrest");
    rested(&pty, 3, "\n> rest");
    assert_eq!(said(&model), ["first", "second", "third"]);
}

#[test]
fn a_message_can_have_several_lines() {
    let model = FakeModel::start(["One.", "Two.", "Three."].map(Answer::text).into());
    let world = world(&model);
    let mut pty = begun(&world, &[], 70, 40);
    pty.press("one\x1b\rtwo");
    ends_with(&pty, "> one\n  two");
    pty.press("\r");
    pty.wait_for("One.");
    at_prompt(&pty);
    pty.press("three \\\rfour");
    ends_with(&pty, "> three\n  four");
    pty.press("\r");
    pty.wait_for("Two.");
    at_prompt(&pty);
    pty.press("\x1b[200~five\r\nsix\rseven\x1b[201~");
    ends_with(&pty, "> five\n  six\n  seven");
    // Up and Down stay in the message while they can.
    pty.press("\x1b[A\x1b[A\x05!\x1b[B\x1b[B\x05?");
    ends_with(&pty, "> five!\n  six\n  seven?");
    assert_eq!(model.requests().len(), 2);
    pty.press("\r");
    pty.wait_for("Three.");
    at_prompt(&pty);
    assert_eq!(said(&model), ["one\ntwo", "three \nfour", "five!\nsix\nseven?"]);
    assert_snapshot!(stable(&world, &pty.screen()));
    pty.press("\x1b[A");
    ends_with(&pty, "> five!\n  six\n  seven?");
    pty.press("\x03\x04");
    assert_eq!(pty.wait(), Some(0));
}

#[test]
fn text_typed_before_a_question_is_a_message_and_no_answer() {
    let gate = Gate::default();
    let model = FakeModel::start(vec![
        runs("true").held(&gate),
        Answer::text("Refused."),
        Answer::text("Heard you."),
    ]);
    let world = world(&model);
    let pty = busy(&world, &model);
    pty.type_line("y");
    pty.wait_for("waiting: y");
    pty.press("y");
    ends_with(&pty, "> y");
    gate.open();
    ends_with(&pty, "allow it? [y/a/n]");
    pty.press("\r");
    ends_with(&pty, "type y, a or n; allow it? [y/a/n]");
    assert_eq!(model.requests().len(), 1, "it is not answered");
    assert_snapshot!("a_question_over_waiting_lines", stable(&world, &pty.screen()));
    pty.type_line("n not now");
    pty.wait_for("Heard you.");
    rested(&pty, 2, "\n> y");
    let all = said(&model);
    assert_eq!(all, ["first", "y"]);
    assert!(last(&model.requests()[1]).contains("not now"));
}

#[test]
fn ctrl_d_during_a_turn_leaves_after_it() {
    let gate = Gate::default();
    let model = FakeModel::start(vec![Answer::text("One.").held(&gate)]);
    let world = world(&model);
    let mut pty = busy(&world, &model);
    pty.press("\x04");
    pty.wait_for("waiting: /quit");
    gate.open();
    assert_eq!(pty.wait(), Some(0));
    assert!(pty.screen().contains("One."), "{}", pty.screen());
}

#[test]
fn whoever_leaves_is_told_what_was_not_said_and_finds_it_again() {
    let gate = Gate::default();
    let model = FakeModel::start(vec![runs("true").held(&gate)]);
    let world = world(&model);
    let mut pty = busy(&world, &model);
    pty.type_line("second");
    pty.type_line("third");
    pty.wait_for("waiting: third");
    gate.open();
    ends_with(&pty, "allow it? [y/a/n]");
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    assert!(pty.screen().contains("2 lines were not sent"), "{}", pty.screen());
    let pty = begun(&world, &[], 70, 40);
    pty.press("\x1b[A");
    ends_with(&pty, "> third");
    pty.press("\x1b[A");
    ends_with(&pty, "> second");
}

#[test]
fn a_message_that_was_not_sent_is_found_again() {
    let gate = Gate::default();
    let model = FakeModel::start(vec![Answer::text("One.").held(&gate)]);
    let world = world(&model);
    let mut pty = begun(&world, &[], 70, 40);
    pty.press("dropped by mistake");
    ends_with(&pty, "> dropped by mistake");
    pty.press("\x03");
    at_prompt(&pty);
    pty.press("\x1b[A");
    ends_with(&pty, "> dropped by mistake");
    pty.press("\x15typed as it closed");
    ends_with(&pty, "> typed as it closed");
    hang_up(&pty);
    assert_eq!(pty.wait(), Some(129));
    // The same while the agent is at work.
    let mut pty = busy(&world, &model);
    pty.press("typed meanwhile");
    ends_with(&pty, "> typed meanwhile");
    hang_up(&pty);
    assert_eq!(pty.wait(), Some(129));
    gate.open();
    let pty = begun(&world, &[], 70, 40);
    for line in ["typed meanwhile", "first", "typed as it closed", "dropped by mistake"] {
        pty.press("\x1b[A");
        ends_with(&pty, &format!("> {line}"));
    }
}

/// What the system tells a program whose terminal is closed.
fn hang_up(pty: &Pty) {
    let process = rustix::process::Pid::from_raw(pty.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::HUP).unwrap();
}

#[test]
fn a_long_line_can_be_changed_anywhere_at_any_size() {
    let model = FakeModel::start(vec![Answer::text("One.")]);
    let world = world(&model);
    let pty = begun(&world, &[], 40, 20);
    let long: String = (10..45).map(|number| format!("{number} 潮汐 ")).collect();
    pty.press(&long);
    pty.wait_for("44");
    pty.resize(30, 20);
    pty.press("\x01start \x05end");
    pty.wait_for("end");
    pty.resize(50, 20);
    pty.press("\x1b[D\x1b[D\x1b[DTHE \r");
    pty.wait_for("One.");
    at_prompt(&pty);
    assert_eq!(said(&model), [format!("start {long}THE end")]);
}

#[test]
fn the_screen_can_change_its_size_while_lines_wait() {
    let gate = Gate::default();
    let model = FakeModel::start(vec![Answer::text("One.").held(&gate), Answer::text("Two.")]);
    let world = world(&model);
    let pty = busy(&world, &model);
    pty.type_line("second");
    pty.press("half");
    ends_with(&pty, "> half");
    pty.resize(50, 30);
    pty.press("!");
    ends_with(&pty, "> half!");
    gate.open();
    let screen = rested(&pty, 2, "\n> half!");
    assert_eq!(screen.matches("half!").count(), 1, "{screen}");
}

#[test]
fn earlier_lines_are_found_by_their_words() {
    let model = FakeModel::start(["One.", "Two.", "Three."].map(Answer::text).into());
    let world = world(&model);
    let pty = begun(&world, &[], 70, 30);
    for (line, answer) in [("the tide at Dover", "One."), ("the moon", "Two.")] {
        pty.type_line(line);
        pty.wait_for(answer);
        at_prompt(&pty);
    }
    pty.press("\x12tide");
    pty.wait_for("the tide at Dover");
    pty.press("\x05?\r");
    pty.wait_for("Three.");
    assert_eq!(said(&model)[2], "the tide at Dover?");
}

#[test]
fn the_terminal_is_left_as_it_was() {
    let model = FakeModel::start(vec![Answer::text("One.")]);
    let world = world(&model);
    let mut command = world.command(&[]);
    let program = command.get_program().to_owned();
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "stty -a > before; \"$0\" chat; stty -a > after; \"$0\" chat; stty -a > then"])
        .arg(program);
    shell.current_dir(world.path("project")).env_clear();
    for (name, value) in command.env("TERM", "xterm").get_envs() {
        shell.env(name, value.unwrap());
    }
    let mut pty = Pty::run(shell, 70, 30);
    at_prompt(&pty);
    pty.type_line("hello");
    pty.wait_for("One.");
    at_prompt(&pty);
    pty.press("\x04");
    pty.wait_for("continue with");
    at_prompt(&pty);
    pty.type_line("/quit");
    assert_eq!(pty.wait(), Some(0), "{}", pty.everything());
    let read = |name: &str| std::fs::read_to_string(world.path(&format!("project/{name}"))).unwrap();
    assert_eq!(read("after"), read("before"));
    assert_eq!(read("then"), read("before"));
}
