//! A loaded skill that is loaded again: it changed, or it gets other arguments. And the arguments that a person types.

use super::*;
use crate::model::Gate;

/// The tools that load a skill, without and with arguments, and the parameter for its name.
const DIALECTS: [(&str, &str, &str, &str); 3] = [
    ("deepagents", "load_skill", "load_skill", "skill_name"),
    ("trpc", "skill_load", "skill_load_with_args", "skill"),
    ("opencode", "skill", "skill_with_args", "name"),
];
const PARCEL: &str = "home/.prowess/skills/parcel/SKILL.md";
const ALREADY: &str = "Skill 'parcel' is already loaded. Its instructions are already active.";

fn parcel(body: &str) -> String {
    format!("---\nname: parcel\ndescription: Packs parcels. Use before posting.\n---\n\n{body}\n")
}

fn in_dialect(model: &FakeModel, dialect: &str, body: &str) -> World {
    let world = world(model);
    configure(&world, &model.url(), &format!("[skills]\ndialect = \"{dialect}\"\n"));
    world.file(PARCEL, &parcel(body));
    world
}

/// How often a request says this, in whatever message.
fn count(request: &Value, text: &str) -> usize {
    all(request).matches(text).count()
}

#[test]
fn a_skill_that_changed_is_loaded_again_and_the_model_reads_why() {
    for (dialect, load, _, name) in DIALECTS {
        let gate = Gate::default();
        let model = FakeModel::start(vec![
            Answer::call(load, json!({name: "parcel"})),
            Answer::call(load, json!({name: "parcel"})).held(&gate),
            Answer::call(load, json!({name: "parcel"})),
            Answer::text("Packed."),
        ]);
        let world = in_dialect(&model, dialect, "Use string.");
        let pty = begun(&world, &[], 100, 40);
        pty.type_line("Pack it");
        model.wait_for_requests(2);
        world.file(PARCEL, &parcel("Use tape."));
        gate.open();
        pty.wait_for("Packed.");
        at_prompt(&pty);
        let requests = model.requests();
        let reason = "Skill 'parcel' has changed since it was loaded, so it was loaded again.";
        assert!(last(&requests[2]).contains(reason), "{dialect}: {}", last(&requests[2]));
        assert_eq!(count(&requests[2], "Use tape."), 1, "{dialect}: {}", all(&requests[2]));
        assert!(last(&requests[3]).contains(ALREADY), "{dialect}: {}", last(&requests[3]));
        assert_eq!(count(&requests[3], "Use tape."), 1, "{dialect}");
        if dialect == "trpc" {
            assert_eq!(count(&requests[3], "Use string."), 0, "the system message has one text");
        }
    }
}

#[test]
fn new_arguments_load_a_skill_again_and_one_text_survives_compaction() {
    for (dialect, _, load, name) in DIALECTS {
        let model = FakeModel::start(vec![
            Answer::call(load, json!({name: "parcel", "args": "a kite"})),
            Answer::call(load, json!({name: "parcel", "args": "a drum"})),
            Answer::call(load, json!({name: "parcel", "args": "a drum"})),
            Answer::text("Packed."),
            Answer::text("You packed things."),
            Answer::text("All of it."),
        ]);
        let world = in_dialect(&model, dialect, "Pack $ARGUMENTS.");
        let pty = begun(&world, &[], 100, 40);
        pty.type_line("Pack both");
        pty.wait_for("Packed.");
        at_prompt(&pty);
        pty.type_line("/compact");
        pty.wait_for("messages summarised");
        at_prompt(&pty);
        pty.type_line("What did you pack?");
        pty.wait_for("All of it.");
        at_prompt(&pty);
        let requests = model.requests();
        assert!(last(&requests[2]).contains("was loaded again with these arguments."), "{dialect}");
        assert!(last(&requests[3]).contains(ALREADY), "{dialect}: {}", last(&requests[3]));
        assert_eq!(count(&requests[3], "Pack a drum."), 1, "{dialect}");
        let after = &requests[5];
        assert_eq!(count(after, "Pack a drum."), 1, "{dialect}: {}", all(after));
        assert_eq!(count(after, "Pack a kite."), 0, "{dialect}: {}", all(after));
        assert_eq!(count(after, "<skill name="), 1, "{dialect}: {}", all(after));
    }
}

