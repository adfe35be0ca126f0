//! Approvals of runs that earlier versions bound to words which say nothing any more.

use serde_json::{Value, json};

use super::{Earlier, STATE};
use crate::chat::at_prompt;
use crate::model::Answer;
use crate::pty::Pty;

/// The run that was allowed for good.
fn run() -> Answer {
    Answer::call("skill_run", json!({"skill": "kites", "command": "echo a kite"}))
}

/// What is approved, by its kind and pattern.
fn approved(earlier: &Earlier) -> Vec<Value> {
    let text = std::fs::read_to_string(earlier.path(&format!("{STATE}/approvals.json"))).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["approvals"].as_array().unwrap().clone()
}

#[test]
fn an_approval_of_a_run_is_asked_for_once_more_and_the_question_says_why() {
    let earlier = Earlier::of_0_1();
    let answers = vec![run(), Answer::text("One."), run(), Answer::text("Two.")];
    let model = earlier.model(answers, "");
    let mut pty = Pty::start(&earlier, &["chat"], 160, 60);
    at_prompt(&pty);
    pty.type_line("do it");
    let screen = pty.wait_for("allow it?");
    assert!(screen.contains("echo a kite") && screen.contains("earlier version"), "{screen}");
    pty.type_line("a");
    pty.wait_for("One.");
    at_prompt(&pty);
    pty.type_line("/quit");
    assert_eq!(pty.wait(), Some(0));
    // From now on it holds, in another process too.
    assert_eq!(earlier.stdout(&["chat", "do it again"]), "Two.\n");
    assert_eq!(model.requests().len(), 4);
    let of_runs: Vec<Value> = approved(&earlier).into_iter().filter(|one| one["kind"] == "run").collect();
    assert_eq!(of_runs.len(), 1, "the old one is replaced: {of_runs:#?}");
    assert!(!of_runs[0].to_string().contains("Directory("), "{of_runs:#?}");
}

#[test]
fn a_no_to_it_is_a_no_and_the_others_stay() {
    let earlier = Earlier::of_0_1();
    let model = earlier.model(vec![run(), Answer::text("I leave it.")], "");
    let others = |earlier: &Earlier| {
        approved(earlier).into_iter().filter(|one| one["kind"] != "run").collect::<Vec<Value>>()
    };
    let before = others(&earlier);
    let pty = Pty::start(&earlier, &["chat"], 160, 60);
    at_prompt(&pty);
    pty.type_line("do it");
    pty.wait_for("allow it?");
    pty.type_line("n not today");
    pty.wait_for("I leave it.");
    at_prompt(&pty);
    assert!(model.requests()[1]["messages"].to_string().contains("not today"));
    assert_eq!(others(&earlier), before);
}

#[test]
fn where_nobody_can_be_asked_it_waits() {
    let earlier = Earlier::of_0_1();
    let _model = earlier.model(vec![run()], "");
    let output = earlier.output(&["chat", "do it"]);
    assert_eq!(output.status.code(), Some(1), "{}", earlier.told(&output));
    assert!(earlier.told(&output).contains("a question is waiting"), "{}", earlier.told(&output));
}
