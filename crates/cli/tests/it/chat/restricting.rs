//! `allowed-tools` that restrict in a conversation: files, commands, sub-agents and tools of servers.

use super::allowed_tools::{file, loads, notes_run, world_with, write};
use super::*;

/// The answer to a call that a list does not cover.
const BLOCKED: &str = "is not in the allowed-tools list for the currently loaded skills";

/// What the model is told about calls that it makes while `notes` is loaded with this list.
fn restricted(list: &str, calls: Vec<Answer>, more: &str) -> (World, Vec<Value>, String) {
    let answers = std::iter::once(loads()).chain(calls).chain([Answer::text("Done.")]);
    let model = FakeModel::start(answers.collect());
    let world = world_with(&model, list, "restrict", more);
    let told = told(&world, &["chat", "--yes", "go"]);
    (world, model.requests(), told)
}

#[test]
fn a_restriction_holds_commands_files_and_sub_agents() {
    let calls = || {
        vec![
            Answer::call("skill_run", notes_run("id")),
            Answer::call("skill_exec", notes_run("id")),
            Answer::call("skill_run", json!({"skill": "tides", "command": "id"})),
            Answer::call("task", json!({"description": "Write it down."})),
            Answer::call("write_file", write("new.md")),
            Answer::call("grep", json!({"pattern": "tide"})),
        ]
    };
    let (world, requests, told) = restricted("Read", calls(), "");
    assert_eq!(requests.len(), 8, "no sub-agent was started: {told}");
    for (number, tool) in
        ["skill_run", "skill_exec", "skill_run", "task", "write_file", "grep"].iter().enumerate()
    {
        let answer = last(&requests[number + 2]);
        let text = format!(
            "Tool '{tool}' {BLOCKED}. Allowed tools: Read. If you believe this tool is necessary, explain your reasoning."
        );
        assert!(answer.contains(&text), "{tool}: {answer}");
    }
    assert!(!world.path("project/new.md").exists());
    let stays = vec![
        Answer::call("read_file", json!({"file_path": file("old.md")})),
        Answer::call("ls", json!({"path": file("")})),
        Answer::call("write_todos", json!({"todos": []})),
        Answer::call("skill_load", json!({"skill": "tides"})),
        Answer::call("skill_unload", json!({"skill": "tides"})),
    ];
    let (_world, requests, _) = restricted("Glob", stays, "");
    assert!(requests.len() == 7 && !all(&requests[6]).contains(BLOCKED), "{}", all(&requests[6]));
}

#[test]
fn a_restriction_lets_pass_what_is_listed() {
    let calls = vec![
        Answer::call("skill_run", notes_run("echo one && echo two")),
        Answer::call("skill_run", notes_run("echo one; id")),
        Answer::call("skill_run", json!({"skill": "notes", "command": "echo one", "env": {"A": "b"}})),
        Answer::call("write_file", write("docs/new.md")),
        Answer::call("write_file", write("new.md")),
    ];
    let (world, requests, _) = restricted("Bash(echo:*) Write(docs/*)", calls, "");
    let is_blocked: Vec<bool> = (2..7).map(|number| last(&requests[number]).contains(BLOCKED)).collect();
    assert_eq!(is_blocked, [false, true, true, false, true]);
    assert!(last(&requests[2]).contains("one\\\\ntwo"), "{}", last(&requests[2]));
    assert!(world.path("project/docs/new.md").exists() && !world.path("project/new.md").exists());
}

/// A sub-agent does nothing that its parent may not do, whatever it loads.
#[test]
fn a_sub_agent_is_restricted_as_its_parent_is() {
    let free = "---\nname: free\ndescription: Is free.\nallowed-tools: Bash Write\n---\n\nDo it.\n";
    let model = FakeModel::start(vec![
        loads(),
        Answer::call("task", json!({"description": "Write it down."})),
        Answer::call("write_file", write("new.md")),
        Answer::call("skill_load", json!({"skill": "free"})),
        Answer::call("skill_run", json!({"skill": "free", "command": "id"})),
        Answer::call("read_file", json!({"file_path": file("old.md")})),
        Answer::text("I could only read."),
        Answer::text("Done."),
    ]);
    let world = world_with(&model, "Read Task", "restrict", "");
    world.file("home/.prowess/skills/free/SKILL.md", free);
    let told = told(&world, &["chat", "--yes", "go"]);
    let requests = model.requests();
    assert_eq!(requests.len(), 8, "{told}");
    for (number, blocked) in [(3, true), (4, false), (5, true), (6, false)] {
        let answer = last(&requests[number]);
        assert_eq!(answer.contains(BLOCKED), blocked, "{number}: {answer}");
        assert!(!blocked || answer.contains("Allowed tools: Read, Task."), "{answer}");
    }
    assert!(last(&requests[6]).contains("low tide"));
    assert!(!world.path("project/new.md").exists());
    assert!(last(&requests[7]).contains("I could only read."));
}

