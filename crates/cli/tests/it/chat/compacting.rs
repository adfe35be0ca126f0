//! `/compact` says what came of it.

use super::*;

/// The summary that a model is asked for.
fn summary() -> Answer {
    Answer::text("You were at sea.")
}

#[test]
fn compaction_says_what_was_summarised_and_what_was_not() {
    let model =
        FakeModel::start(vec![Answer::text("One."), Answer::text("Two."), summary(), Answer::text("Three.")]);
    let world = world(&model);
    let pty = begun(&world, &[], 90, 40);
    pty.type_line("/compact");
    pty.wait_for("nothing was summarised: the conversation is empty");
    at_prompt(&pty);
    for (line, answer) in [("first", "One."), ("second", "Two.")] {
        pty.type_line(line);
        pty.wait_for(answer);
        at_prompt(&pty);
    }
    pty.type_line("/compact");
    pty.wait_for("3 messages summarised");
    // Three words became a longer summary.
    pty.wait_for("; this saved none");
    at_prompt(&pty);
    pty.type_line("/compact");
    pty.wait_for("nothing was summarised: since the last summary there is 1 message");
    at_prompt(&pty);
    assert!(!pty.screen().contains("or it could not be done"), "{}", pty.screen());
}

#[test]
fn a_summary_that_fails_says_why() {
    let model = FakeModel::start(vec![
        Answer::text("One."),
        Answer::text("Two."),
        Answer::status(400, "no summary today"),
    ]);
    let world = world(&model);
    world.output(&["chat", "first"]);
    world.output(&["chat", "--resume", "last", "second"]);
    let told = world.run(&["chat", "--resume", "last", "/compact"]);
    assert!(told.contains("nothing was summarised: ") && told.contains("no summary today"), "{told}");
}

#[test]
fn each_compaction_is_counted_by_itself() {
    let model = FakeModel::start(vec![
        Answer::text("One."),
        Answer::text("Two."),
        summary(),
        Answer::text("Three."),
        summary(),
    ]);
    let world = world(&model);
    let compacted = || {
        let output = world.output(&["chat", "--resume", "last", "--json", "/compact"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let compacted = events.filter(|event| event["type"] == "compacted");
        compacted.map(|event| event["messages"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    world.output(&["chat", "first"]);
    world.output(&["chat", "--resume", "last", "second"]);
    assert_eq!(compacted(), [3]);
    world.output(&["chat", "--resume", "last", "third"]);
    assert_eq!(compacted(), [2], "and not all that were summarised so far");
}
