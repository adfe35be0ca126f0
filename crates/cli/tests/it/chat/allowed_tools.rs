//! `allowed-tools` that approve in a conversation, and what they never cover.

use insta::assert_snapshot;

use super::*;
use crate::sandbox_level::without_bubblewrap;

/// A question that a pipe cannot answer.
const ASKS: &str = "a question is waiting";

/// A path as the model names it.
pub(super) fn file(path: &str) -> String {
    format!("/{path}")
}

/// A home with the skill `notes`, which has this list, and with `tides`, which has none.
pub(super) fn world_with(model: &FakeModel, list: &str, policy: &str, more: &str) -> World {
    let world = world(model);
    let skills = format!("[skills]\nallowed_tools = \"{policy}\"\n{more}");
    configure(&world, &model.url(), &skills);
    let manifest = format!(
        "---\nname: notes\ndescription: Keeps notes.\nallowed-tools: {}\n---\n\nWrite them down.\n",
        json!(list)
    );
    world
        .file("home/.prowess/skills/notes/SKILL.md", &manifest)
        .file("home/.prowess/skills/notes/scripts/count.sh", "echo counted $#\n")
        .file("project/old.md", "low tide\n")
        .file("project/.git/config", "[core]\n");
    world
}

pub(super) fn loads() -> Answer {
    Answer::call("skill_load", json!({"skill": "notes"}))
}

pub(super) fn notes_run(command: &str) -> Value {
    json!({"skill": "notes", "command": command})
}

pub(super) fn write(path: &str) -> Value {
    json!({"file_path": file(path), "content": "high tide\n"})
}

fn edit(path: &str) -> Value {
    json!({"file_path": file(path), "old_string": "low", "new_string": "high"})
}

/// Whether a call is asked about while `notes` is loaded with this list. If not, it succeeds, and the person is told why.
fn is_asked(list: &str, tool: &'static str, arguments: &Value, more: &str) -> bool {
    let model = FakeModel::start(vec![loads(), Answer::call(tool, arguments.clone()), Answer::text("Done.")]);
    let world = world_with(&model, list, "preapprove", more);
    let told = told(&world, &["chat", "go"]);
    let is_asked = told.contains(ASKS);
    if !is_asked {
        assert!(told.contains("approved by allowed-tools of notes"), "{list} {arguments}: {told}");
        let answer = last(&model.requests()[2]);
        assert!(!answer.contains("Error") && !answer.contains("denied"), "{list} {arguments}: {answer}");
    }
    is_asked
}

#[test]
fn the_names_of_all_agents_settle_the_questions_that_people_get() {
    for (list, tool, arguments) in [
        ("Read Write", "write_file", write("new.md")),
        ("write", "write_file", write("new.md")),
        ("read_file write_file", "write_file", write("new.md")),
        ("Write(docs/*)", "write_file", write("docs/new.md")),
        ("Edit", "edit_file", edit("old.md")),
        ("Write", "edit_file", edit("old.md")),
        ("MultiEdit", "edit_file", edit("old.md")),
        ("Bash(echo:*)", "skill_run", notes_run("echo one && echo 'two; three'")),
        ("Bash(sh scripts/*)", "skill_run", notes_run("sh scripts/count.sh a b")),
        ("bash", "skill_run", notes_run("id; echo one | cat")),
        ("skill_run", "skill_run", notes_run("id")),
    ] {
        assert!(!is_asked(list, tool, &arguments, ""), "{list} {tool} {arguments}");
    }
}

