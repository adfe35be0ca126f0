//! One turn in each dialect in which a model does all that it can: loads with arguments, runs, selects a document, unloads.

use serde_json::{Value, json};

use super::{configure, world};
use crate::model::{Answer, FakeModel};

const PARCEL: &str = "---\nname: parcel\ndescription: Packs parcels. Use before posting.\nargument-hint: [what]\n---\n\n\
    Pack $ARGUMENTS. Run `sh scripts/pack.sh`.\n";

/// How each dialect loads with arguments and unloads; all else is the same in all of them.
const DIALECTS: [(&str, &str, &str, &str); 3] = [
    ("deepagents", "load_skill", "unload_skill", "skill_name"),
    ("trpc", "skill_load_with_args", "skill_unload", "skill"),
    ("opencode", "skill_with_args", "skill_unload", "name"),
];

/// What the model was told and answered, message by message, without what this home is called.
fn conversation(request: &Value, place: &str) -> String {
    let mut text = String::new();
    for message in request["messages"].as_array().unwrap() {
        let content = message["content"].as_str().unwrap_or_default();
        text.push_str(&format!("--- {}\n{content}\n", message["role"].as_str().unwrap()));
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            text.push_str(&format!(
                "calls {} {}\n",
                function["name"].as_str().unwrap(),
                function["arguments"].as_str().unwrap()
            ));
        }
    }
    text.replace(place, "[WORLD]")
}

#[test]
fn a_model_does_all_that_it_can_in_every_dialect() {
    for (dialect, load, unload, skill) in DIALECTS {
        let model = FakeModel::start(vec![
            Answer::call(load, json!({skill: "parcel", "args": "a kite"})),
            Answer::call("skill_run", json!({"skill": "parcel", "command": "sh scripts/pack.sh"})),
            Answer::call("skill_select_docs", json!({"skill": "parcel", "docs": ["stamps.md"]})),
            Answer::call(unload, json!({skill: "parcel"})),
            Answer::text("It is packed."),
        ]);
        let world = world(&model);
        configure(&world, &model.url(), &format!("[skills]\ndialect = \"{dialect}\"\n"));
        world
            .file("home/.prowess/skills/parcel/SKILL.md", PARCEL)
            .file("home/.prowess/skills/parcel/stamps.md", "Two stamps for a parcel.\n")
            .file("home/.prowess/skills/parcel/scripts/pack.sh", "echo packed\n");
        let output = world.output(&["chat", "--yes", "Pack a kite"]);
        assert_eq!(output.status.code(), Some(0), "{dialect}: {}", world.told(&output));
        let requests = model.requests();
        let told = |number: usize| requests[number].to_string();
        assert!(told(1).contains("Pack a kite. Run"), "{dialect}: it is loaded with its arguments");
        assert!(told(2).contains("packed\\\\n"), "{dialect}: the command ran: {}", told(2));
        assert!(
            told(3).contains("Two stamps for a parcel."),
            "{dialect}: the document is there: {}",
            told(3)
        );
        let last = conversation(&requests[4], world.path("").to_str().unwrap());
        assert!(last.contains("has been unloaded"), "{dialect}: {last}");
        let system = requests[4]["messages"][0]["content"].as_str().unwrap();
        assert!(!system.contains("Two stamps"), "{dialect}: what is unloaded is not in the prompt: {system}");
    }
}

#[test]
fn what_is_loaded_stays_whichever_dialect_goes_on() {
    for (first, then) in [("trpc", "deepagents"), ("deepagents", "trpc"), ("trpc", "opencode")] {
        let load = DIALECTS.iter().find(|(dialect, ..)| *dialect == first).unwrap();
        let model = FakeModel::start(vec![
            Answer::call(load.1, json!({load.3: "parcel", "args": "a kite"})),
            Answer::text("Loaded."),
            Answer::text("Still there."),
        ]);
        let world = world(&model);
        world.file("home/.prowess/skills/parcel/SKILL.md", PARCEL);
        for (dialect, line) in [(first, &["Pack it"][..]), (then, &["--resume", "last", "And now?"])] {
            configure(&world, &model.url(), &format!("[skills]\ndialect = \"{dialect}\"\n"));
            let output = world.output(&[&["chat", "--yes"], line].concat());
            assert_eq!(output.status.code(), Some(0), "{first}, {then}: {}", world.told(&output));
        }
        let last = model.requests()[2]["messages"].to_string();
        assert!(last.contains("Pack a kite. Run"), "{first}, {then}: {last}");
    }
}

#[test]
fn other_arguments_for_a_loaded_skill_are_put_in() {
    for (dialect, load, _, skill) in DIALECTS {
        let model = FakeModel::start(vec![
            Answer::call(load, json!({skill: "parcel", "args": "a kite"})),
            Answer::call(load, json!({skill: "parcel", "args": "a drum"})),
            Answer::call(load, json!({skill: "parcel", "args": "a drum"})),
            Answer::text("Both."),
        ]);
        let world = world(&model);
        configure(&world, &model.url(), &format!("[skills]\ndialect = \"{dialect}\"\n"));
        world.file("home/.prowess/skills/parcel/SKILL.md", PARCEL);
        let output = world.output(&["chat", "--yes", "Pack both"]);
        assert_eq!(output.status.code(), Some(0), "{dialect}: {}", world.told(&output));
        let requests = model.requests();
        assert!(
            requests[2]["messages"].to_string().contains("Pack a drum. Run"),
            "{dialect}: {}",
            requests[2]
        );
        assert!(requests[3]["messages"].to_string().contains("already loaded"), "{dialect}: {}", requests[3]);
    }
}
