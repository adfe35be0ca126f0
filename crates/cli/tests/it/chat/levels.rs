//! The sandbox levels without mounts: the same texts state real paths, and these work in every tool.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::allowed_tools::{loads, world_with};
use super::evicted::SERVER;
use super::*;
use crate::sandbox_level::without_bubblewrap;

const LANDLOCK: [&str; 4] = ["chat", "--yes", "--sandbox", "landlock"];

/// A chat of a plain user at the level `landlock`.
fn at_landlock(world: &World, args: &[&str]) -> Command {
    as_plain_user(world, &without_bubblewrap(world, &[&LANDLOCK, args].concat()))
}

/// What the model gets after these answers: the last message of each request except the first.
fn heard(world: &World, more: &str, answers: Vec<Answer>, args: &[&str]) -> Vec<String> {
    let model = FakeModel::start(answers);
    configure(world, &model.url(), more);
    let output = at_landlock(world, args).output().unwrap();
    assert!(output.status.success(), "{}", world.told(&output));
    model.requests().iter().skip(1).map(last).collect()
}

/// The first path in a text that begins with this directory.
fn path_in(text: &str, directory: &str) -> String {
    let from = text.find(directory).unwrap_or_else(|| panic!("no path in {directory}: {text:.900}"));
    text[from..].chars().take_while(|c| c.is_alphanumeric() || "/._-".contains(*c)).collect()
}

/// Opens a file with a file tool and with a command.
fn opens(path: &str) -> Answer {
    let read = Answer::call("read_file", json!({"file_path": path, "limit": 2}));
    read.and_call("skill_run", json!({"skill": "tides", "command": format!("head -c 90 {path}")}))
}

#[test]
fn moved_answers_and_history_have_paths_that_commands_open() {
    let world = world(&FakeModel::start(Vec::new()));
    let script = world.file("server.sh", SERVER).path("server.sh");
    let server = format!("[mcp.docs]\ncommand = [\"sh\", {script:?}]\n");
    let state = world.path("home/.local/state/prowess").to_string_lossy().into_owned();

    let answers = vec![Answer::call("docs__find", json!({})), Answer::text("It is long.")];
    let moved = path_in(&heard(&world, &server, answers, &["find it"])[0], &state);
    assert!(moved.contains("/large_tool_results/"), "{moved}");
    let said = vec![Answer::text("Two.")];
    heard(&world, "", said, &["--resume", "last", "second"]);
    let summary = vec![Answer::text("You were at sea.")];
    heard(&world, "", summary, &["--resume", "last", "/compact"]);
    let model = FakeModel::start(vec![Answer::text("Three.")]);
    configure(&world, &model.url(), "");
    at_landlock(&world, &["--resume", "last", "third"]).output().unwrap();
    let told = all(&model.requests()[0]);
    let directory = path_in(&told, &moved[..moved.find("/large_tool_results/").unwrap()]);
    let history = path_in(&told, &directory);
    assert!(history.contains("/conversation_history/"), "{history}");

    for (path, word) in [(moved, "mcp_tool_result"), (history, "Summarized")] {
        let model = FakeModel::start(vec![opens(&path), Answer::text("Done.")]);
        configure(&world, &model.url(), "");
        let output = at_landlock(&world, &["--resume", "last", "open it"]).output().unwrap();
        let requests = model.requests();
        assert_eq!(requests.len(), 2, "{}", world.told(&output));
        let messages = requests[1]["messages"].as_array().unwrap();
        for answer in &messages[messages.len() - 2..] {
            assert!(answer["content"].to_string().contains(word), "{path}: {answer}");
        }
        assert!(messages.last().unwrap()["content"].to_string().contains("landlock"), "{messages:?}");
    }
}