#[test]
fn what_a_list_does_not_cover_is_asked_about() {
    let with = |mut arguments: Value, key: &str, value: Value| {
        arguments[key] = value;
        arguments
    };
    for (list, tool, arguments) in [
        ("Read", "write_file", write("new.md")),
        ("Edit", "write_file", write("new.md")),
        ("Write(docs/*)", "write_file", write("new.md")),
        ("Read Write", "skill_run", notes_run("id")),
        ("Bash(echo:*)", "skill_run", notes_run("echo one; id")),
        ("Bash(echo:*)", "skill_run", notes_run("echo one && id")),
        ("Bash(echo:*)", "skill_run", notes_run("echo one | sh")),
        ("Bash(echo:*)", "skill_run", notes_run("echo $(id)")),
        ("Bash(echo:*)", "skill_run", notes_run("echo `id`")),
        ("Bash(echo:*)", "skill_run", notes_run("echo one\nid")),
        ("Bash(echo:*)", "skill_run", notes_run("echo one > out/x")),
        ("Bash(echo:*)", "skill_run", notes_run("echoes")),
        ("Bash(echo:*)", "skill_run", with(notes_run("echo one"), "env", json!({"A": "b"}))),
        ("Bash(sh scripts/*)", "skill_run", notes_run("sh scripts/../evil.sh")),
        ("Bash(sh scripts/*)", "skill_run", with(notes_run("sh scripts/count.sh"), "cwd", json!("work"))),
        ("Bash(echo:*)", "skill_exec", notes_run("echo one")),
        // Only the list of the skill itself is about its commands.
        ("Bash", "skill_run", json!({"skill": "tides", "command": "echo one"})),
    ] {
        assert!(is_asked(list, tool, &arguments, ""), "{list} {tool} {arguments}");
    }
}

/// A stranger's list names everything: what decides over agents and programs stays a matter of the person.
#[test]
fn a_list_for_everything_does_not_reach_what_is_protected() {
    let everything = "* Read Write Edit Bash(*) WebFetch Task Skill mcp__docs";
    for path in [
        ".git/hooks/pre-commit",
        ".prowess/skills/evil/SKILL.md",
        ".claude/settings.json",
        ".agents/x.md",
        ".vscode/tasks.json",
        ".github/workflows/x.yml",
        "AGENTS.md",
        "docs/Agents.md",
        "prowess.toml",
        ".env",
        "tls/server.key",
    ] {
        assert!(is_asked(everything, "write_file", &write(path), ""), "{path}");
    }
    assert!(is_asked(
        everything,
        "edit_file",
        &json!({"file_path": file(".git/config"), "old_string": "[core]", "new_string": "[x]"}),
        ""
    ));
    assert!(!is_asked(everything, "write_file", &write("new.md"), ""), "what the list is for");
    assert!(!is_asked(everything, "skill_run", &notes_run("id"), ""), "what the list is for");
    assert!(is_asked("*", "write_file", &write("new.md"), ""), "a star names no tool");
    assert!(is_asked("*", "skill_run", &notes_run("id"), ""), "a star names no tool");
    let tides = json!({"skill": "tides"});
    let asks = "[permission]\nskill = { \"tides\" = \"ask\" }\n";
    assert!(is_asked(everything, "skill_load", &tides, asks), "a skill does not vouch for another");
}

#[test]
fn the_rules_of_the_person_come_before_a_list() {
    let denied = |more: &str, tool: &'static str, arguments: Value| {
        let model = FakeModel::start(vec![loads(), Answer::call(tool, arguments), Answer::text("Done.")]);
        let world = world_with(&model, "Write Bash", "preapprove", more);
        let told = told(&world, &["chat", "go"]);
        assert!(!told.contains(ASKS) && !told.contains("approved by"), "{told}");
        assert!(told.contains("denied"), "{told}");
        assert!(!world.path("project/new.md").exists());
    };
    denied("[permission]\nwrite = \"deny\"\n", "write_file", write("new.md"));
    denied("[permission.run]\n\"notes id*\" = \"deny\"\n", "skill_run", notes_run("id"));
    // A rule that names something in particular is the person's own exception.
    let plans = "[permission.write]\n\"./plans/*\" = \"ask\"\n";
    assert!(is_asked("Write", "write_file", &write("plans/new.md"), plans));
    assert!(!is_asked("Write", "write_file", &write("new.md"), plans));
    let push = "[permission.run]\n\"notes echo push*\" = \"ask\"\n";
    assert!(is_asked("Bash", "skill_run", &notes_run("echo push it"), push));
    // A rule that asks about everything, or about a tool by its name, is what a list is for.
    assert!(!is_asked("Write", "write_file", &write("new.md"), "[permission]\nwrite = \"ask\"\n"));
    assert!(!is_asked(
        "Glob",
        "glob",
        &json!({"pattern": "*.md"}),
        "[permission.tool]\n\"glob\" = \"ask\"\n"
    ));
    assert!(!is_asked(
        "Read",
        "read_file",
        &json!({"file_path": file("old.md")}),
        "[permission]\nread = \"ask\"\n"
    ));
}

