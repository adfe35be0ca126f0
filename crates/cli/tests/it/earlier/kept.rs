//! Approvals, trust, sessions, artifacts and workspaces of an earlier version.

use serde_json::{Value, json};

use super::{Earlier, LS_ASKED, PLACE, SKILLS_ASKED};
use crate::model::Answer;

fn last(request: &Value) -> String {
    request["messages"].as_array().unwrap().last().unwrap()["content"].to_string()
}

/// What was allowed for good is not asked again: a skill, a file and a tool.
#[test]
fn approvals_hold() {
    let earlier = Earlier::of_0_1();
    let calls = vec![
        Answer::call("skill_load", json!({"skill": "kites"})),
        Answer::call(
            "edit_file",
            json!({"file_path": "/kite.txt", "old_string": "red", "new_string": "blue"}),
        ),
        Answer::call("ls", json!({"path": "/"})),
        Answer::text("All of it."),
    ];
    let model = earlier.model(calls, &format!("{SKILLS_ASKED}{LS_ASKED}"));
    let output = earlier.output(&["chat", "all of it"]);
    assert_eq!(output.status.code(), Some(0), "{}", earlier.told(&output));
    let requests = model.requests();
    assert!(last(&requests[1]).contains("Tie the knots."), "{}", last(&requests[1]));
    assert!(last(&requests[3]).contains("/project/"), "{}", last(&requests[3]));
    assert_eq!(std::fs::read_to_string(earlier.path("project/kite.txt")).unwrap(), "blue\n");
}

/// Nothing else was allowed with it.
#[test]
fn approvals_are_for_what_they_were_given_for() {
    let load = |name: &str| Answer::call("skill_load", json!({"skill": name}));
    let write = Answer::call("write_file", json!({"file_path": "/other.txt", "content": "blue\n"}));
    let run = Answer::call("skill_run", json!({"skill": "kites", "command": "echo another kite"}));
    let earlier = Earlier::of_0_1();
    // Another text is another skill.
    earlier.file(
        "home/.prowess/skills/knots/SKILL.md",
        "---\nname: knots\ndescription: Ties knots. Use for ropes.\n---\n\nTie.\n",
    );
    for (what, answer) in
        [("a skill", load("tides")), ("a new skill", load("knots")), ("a file", write), ("a run", run)]
    {
        let model = earlier.model(vec![answer], SKILLS_ASKED);
        let output = earlier.output(&["chat", what]);
        let told = earlier.told(&output);
        assert!(output.status.code() == Some(1) && told.contains("a question is waiting"), "{what}: {told}");
        assert_eq!(model.requests().len(), 1, "{what}");
    }
}

#[test]
fn trust_holds_until_something_changes() {
    let earlier = Earlier::of_0_1();
    let listed = earlier.json(&["trust", "--list", "--json"]).to_string();
    assert!(listed.contains(&format!("{PLACE}/project")) && listed.contains("kites"), "{listed}");
    assert_eq!(earlier.output(&["trust"]).status.code(), Some(0), "{}", earlier.run(&["trust"]));
    let prompt = earlier.stdout(&["prompt"]);
    assert!(prompt.contains("kites") && prompt.contains("tides"), "{prompt}");
    earlier.file(
        "project/.prowess/skills/kites/SKILL.md",
        "---\nname: kites\ndescription: Builds kites. Use on windy days.\n---\n\nCut the line.\n",
    );
    assert_eq!(earlier.output(&["trust"]).status.code(), Some(2), "{}", earlier.run(&["trust"]));
    assert!(!earlier.stdout(&["prompt"]).contains("kites"));
    earlier.stdout(&["trust", "--yes"]);
    assert!(earlier.stdout(&["prompt"]).contains("kites"));
    earlier.stdout(&["trust", "--revoke"]);
    assert!(!earlier.stdout(&["prompt"]).contains("kites"));
}

#[test]
fn a_session_goes_on_with_what_was_loaded() {
    let earlier = Earlier::of_0_1();
    let state = earlier.path("home/session.json");
    let state = state.to_str().unwrap();
    let session = |commands: &[&str]| {
        let commands = commands.iter().flat_map(|command| ["-c", command]);
        let args: Vec<&str> =
            ["session", "--state", state, "--show", "answer"].into_iter().chain(commands).collect();
        earlier.stdout(&args)
    };
    let loaded = session(&["loaded"]);
    assert!(loaded.contains("tides"), "{loaded}");
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(state).unwrap()).unwrap();
    assert_eq!(saved["skill_details"]["tides"]["arguments"], "at Dover", "{saved:#}");
    // The text is put back as it was, with its arguments and the document.
    let put_back = session(&["compact"]);
    assert!(put_back.contains("Look up the tide at Dover"), "{put_back}");
    assert!(put_back.contains("At Dover it is high at noon."), "{put_back}");
    let added = session(&["select tides add references/calais.md", "compact"]);
    assert!(added.contains("At Dover it is") && added.contains("At Calais it is"), "{added}");
    session(&["unload tides"]);
    let loaded = session(&["loaded"]);
    assert!(!loaded.contains("tides"), "{loaded}");
}

#[test]
fn an_artifact_is_there_and_has_another_version_after_it() {
    let earlier = Earlier::of_0_1();
    let outputs = json!({"globs": ["out/tide.txt"], "save": true});
    // The file that the first run left is where it was, and so is the artifact.
    let command = "cat $OUTPUT_DIR/tide.txt work/inputs/tide.txt && echo low > $OUTPUT_DIR/tide.txt";
    let inputs = json!([{"from": "artifact://out/tide.txt"}]);
    let run = json!({"skill": "tides", "command": command, "inputs": inputs, "outputs": outputs});
    let model = earlier.model(vec![Answer::call("skill_run", run), Answer::text("Kept.")], "");
    let id = earlier.thread("keep the tide");
    let scope = format!("thread:{id}");
    let listed = earlier.json(&["artifacts", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(
        (&listed[0]["name"], &listed[0]["scope"]),
        (&json!("out/tide.txt"), &json!(scope)),
        "{listed}"
    );
    let get = |name: &str| earlier.stdout(&["artifacts", "get", name, "--scope", &scope]);
    assert_eq!(get("out/tide.txt@0"), "high\n");
    earlier.stdout(&["chat", "--resume", &id, "--yes", "and again"]);
    assert!(last(&model.requests()[1]).contains("high\\\\nhigh\\\\n"), "{}", last(&model.requests()[1]));
    assert_eq!((get("out/tide.txt@0"), get("out/tide.txt")), ("high\n".to_owned(), "low\n".to_owned()));
}