/// A person may mean: once more. The model has the text already.
#[test]
fn a_skill_that_is_started_again_is_not_repeated() {
    for (dialect, ..) in DIALECTS {
        let model =
            FakeModel::start(vec![Answer::text("One."), Answer::text("Two."), Answer::text("Three.")]);
        let world = in_dialect(&model, dialect, "Pack $ARGUMENTS.");
        let pty = begun(&world, &[], 100, 40);
        for (line, answer) in
            [("/parcel a kite", "One."), ("/parcel a kite", "Two."), ("/parcel a drum", "Three.")]
        {
            pty.type_line(line);
            pty.wait_for(answer);
            at_prompt(&pty);
        }
        let requests = model.requests();
        assert!(last(&requests[1]).contains("The user started skill 'parcel' again."), "{dialect}");
        assert_eq!(count(&requests[1], "Pack a kite."), 1, "{dialect}: {}", all(&requests[1]));
        assert!(last(&requests[2]).contains("was loaded again with these arguments."), "{dialect}");
        assert_eq!(count(&requests[2], "Pack a drum."), 1, "{dialect}: {}", all(&requests[2]));
    }
}

/// What a request has of the skill after a person typed this.
fn typed(dialect: &str, body: &str, line: &str) -> String {
    let model = FakeModel::start(vec![Answer::text("Done.")]);
    let world = in_dialect(&model, dialect, body);
    let output = world.output(&["chat", "--yes", line]);
    assert_eq!(output.status.code(), Some(0), "{}", world.told(&output));
    let request = model.requests().remove(0);
    let messages = request["messages"].as_array().unwrap();
    let texts: Vec<&str> = messages.iter().filter_map(|message| message["content"].as_str()).collect();
    let text = texts.iter().find(|text| text.contains("<skill name=")).unwrap();
    let (_, framed) = text.split_once("<skill name=").unwrap();
    let (_, framed) = framed.split_once(">\n").unwrap();
    let (text, _) = framed.split_once("</skill nonce=").unwrap();
    text.trim().rsplit("---\n").next().unwrap().trim().to_owned()
}

#[test]
fn a_bare_name_leaves_no_placeholder() {
    for (dialect, ..) in DIALECTS {
        assert_eq!(typed(dialect, "Fix issue $ARGUMENTS now.", "/parcel"), "Fix issue  now.", "{dialect}");
        assert_eq!(typed(dialect, "Fix $ARGUMENTS[0] and $0.", "/parcel"), "Fix  and $0.", "{dialect}");
    }
}

#[test]
fn arguments_are_those_of_claude_code() {
    let line = "/parcel \"hello world\" second";
    for (body, expected) in [
        ("First $0, then $1.", "First hello world, then second."),
        ("First $ARGUMENTS[0], then $ARGUMENTS[1].", "First hello world, then second."),
        ("All: $ARGUMENTS", "All: \"hello world\" second"),
        ("Only $2 and \\$1.00 of $1.", "Only $2 and $1.00 of second."),
        ("Nothing named.", "Nothing named.\n\nARGUMENTS: \"hello world\" second"),
    ] {
        assert_eq!(typed("trpc", body, line), expected);
    }
}

/// A state that another implementation wrote before there were loaded skills.
#[test]
fn a_state_with_only_metadata_opens() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let path = world.path("home/.prowess/skills/tides/SKILL.md");
    let state = json!({"skills_metadata": [{"name": "tides", "description": "Looks up tides.", "path": path,
        "license": null, "compatibility": null, "metadata": {}, "allowed_tools": []}]});
    world.file("project/state.json", &state.to_string());
    let output = world.output(&["session", "--state", "state.json", "-c", "load tides"]);
    assert_eq!(output.status.code(), Some(0), "{}", world.told(&output));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("Run scripts/tides.sh."),
        "{}",
        world.told(&output)
    );
    let saved: Value =
        serde_json::from_slice(&std::fs::read(world.path("project/state.json")).unwrap()).unwrap();
    assert_eq!(saved["skills_loaded"], json!(["tides"]));
}