/// A command that ran before the restriction is no way around it.
#[test]
fn typing_into_a_command_needs_the_command_on_the_list() {
    for (list, blocked) in [("Read", true), ("Bash(echo:*)", true), ("Bash(cat:*)", false)] {
        let start = json!({"skill": "tides", "command": "cat -u"});
        let model = FakeModel::start(vec![Answer::call("skill_exec", start), Answer::text("Started.")]);
        let world = world_with(&model, list, "restrict", "");
        let pty = begun(&world, &["--yes"], 100, 40);
        pty.type_line("start it");
        pty.wait_for("Started.");
        at_prompt(&pty);
        let started = last(&model.requests()[1]);
        let id = started.split("session_id\\\":\\\"").nth(1).and_then(|rest| rest.split('\\').next());
        let typed = json!({"session_id": id.unwrap_or_else(|| panic!("{started}")), "chars": "high tide"});
        model.then(vec![loads(), Answer::call("skill_write_stdin", typed), Answer::text("Done.")]);
        pty.type_line("go on");
        pty.wait_for("Done.");
        let answer = last(&model.requests()[4]);
        assert_eq!(answer.contains(BLOCKED), blocked, "{list}: {answer}");
        assert_eq!(answer.contains("high tide"), !blocked, "{list}: {answer}");
    }
}

#[test]
fn what_always_stays_allowed_is_configured() {
    let calls = || {
        vec![
            Answer::call("read_file", json!({"file_path": file("old.md")})),
            Answer::call("glob", json!({"pattern": "*.md"})),
            Answer::call("skill_load", json!({"skill": "tides"})),
        ]
    };
    let blocked = |more: &str| -> Vec<bool> {
        let (_world, requests, _) = restricted("Grep", calls(), more);
        (2..5).map(|number| last(&requests[number]).contains(BLOCKED)).collect()
    };
    assert_eq!(blocked(""), [false, true, false]);
    assert_eq!(blocked("always_allowed_tools = [\"glob\", \"load_skill\"]\n"), [true, false, false]);
    assert_eq!(blocked("always_allowed_tools = []\n"), [true, true, true]);
    // A project cannot widen what the person decided.
    let (world, ..) = restricted("Grep", calls(), "");
    world.file("project/prowess.toml", "[skills]\nalways_allowed_tools = [\"task\"]\n");
    world.run(&["trust", "--yes"]);
    let told = world.run(&["config", "show"]);
    assert!(told.contains("always_allowed_tools"), "{told}");
    assert!(!told.contains("\"task\""), "{told}");
}

#[test]
fn a_restriction_holds_the_tools_of_servers() {
    let load = || Answer::call("docs__load_skill", json!({"skill_name": "tides"}));
    let is_blocked = |list: &str| {
        let model = FakeModel::start(vec![loads(), load(), Answer::text("Done.")]);
        let world = world_with(&model, list, "restrict", "");
        let (shelf, program) = (world.path("home/.prowess/skills"), env!("CARGO_BIN_EXE_prowess"));
        let server =
            format!("[mcp.docs]\ncommand = [{program:?}, \"mcp\", \"--only\", \"--root\", {shelf:?}]\n");
        configure(&world, &model.url(), &format!("{server}[skills]\nallowed_tools = \"restrict\"\n"));
        world.output(&["chat", "--yes", "go"]);
        let answer = last(&model.requests()[2]);
        assert!(answer.contains(BLOCKED) || answer.contains("scripts/tides.sh"), "{list}: {answer}");
        answer.contains(BLOCKED)
    };
    for (list, blocked) in [
        ("Read Skill", true),
        ("docs__load_skill", false),
        ("mcp__docs__load_skill", false),
        ("mcp__docs", false),
        ("mcp__other", true),
    ] {
        assert_eq!(is_blocked(list), blocked, "{list}");
    }
}