/// Outside of a full sandbox a command reaches the rest of the machine.
#[test]
fn commands_outside_a_full_sandbox_are_asked_about() {
    let model =
        FakeModel::start(vec![loads(), Answer::call("skill_run", notes_run("id")), Answer::text("Done.")]);
    let world = world_with(&model, "Bash", "preapprove", "[sandbox]\nlevel = \"none\"\n");
    let output = without_bubblewrap(&world, &["chat", "go"]).output().unwrap();
    let told = world.told(&output);
    assert!(told.contains(ASKS) && !told.contains("approved by"), "{told}");
}

#[test]
fn hosts_are_settled_by_their_names() {
    let run = |host: &str| json!({"skill": "notes", "command": "echo one", "network": [host]});
    let hosts = "[sandbox]\nhosts = [\"one.example\", \"two.example\", \"*.three.example\"]\n";
    for (list, host, asks) in [
        ("Bash WebFetch(domain:one.example)", "one.example", false),
        ("Bash WebFetch(domain:one.example)", "two.example", true),
        ("Bash WebFetch", "two.example", false),
        ("Bash webfetch", "two.example", false),
        ("Bash webfetch", "*.three.example", true),
        ("Bash", "one.example", true),
    ] {
        assert_eq!(is_asked(list, "skill_run", &run(host), hosts), asks, "{list} {host}");
    }
}

/// A list counts while its skill is loaded: not before, not after, and only if the person chose so.
#[test]
fn a_list_counts_only_while_its_skill_is_loaded() {
    let unload = || Answer::call("skill_unload", json!({"skill": "notes"}));
    let run = || Answer::call("skill_run", notes_run("id"));
    for (answers, policy) in [
        (vec![run(), Answer::text("Done.")], "preapprove"),
        (vec![loads(), unload(), run(), Answer::text("Done.")], "preapprove"),
        (vec![loads(), run(), Answer::text("Done.")], "recommend"),
        (vec![loads(), run(), Answer::text("Done.")], "restrict"),
    ] {
        let model = FakeModel::start(answers);
        let world = world_with(&model, "Bash", policy, "");
        let told = told(&world, &["chat", "go"]);
        assert!(told.contains(ASKS), "{policy}: {told}");
    }
}

#[test]
fn the_line_of_a_call_says_which_skill_approved_it() {
    let model = FakeModel::start(vec![
        loads(),
        Answer::call("write_file", write("new.md")),
        Answer::call("skill_run", notes_run("sh scripts/count.sh a")),
        Answer::text("Done."),
    ]);
    let world = world_with(&model, "Write Bash(sh scripts/*)", "preapprove", "");
    let pty = begun(&world, &[], 100, 30);
    pty.type_line("go");
    pty.wait_for("Done.");
    at_prompt(&pty);
    assert_snapshot!(stable(&world, &pty.screen()));
    let model =
        FakeModel::start(vec![loads(), Answer::call("write_file", write("b.md")), Answer::text("Done.")]);
    let world = world_with(&model, "Write", "preapprove", "");
    let told = world.stdout(&["chat", "--json", "go"]);
    let events: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let by: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "result")
        .map(|event| &event["preapproved_by"])
        .collect();
    assert_eq!(by, [&Value::Null, &json!("notes")]);
}
