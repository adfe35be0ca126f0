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

/// The text of the history file of the only thread that has one.
fn history(world: &World) -> String {
    let mut directories = vec![world.path("home")];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            let is_history = path.parent().is_some_and(|parent| parent.ends_with("conversation_history"));
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => directories.push(path),
                kind if kind.is_file() && is_history => found.push(path),
                _ => {}
            }
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    std::fs::read_to_string(&found[0]).unwrap()
}

#[test]
fn a_compaction_does_not_bring_removed_skills_back() {
    // What takes the text of the skill away, and whether the text is still there.
    let unload: fn(&World, &FakeModel) = |world, _| {
        world.run(&["chat", "--resume", "last", "/unload tides"]);
    };
    let deny: fn(&World, &FakeModel) = |world, model| {
        configure(world, &model.url(), "[permission.skill]\n\"tides\" = \"deny\"\n");
    };
    for (what, remove, is_removed) in [
        ("loaded", (|_, _| {}) as fn(&World, &FakeModel), false),
        ("unloaded", unload, true),
        ("denied", deny, true),
    ] {
        let model = FakeModel::start(vec![
            Answer::call("skill_load", json!({"skill": "tides"})),
            Answer::text("Loaded."),
            Answer::text("Went on."),
            summary(),
        ]);
        let world = world(&model);
        world.run(&["chat", "--yes", "the first request"]);
        remove(&world, &model);
        world.run(&["chat", "--yes", "--resume", "last", "the second request"]);
        let compacted = world.run(&["chat", "--resume", "last", "/compact"]);
        assert!(compacted.contains("messages summarised"), "{what}: {compacted}");
        let requests = model.requests();
        assert!(all(&requests[1]).contains("Run scripts/tides.sh."), "{what}: it was loaded");
        let (asked, history) = (all(requests.last().unwrap()), history(&world));
        for text in [&asked, &history] {
            assert_eq!(text.contains("Run scripts/tides.sh."), !is_removed, "{what}: {text}");
            for said in ["the first request", "skill_load", "Loaded.", "the second request"] {
                assert!(text.contains(said), "{what}: {said}: {text}");
            }
        }
        assert_eq!(history.matches("Human: the first request").count(), 1, "{what}: {history}");
    }
}