/// Rules of skills are relative to the project, whatever the model calls it.
#[test]
fn scopes_and_paths_of_skills_match_the_project_at_every_level() {
    for level in ["bwrap", "landlock"] {
        let model = FakeModel::start(Vec::new());
        let world = world_with(&model, "Write(docs/*) Edit(/project/docs/**)", "preapprove", "");
        let charts = "---\nname: charts\ndescription: Draws charts.\npaths: \"charts/*\"\n---\n\nDo it.\n";
        world.file("home/.prowess/skills/charts/SKILL.md", charts).file("project/charts/a.txt", "a\n");
        let real = world.path("project").to_string_lossy().into_owned();
        for (number, place) in ["/project", &real, ""].into_iter().enumerate() {
            let written = json!({"file_path": format!("{place}/docs/{number}.md"), "content": "high tide\n"});
            let model = FakeModel::start(vec![
                loads(),
                Answer::call("write_file", written),
                Answer::call("read_file", json!({"file_path": format!("{place}/charts/a.txt")})),
                Answer::text("Done."),
            ]);
            configure(&world, &model.url(), "[skills]\nallowed_tools = \"preapprove\"\n");
            let args = ["chat", "--sandbox", level, "go"];
            let mut chat =
                if level == "bwrap" { world.command(&args) } else { without_bubblewrap(&world, &args) };
            let told = world.told(&chat.output().unwrap());
            let requests = model.requests();
            assert_eq!(requests.len(), 4, "{level} {place}: {told}");
            assert!(!all(&requests[2]).contains("Draws charts"), "{level} {place}");
            assert!(all(&requests[3]).contains("Draws charts"), "{level} {place}");
            assert!(world.path(&format!("project/docs/{number}.md")).exists(), "{level} {place}: {told}");
        }
    }
}

#[test]
fn a_directory_with_a_secret_file_can_be_listed_and_the_file_cannot_be_read() {
    let world = world(&FakeModel::start(Vec::new()));
    world.file("project/plan.json", "{}\n").file("project/.env", "HERON\n").file("project/src/a.py", "1\n");
    let project = world.path("project").to_string_lossy().into_owned();
    let run = |command: String| {
        let answers = vec![runs(&command), Answer::text("Done.")];
        heard(&world, "", answers, &["list it"]).remove(0)
    };
    let answer = run(format!("ls -A {project} && cd {project} && cat plan.json src/a.py .env"));
    assert!(answer.contains("plan.json\\\\nsrc"), "{answer}");
    assert!(answer.contains("{}\\\\n1\\\\n") && !answer.contains("HERON"), "{answer}");
    assert!(!answer.contains("commands cannot list"), "{answer}");

    // Landlock would also show the names in the directory of keys.
    world.file("project/keys/server.key", "HERON\n");
    let answer = run(format!("ls -A {project}; find {project}"));
    assert!(!answer.contains("server.key"), "{answer}");
    assert!(answer.contains(&format!("commands cannot list `{project}`")), "{answer}");
}

#[test]
fn a_command_that_names_a_memory_file_elsewhere_is_told_that_only_file_tools_open_it() {
    for level in ["bwrap", "landlock"] {
        let world = world(&FakeModel::start(Vec::new()));
        world.file("home/.prowess/AGENTS.md", "Be brief.\n");
        let path = format!("/memory{}", world.path("home/.prowess/AGENTS.md").display());
        let input = json!({"skill": "tides", "command": "true", "inputs": [{"from": path}]});
        let model = FakeModel::start(vec![
            runs(&format!("cat {path}")).and_call("skill_run", input),
            Answer::call("read_file", json!({"file_path": path})),
            Answer::text("Done."),
        ]);
        configure(&world, &model.url(), "");
        let args = ["chat", "--yes", "--sandbox", level, "read it"];
        let mut chat = match level {
            "bwrap" => world.command(&args),
            _ => at_landlock(&world, &["read it"]),
        };
        let told = world.told(&chat.output().unwrap());
        let requests = model.requests();
        assert_eq!(requests.len(), 3, "{told}");
        let messages = requests[1]["messages"].as_array().unwrap();
        for answer in &messages[messages.len() - 2..] {
            let answer = answer["content"].to_string();
            assert!(answer.contains("commands cannot open") && answer.contains(&path), "{level}: {answer}");
        }
        assert!(last(&requests[2]).contains("Be brief."), "{}", last(&requests[2]));
    }
}

