//! Consecutive requests have the same beginning, so that providers can cache it.

use super::*;

/// A world with two skills, one of which has documents.
fn ready(model: &FakeModel) -> World {
    let world = world(model);
    world
        .file(
            "home/.prowess/skills/pilot/SKILL.md",
            "---\nname: pilot\ndescription: Plans a passage.\n---\n\nPlan the passage with care.\n",
        )
        .file(
            "home/.prowess/skills/pilot/references/lights.md",
            "# Lights\n\nThe lighthouse blinks twice.\n",
        );
    world
}

fn messages(request: &Value) -> &[Value] {
    request["messages"].as_array().unwrap()
}

/// The number of messages at the beginning that both requests have.
fn common(one: &Value, other: &Value) -> usize {
    messages(one)
        .iter()
        .zip(messages(other))
        .take_while(|(one, other)| one.to_string() == other.to_string())
        .count()
}

/// The place of the first message with this text.
fn place(request: &Value, text: &str) -> usize {
    let found = messages(request).iter().position(|message| message["content"].to_string().contains(text));
    found.unwrap_or_else(|| panic!("no {text} in {:#}", request["messages"]))
}

/// Checks that the system message and the tools are the same, and that the first message that differs is `cut`, or the
/// first new one.
#[track_caller]
fn holds(before: &Value, after: &Value, cut: Option<usize>) {
    assert_eq!(messages(before)[0], messages(after)[0], "the system message");
    assert_eq!(before["tools"].to_string(), after["tools"].to_string(), "the tools");
    let expected = cut.unwrap_or(messages(before).len());
    assert_eq!(common(before, after), expected, "{:#}\n{:#}", before["messages"], after["messages"]);
}

#[test]
fn a_conversation_keeps_its_prefix_except_where_text_is_freed() {
    let load = |skill: &str| Answer::call("skill_load", json!({"skill": skill}));
    let model = FakeModel::start(vec![
        // The first turn: 0 to 4.
        load("tides"),
        load("pilot"),
        Answer::call("skill_select_docs", json!({"skill": "pilot", "docs": ["references/lights.md"]})),
        runs("bash scripts/tides.sh"),
        Answer::text("High water at noon."),
        // The second turn: 5 to 7.
        Answer::call("skill_unload", json!({"skill": "pilot"})),
        Answer::call("read_file", json!({"file_path": "/project/log.txt"})),
        Answer::text("Unloaded."),
        // The third turn: 8 and 9.
        load("pilot"),
        Answer::text("Again."),
        // The compaction, and the fourth turn: 11 and 12.
        Answer::text("They were at sea."),
        load("tides"),
        Answer::text("Summarised."),
    ]);
    let world = ready(&model);
    world.file("project/log.txt", "Calm.\n");
    world.run(&["chat", "--yes", "when is high water?"]);
    for line in ["forget the passage", "plan it after all", "/compact", "and now?"] {
        world.run(&["chat", "--yes", "--resume", "last", line]);
    }
    let requests = model.requests();
    assert_eq!(requests.len(), 13);
    let pairs = |range: std::ops::Range<usize>| range.map(|at| (&requests[at], &requests[at + 1]));
    for (before, after) in pairs(0..5).chain(pairs(6..9)) {
        holds(before, after, None);
    }
    // The unload frees the text of the skill, and nothing before it changes.
    let text = "Plan the passage with care.";
    let cut = place(&requests[5], text);
    assert!(
        messages(&requests[5])[cut]["role"] == "tool",
        "the text is in the answer: {:#}",
        requests[5]["messages"]
    );
    holds(&requests[5], &requests[6], Some(cut));
    assert!(!all(&requests[6]).contains(text), "{:#}", requests[6]["messages"]);
    assert!(
        all(&requests[6]).contains("[Text of skill 'pilot' was removed: it was unloaded or replaced.]"),
        "{:#}",
        requests[6]
    );
    assert!(!all(&requests[6]).contains("The lighthouse blinks twice."), "{:#}", requests[6]["messages"]);
    // A compaction takes all messages out, but the prompt stays. The loaded skills are at the end.
    holds(&requests[9], &requests[11], Some(1));
    let end = last(&requests[11]);
    assert!(end.find("and now?").unwrap() < end.find(text).unwrap(), "{end}");
    holds(&requests[11], &requests[12], None);
}

/// A change of the catalog, of a file in play, or by the person is said at the end.
#[test]
fn news_comes_at_the_end_and_once() {
    let model = FakeModel::start(vec![
        Answer::call("skill_load", json!({"skill": "pilot"})),
        Answer::call("read_file", json!({"file_path": "/project/chart.map"})),
        Answer::text("Seen."),
        Answer::text("New ones."),
        Answer::text("Nothing new."),
        Answer::text("Gone."),
    ]);
    let world = ready(&model);
    world.file("project/chart.map", "Here be dragons.\n").file(
        "home/.prowess/skills/maps/SKILL.md",
        "---\nname: maps\ndescription: Reads maps.\npaths: \"*.map\"\n---\n\nLook at it.\n",
    );
    let chat = |line: &str| world.run(&["chat", "--yes", "--resume", "last", line]);
    world.run(&["chat", "--yes", "look at the chart"]);
    world.skill("home/.prowess/skills", "knots", "Ties knots.");
    world.file(
        "home/.prowess/skills/tides/SKILL.md",
        "---\nname: tides\ndescription: Looks up tides of all seas.\n---\n\nRun scripts/tides.sh.\n",
    );
    chat("and now?");
    chat("and now?");
    chat("/unload pilot");
    chat("is it gone?");
    let requests = model.requests();
    assert_eq!(requests.len(), 6);
    for pair in requests[..5].windows(2) {
        holds(&pair[0], &pair[1], None);
    }
    let new = |at: usize| json!(messages(&requests[at])[messages(&requests[at - 1]).len()..]).to_string();
    assert!(
        new(2).contains("These skills are for the files that came into play:\\n- **maps**: Reads maps."),
        "{}",
        new(2)
    );
    assert!(new(3).contains("New skills:\\n- **knots**: Ties knots."), "{}", new(3));
    assert!(
        new(3).contains(
            "The descriptions of these skills have changed:\\n- **tides**: Looks up tides of all seas."
        ),
        "{}",
        new(3)
    );
    assert!(!new(4).contains("skill"), "it is said once: {}", new(4));
    // The person's unload frees the text, and is said at the end.
    holds(&requests[4], &requests[5], Some(place(&requests[4], "Plan the passage with care.")));
    assert!(last(&requests[5]).contains("Skill 'pilot' was unloaded by the user."), "{}", last(&requests[5]));
}

/// The marks of the dialect `deepagents` are there if they are wanted.
#[test]
fn a_prompt_that_follows_the_loads_marks_loaded_skills() {
    for (settings, marks, in_system) in [
        ("dialect = \"deepagents\"", false, false),
        ("dialect = \"deepagents\"\nprompt = \"current\"", true, false),
        ("dialect = \"trpc\"\nprompt = \"current\"\nplacement = \"system\"", true, true),
    ] {
        let (tool, argument) =
            if settings.contains("trpc") { ("skill_load", "skill") } else { ("load_skill", "skill_name") };
        let model =
            FakeModel::start(vec![Answer::call(tool, json!({argument: "pilot"})), Answer::text("Done.")]);
        let world = ready(&model);
        configure(&world, &model.url(), &format!("[skills]\n{settings}\n"));
        world.run(&["chat", "load it"]);
        let requests = model.requests();
        let system = messages(&requests[1])[0]["content"].as_str().unwrap();
        assert_eq!(system.contains("**pilot** [Loaded]"), marks, "{settings}: {system}");
        assert_eq!(system.contains("Plan the passage with care."), in_system, "{settings}: {system}");
        assert_eq!(all(&requests[1]).matches("Plan the passage with care.").count(), 1, "{settings}");
        assert_eq!(system == messages(&requests[0])[0]["content"], !marks, "{settings}");
    }
}

/// A capped skill makes room for another one, and its text goes.
#[test]
fn the_skill_that_was_used_longest_ago_makes_room() {
    let load = |skill: &str| Answer::call("skill_load", json!({"skill": skill}));
    let model = FakeModel::start(vec![
        load("tides"),
        load("pilot"),
        runs("bash scripts/tides.sh"),
        load("knots"),
        Answer::text("Done."),
    ]);
    let world = ready(&model);
    world.skill("home/.prowess/skills", "knots", "Ties knots.");
    configure(&world, &model.url(), "[skills]\nlifetime = \"capped\"\nmax_loaded_skills = 2\n");
    let told = world.run(&["chat", "--yes", "sail"]);
    let requests = model.requests();
    let (before, after) = (&requests[3], &requests[4]);
    holds(before, after, Some(place(before, "Plan the passage with care.")));
    assert!(all(after).contains("Run scripts/tides.sh."), "it was used last: {}", all(after));
    assert!(!all(after).contains("Plan the passage with care."), "{}", all(after));
    assert!(
        last(after).contains("Skill 'pilot' was unloaded to make room: it was used longest ago."),
        "{}",
        last(after)
    );
    assert!(told.contains("pilot is unloaded"), "{told}");
}