/// As root, commands run as `nobody`. Without mounts, no copy can be at the path of the file.
#[test]
fn as_root_a_file_in_a_private_directory_can_be_copied_as_the_answer_says() {
    let world = world(&FakeModel::start(Vec::new()));
    if !rustix::process::geteuid().is_root() {
        return;
    }
    world.file("project/plan.json", "{\"tide\": \"high\"}\n");
    std::fs::set_permissions(world.path("project"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = world.path("project/plan.json").to_string_lossy().into_owned();
    let copies = json!({"skill": "tides", "command": "cat $WORK_DIR/inputs/plan.json",
        "inputs": [{"from": path, "to": "work/inputs/plan.json"}]});
    let model = FakeModel::start(vec![
        runs(&format!("cat {path}")),
        Answer::call("skill_run", copies),
        Answer::text("Done."),
    ]);
    configure(&world, &model.url(), "");
    let told =
        world.told(&without_bubblewrap(&world, &[&LANDLOCK[..], &["read it"]].concat()).output().unwrap());
    let requests = model.requests();
    assert_eq!(requests.len(), 3, "{told}");
    let refused = last(&requests[1]);
    assert!(refused.contains("to copy it, name it in 'inputs' with a 'to'"), "{refused}");
    assert!(last(&requests[2]).contains("tide"), "{}", last(&requests[2]));
}

/// The files of a thread are private, so `nobody` cannot read them in place.
#[test]
fn as_root_a_moved_answer_can_be_copied_as_the_answer_says() {
    let world = world(&FakeModel::start(Vec::new()));
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let script = world.file("server.sh", SERVER).path("server.sh");
    let chat = |answers: Vec<Answer>, args: &[&str]| {
        let model = FakeModel::start(answers);
        configure(&world, &model.url(), &format!("[mcp.docs]\ncommand = [\"sh\", {script:?}]\n"));
        let output = without_bubblewrap(&world, &[&LANDLOCK, args].concat()).output().unwrap();
        assert!(output.status.success(), "{}", world.told(&output));
        model.requests().iter().skip(1).map(last).collect::<Vec<_>>()
    };
    let state = world.path("home/.local/state/prowess").to_string_lossy().into_owned();
    let answers = vec![Answer::call("docs__find", json!({})), Answer::text("It is long.")];
    let moved = path_in(&chat(answers, &["find it"])[0], &state);
    let copies = json!({"skill": "tides", "command": "head -c 90 $WORK_DIR/inputs/moved.txt",
        "inputs": [{"from": moved, "to": "work/inputs/moved.txt"}]});
    let answers =
        vec![runs(&format!("cat {moved}")), Answer::call("skill_run", copies), Answer::text("Done.")];
    let heard = chat(answers, &["--resume", "last", "open it"]);
    assert!(heard[0].contains("to copy it, name it in 'inputs' with a 'to'"), "{}", heard[0]);
    assert!(heard[1].contains("mcp_tool_result"), "{}", heard[1]);
}

#[test]
fn a_command_that_uses_a_name_without_a_mount_is_told_the_real_path() {
    let world = world(&FakeModel::start(Vec::new()));
    world.file("project/notes.txt", "low tide\n");
    let runs = |command: &str| Answer::call("skill_run", json!({"skill": "tides", "command": command}));
    let answers = vec![runs("cat /project/notes.txt; ls /work/out"), Answer::text("Done.")];
    let answer = &heard(&world, "", answers, &["go"])[0];
    let project = world.path("project").to_string_lossy().into_owned();
    assert!(
        answer.contains(&format!("commands do not see `/project`; write `{project}` instead")),
        "{answer}"
    );
    assert!(answer.contains("commands do not see `/work`; write `"), "{answer}");
    let answers = vec![runs(&format!("cat {project}/notes.txt")), Answer::text("Done.")];
    let answer = &heard(&world, "", answers, &["go"])[0];
    assert!(answer.contains("low tide") && !answer.contains("do not see"), "{answer}");
}