/// A skill that a person starts again is in the conversation again, and only there.
#[test]
fn a_skill_that_a_person_starts_again_reaches_the_model() {
    for (settings, unload) in
        [("", true), ("[skills]\nlifetime = \"turn\"\n", false), ("[skills]\nlifetime = \"once\"\n", false)]
    {
        let model = FakeModel::start((0..4).map(|_| Answer::text("Yes.")).collect());
        let world = ready(&model);
        configure(&world, &model.url(), settings);
        let chat = |line: &str| world.run(&["chat", "--resume", "last", line]);
        world.run(&["chat", "/pilot"]);
        if unload {
            chat("/unload pilot");
        }
        chat("/pilot");
        if unload {
            chat("go on");
        }
        let text = "Plan the passage with care.";
        for request in &model.requests()[1..] {
            assert_eq!(all(request).matches(text).count(), 1, "{settings}: {:#}", request["messages"]);
        }
        let again = &model.requests()[1];
        assert_eq!(place(again, text), messages(again).len() - 1, "{settings}: {:#}", again["messages"]);
    }
}

/// What a note said about a skill is taken back if the skill goes.
#[test]
fn a_new_skill_that_goes_again_is_taken_back() {
    let model = FakeModel::start((0..3).map(|_| Answer::text("Yes.")).collect());
    let world = ready(&model);
    world.run(&["chat", "hello"]);
    world.skill("home/.prowess/skills", "knots", "Ties knots.");
    world.run(&["chat", "--resume", "last", "and now?"]);
    std::fs::remove_dir_all(world.path("home/.prowess/skills/knots")).unwrap();
    world.run(&["chat", "--resume", "last", "and now?"]);
    let requests = model.requests();
    assert!(last(&requests[1]).contains("New skills:"), "{}", last(&requests[1]));
    assert!(last(&requests[2]).contains("No longer available: 'knots'."), "{}", last(&requests[2]));
    holds(&requests[1], &requests[2], None);
}

/// A frozen prompt keeps nothing of a skill that is denied, not trusted any more, or for people only.
#[test]
fn a_frozen_prompt_drops_what_is_hidden_since() {
    // Another skill of the same name takes the place of one that is no longer trusted.
    let model = FakeModel::start(vec![Answer::text("One."), Answer::text("Two.")]);
    let world = ready(&model);
    world.skill("home/.prowess/skills", "beta", "Is mine.");
    world.skill("project/.prowess/skills", "beta", "Is the project's.");
    world.run(&["chat", "--trust-project", "hello"]);
    world.run(&["chat", "--resume", "last", "hello"]);
    let requests = model.requests();
    assert!(all(&requests[0]).contains("Is the project's."), "{}", all(&requests[0]));
    assert!(!all(&requests[1]).contains("Is the project's.") && all(&requests[1]).contains("Is mine."));
    // A skill with `paths` that was loaded when the prompt was made.
    let model = FakeModel::start((0..3).map(|_| Answer::text("Yes.")).collect());
    let world = ready(&model);
    world.file(
        "home/.prowess/skills/maps/SKILL.md",
        "---\nname: maps\ndescription: Reads maps.\npaths: \"*.map\"\n---\n\nLook at it.\n",
    );
    world.run(&["chat", "/maps"]);
    std::fs::remove_dir_all(world.path("home/.prowess/skills/pilot")).unwrap();
    world.run(&["chat", "--resume", "last", "hello"]);
    configure(&world, &model.url(), "[permission.skill]\nmaps = \"deny\"\n");
    world.run(&["chat", "--resume", "last", "hello"]);
    let requests = model.requests();
    let system = |at: usize| messages(&requests[at])[0]["content"].to_string();
    assert!(system(1).contains("Reads maps."), "{}", system(1));
    assert!(!system(2).contains("Reads maps."), "{}", system(2));
    assert!(!all(&requests[2]).contains("Look at it."), "{}", all(&requests[2]));
}
