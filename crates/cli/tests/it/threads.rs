//! `prowess threads`: conversations as a person keeps them, and gets rid of them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use prowess_agent::ThreadStore as _;
use prowess_store::SqliteStore;
use serde_json::{Value, json};

use crate::model::{Answer, FakeModel};
use crate::pty::Pty;
use crate::world::World;

/// A home in which this model answers, with a skill that has a script.
fn world(model: &FakeModel) -> World {
    let world = World::new();
    let config = format!(
        "[model]\nname = \"fake:m\"\ncontext_window = 100000\n[provider.fake]\napi = \"openai\"\nbase_url = \"{}\"\n",
        model.url()
    );
    world
        .file("home/.config/prowess/prowess.toml", &config)
        .skill("home/.prowess/skills", "tides", "Looks up tides. Use before boat trips.")
        .file("home/.prowess/skills/tides/scripts/tides.sh", "echo high\n");
    world
}

/// A run that saves what it wrote as an artifact.
fn saves() -> Answer {
    let command = "echo high > $OUTPUT_DIR/tide.txt";
    let outputs = json!({"globs": ["out/tide.txt"], "save": true});
    Answer::call("skill_run", json!({"skill": "tides", "command": command, "outputs": outputs}))
}

/// The scopes that have artifacts.
fn scopes(world: &World) -> Vec<String> {
    let listed = world.json(&["artifacts", "list", "--json"]);
    listed.as_array().unwrap().iter().map(|one| one["scope"].as_str().unwrap().to_owned()).collect()
}

/// How many files hold the bytes of artifacts.
fn blobs(world: &World) -> usize {
    let parts = std::fs::read_dir(world.path("home/.local/state/prowess/artifacts/blobs")).unwrap();
    parts.map(|part| std::fs::read_dir(part.unwrap().path()).unwrap().count()).sum()
}

fn runs() -> Answer {
    Answer::call("skill_run", json!({"skill": "tides", "command": "sh scripts/tides.sh"}))
}

fn listed(world: &World) -> Vec<Value> {
    world.json(&["threads", "list", "--json"]).as_array().unwrap().clone()
}

fn ids(world: &World) -> Vec<String> {
    listed(world).iter().map(|thread| thread["id"].as_str().unwrap().to_owned()).collect()
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The workspaces of a session, wherever they are kept on this machine.
fn workspaces(world: &World, session: &str) -> Vec<PathBuf> {
    let places = [world.path("home/.local/state/prowess/workspaces"), shared().join("workspaces")];
    let entries = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| {
            let notes = std::fs::read_to_string(path.join("workspace.json")).unwrap_or_default();
            notes.contains(&format!("\"{session}\""))
        })
        .collect()
}

/// Where a superuser's workspaces are, whose commands run as somebody else.
fn shared() -> PathBuf {
    let output = std::process::Command::new("id").arg("-u").output().unwrap();
    PathBuf::from(format!("/var/tmp/prowess-{}", String::from_utf8(output.stdout).unwrap().trim()))
}

#[test]
fn a_list_says_what_each_is_about_and_whether_it_waits() {
    let model = FakeModel::start(vec![Answer::text("It is high."), runs()]);
    let world = world(&model);
    assert_eq!(world.json(&["threads", "list", "--json"]), json!([]));
    assert!(!world.path("home/.local/state").exists(), "looking makes nothing");
    world.stdout(&["chat", "is it high water?"]);
    assert_eq!(world.output(&["chat", "run the script"]).status.code(), Some(1));
    let all = listed(&world);
    assert_eq!(all.len(), 2);
    let (waits, said) = (&all[0], &all[1]);
    assert_eq!((&said["title"], &said["model"]), (&json!("is it high water?"), &json!("fake:m")));
    assert_eq!((&said["messages"], &said["questions"]), (&json!(2), &json!([])));
    assert_eq!(waits["questions"].as_array().unwrap().len(), 1, "{waits}");
    assert_eq!(said["directory"], json!(world.path("project").to_str().unwrap()));
    let told = world.stdout(&["threads", "list"]);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].contains("(a question is waiting) run the script"), "{told}");
    assert!(lines[1].ends_with("\tnow\t2\tfake:m\tis it high water?"), "{told}");
    let one = world.stdout(&["threads", "list", "--limit", "1"]);
    assert_eq!(one.lines().count(), 1);
}

#[test]
fn a_conversation_is_shown_and_written_down() {
    let model = FakeModel::start(vec![Answer::text("It is **high** \u{1b}[2J water."), runs()]);
    let world = world(&model);
    world.output(&["chat", "is it high water?"]);
    world.output(&["chat", "--resume", "last", "run the script"]);
    let id = ids(&world).remove(0);
    for name in ["last", &id, &id[..10], &id[id.len() - 6..]] {
        let told = world.stdout(&["threads", "show", name]);
        assert!(told.contains("## You\n\nis it high water?"), "{told}");
        assert!(told.contains("It is **high**") && !told.contains('\u{1b}'), "{told}");
        assert!(told.contains("## A question is waiting"), "{told}");
    }
    let messages = world.json(&["threads", "show", "last", "--json"]);
    assert_eq!(messages.as_array().unwrap().len(), 4, "{messages}");
    let mut pty = Pty::start(&world, &["threads", "show", "last"], 60, 40);
    assert_eq!(pty.wait(), Some(0));
    assert!(pty.screen().contains("is it high water?"), "{}", pty.screen());

    let told = world.stdout(&["threads", "export", "last", "talk.md"]);
    assert_eq!(told, "wrote the conversation to talk.md\n");
    let text = std::fs::read_to_string(world.path("project/talk.md")).unwrap();
    assert!(text.starts_with(&format!("# Thread {id}\n")), "{text}");
    world.stdout(&["threads", "export", &id, "talk.json"]);
    let text = std::fs::read_to_string(world.path("project/talk.json")).unwrap();
    assert!(serde_json::from_str::<Value>(&text).is_ok());
    assert_eq!(
        world.output(&["threads", "export", &id, "talk.md"]).status.code(),
        Some(2),
        "it is there already"
    );
}

#[test]
fn what_is_not_there_is_told_in_one_line() {
    let model = FakeModel::start(vec![Answer::text("Hello."), Answer::text("Hello.")]);
    let world = world(&model);
    let told = stderr(&world.output(&["threads", "show", "last"]));
    assert_eq!(told, "prowess: there are no threads yet; `prowess chat` starts one\n");
    world.stdout(&["chat", "hello"]);
    world.stdout(&["chat", "hello"]);
    for args in [
        &["threads", "show", "zeppelin"][..],
        &["threads", "show", ""],
        &["threads", "show", "2"],
        &["threads", "rm", "--yes", "last", "../../etc"],
        &["threads", "rm"],
        &["threads", "prune"],
        &["threads", "prune", "--older-than", "3 moons"],
        &["threads", "rm", "last"],
    ] {
        let output = world.output(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{args:?}: {}", stderr(&output));
    }
    assert_eq!(ids(&world).len(), 2, "nothing was removed");
}

#[test]
fn a_thread_goes_with_all_that_belongs_to_it() {
    let model = FakeModel::start(vec![
        saves(),
        Answer::call("task", json!({"description": "Look it up.", "subagent_type": "general-purpose"})),
        saves().when(|body| {
            body["messages"].to_string().contains("Look it up.")
                && body["messages"].as_array().unwrap().len() < 4
        }),
        Answer::text("The sub-agent is done."),
        Answer::text("Done."),
        saves(),
        Answer::text("Another."),
    ]);
    let world = world(&model);
    world.output(&["chat", "--yes", "is it high water?"]);
    world.stdout(&["chat", "--yes", "something else"]);
    let all = ids(&world);
    let (kept, gone) = (&all[0], &all[1]);
    let files = world.path(&format!("home/.local/state/prowess/threads/{gone}"));
    for id in &all {
        let kept = format!("home/.local/state/prowess/threads/{id}/conversation_history/1.md");
        world.file(&kept, "What was said before.\n");
    }
    assert_eq!(workspaces(&world, gone).len(), 1, "the command had a workspace");
    let task = sub_agents(&world).remove(0);
    assert_eq!(workspaces(&world, &task).len(), 0, "which it shared with the sub-agent");
    assert!(scopes(&world).contains(&format!("thread:{gone}")), "{:?}", scopes(&world));
    assert_eq!(blobs(&world), 3, "two versions of the one, one of the other");

    // A person is asked, and may say no.
    let mut pty = Pty::start(&world, &["threads", "rm", gone], 100, 20);
    pty.wait_for("[y/N]");
    pty.type_line("n");
    assert_eq!(pty.wait(), Some(1));
    assert!(pty.screen().contains("Nothing was removed."), "{}", pty.screen());
    assert_eq!(ids(&world).len(), 2);

    let mut pty = Pty::start(&world, &["threads", "rm", gone], 100, 20);
    pty.wait_for("[y/N]");
    pty.type_line("y");
    assert_eq!(pty.wait(), Some(0), "{}", pty.screen());
    assert_eq!(ids(&world), std::slice::from_ref(kept));
    assert!(pty.screen().contains("1 workspace, "), "{}", pty.screen());
    assert!(!files.exists() && workspaces(&world, gone).is_empty());
    assert_eq!(workspaces(&world, &task), Vec::<PathBuf>::new());
    assert_eq!(scopes(&world), [format!("thread:{kept}")], "its artifacts went, and the other's stayed");
    assert_eq!(blobs(&world), 1, "with their bytes");
    let output = world.output(&["chat", "--resume", gone, "again"]);
    assert!(stderr(&output).contains("there is no thread"), "{}", stderr(&output));
    // Neither the other one nor what is not a thread's is touched.
    assert_eq!(world.stdout(&["artifacts", "get", "out/tide.txt"]), "high\n");
    assert!(world.path(&format!("home/.local/state/prowess/threads/{kept}")).is_dir());
    assert!(world.path("home/.prowess/skills/tides/SKILL.md").is_file());
    assert_eq!(threads_in_database(&world), 1, "the sub-agent's thread went as well");
}

/// How many threads of all kinds there are.
fn threads_in_database(world: &World) -> usize {
    in_database(world).len()
}

fn in_database(world: &World) -> Vec<String> {
    let path = world.path("home/.local/state/prowess/threads.db");
    let threads = SqliteStore::list_read_only(&path, 1000).unwrap();
    threads.iter().map(|info| info.id.to_string()).collect()
}

/// The threads of sub-agents.
fn sub_agents(world: &World) -> Vec<String> {
    in_database(world).into_iter().filter(|id| id.starts_with("task-")).collect()
}

#[test]
fn a_thread_in_use_stays() {
    let model = FakeModel::start(vec![Answer::text("Hello."), Answer::text("Hello again.")]);
    let world = world(&model);
    world.stdout(&["chat", "first"]);
    let pty = Pty::start(&world, &["chat"], 80, 20);
    pty.type_line("hello");
    pty.wait_for("Hello again.");
    let all = ids(&world);
    let output = world.output(&["threads", "rm", "--yes", &all[0], &all[1]]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains(&format!("not removed: {} is in use by process ", all[0])), "{told}");
    assert_eq!(ids(&world), std::slice::from_ref(&all[0]), "the other one went");
    pty.type_line("/quit");
}

#[test]
fn old_threads_are_listed_and_then_removed() {
    let model = FakeModel::start(vec![Answer::text("One."), Answer::text("Two.")]);
    let world = world(&model);
    let nothing = world.stdout(&["threads", "prune", "--older-than", "30d"]);
    assert_eq!(nothing, "There is nothing to remove.\n");
    world.stdout(&["chat", "first"]);
    world.stdout(&["chat", "second"]);
    assert_eq!(world.stdout(&["threads", "prune", "--older-than", "1m"]), "There is nothing to remove.\n");
    // Where nobody can be asked, they are listed, and stay.
    let output = world.output(&["threads", "prune", "--older-than", "0m"]);
    assert_eq!(output.status.code(), Some(2));
    let out = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(out.contains("first") && out.contains("second"), "{out}");
    assert!(stderr(&output).contains("add --yes"), "{}", stderr(&output));
    assert_eq!(ids(&world).len(), 2);
    let told = world.stdout(&["threads", "prune", "--older-than", "0m", "--yes"]);
    assert!(told.contains("2 of 2 threads removed"), "{told}");
    assert_eq!(listed(&world), Vec::<Value>::new());
    assert_eq!(std::fs::read_dir(world.path("home/.local/state/prowess/threads")).unwrap().count(), 0);
}

#[test]
fn nobody_is_asked_who_cannot_see_the_question() {
    let model = FakeModel::start(vec![Answer::text("One.")]);
    let world = world(&model);
    world.stdout(&["chat", "first"]);
    let command = world.command(&[]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "\"$0\" threads rm last 2> told"]).arg(command.get_program());
    shell.current_dir(world.path("project")).env_clear();
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap());
    }
    let mut pty = Pty::run(shell, 100, 20);
    assert_eq!(pty.wait(), Some(2), "{}", pty.screen());
    let told = std::fs::read_to_string(world.path("project/told")).unwrap();
    assert!(told.contains("there is no terminal to ask on") && !told.contains("[y/N]"), "{told}");
    assert_eq!(ids(&world).len(), 1);
}

#[test]
fn the_line_that_goes_on_finds_the_same_files() {
    let model = FakeModel::start(vec![runs(), Answer::text("Done."), Answer::text("Done.")]);
    let world = world(&model);
    world.skill("more skills", "kites", "Builds kites. Use on windy days.");
    // Commands of root run as somebody else, who has to get there.
    std::fs::set_permissions(world.path(""), std::fs::Permissions::from_mode(0o711)).unwrap();
    let args = ["chat", "--workspace", "../kept here", "--root", "../more skills", "run the script"];
    let output = world.output(&args);
    assert_eq!(output.status.code(), Some(1), "{}", world.told(&output));
    let told = world.told(&output);
    let line =
        told.split('`').find(|text| text.starts_with("prowess chat")).unwrap_or_else(|| panic!("{told}"));
    let id = ids(&world).remove(0);
    let expected = format!(
        "prowess chat --root '[WORLD]/project/../more skills' --workspace '[WORLD]/project/../kept here' --resume {id}"
    );
    assert_eq!(line, expected);
    let line = line.replace("[WORLD]", world.path("").to_str().unwrap().trim_end_matches('/'));
    let script = format!("prowess() {{ {} \"$@\"; }}; {line} --yes go", env!("CARGO_BIN_EXE_prowess"));
    let mut shell = std::process::Command::new("sh");
    let command = world.command(&[]);
    shell.args(["-c", &script]).current_dir(world.path("home")).env_clear();
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap());
    }
    let output = shell.output().unwrap();
    assert!(
        output.status.success() && world.told(&output).contains("skill_run: exit 0"),
        "{}",
        world.told(&output)
    );
    let kept = std::fs::read_dir(world.path("kept here/workspaces")).unwrap();
    assert!(kept.flatten().any(|entry| entry.path().join("workspace.json").is_file()));
}

#[test]
fn threads_of_sub_agents_whose_parent_is_gone_are_pruned() {
    let task =
        || Answer::call("task", json!({"description": "Look it up.", "subagent_type": "general-purpose"}));
    let model = FakeModel::start(vec![
        task(),
        runs().when(is_of_task),
        Answer::text("The sub-agent is done.").when(is_of_task),
        Answer::text("Done."),
        task(),
        Answer::text("The sub-agent is done.").when(is_of_task),
        Answer::text("Done."),
    ]);
    let world = world(&model);
    world.stdout(&["chat", "--yes", "is it high water?"]);
    let orphan = sub_agents(&world).remove(0);
    world.stdout(&["chat", "--yes", "and now?"]);
    let (kept, gone) = (ids(&world).remove(0), ids(&world).remove(1));
    forget(&world, &gone);
    assert_eq!(sub_agents(&world).len(), 2);
    // The other thread is in use: it stays with its sub-agent.
    let mut pty = Pty::start(&world, &["chat", "--resume", &kept], 80, 30);
    pty.wait_until("the prompt", |screen| screen.lines().last() == Some(">"));
    let output = world.output(&["threads", "prune", "--older-than", "0m"]);
    assert_eq!(output.status.code(), Some(2), "{}", world.told(&output));
    assert_eq!(sub_agents(&world).len(), 2, "nothing goes before the answer");
    let output = world.output(&["threads", "prune", "--older-than", "0m", "--yes"]);
    assert_eq!(output.status.code(), Some(1), "{}", world.told(&output));
    let left = sub_agents(&world);
    assert!(left.len() == 1 && left[0] != orphan, "{left:?}");
    assert_eq!(workspaces(&world, &orphan), Vec::<PathBuf>::new());
    pty.press("\x04");
    assert_eq!(pty.wait(), Some(0));
    // Where nothing but such a thread is left, it is asked about.
    forget(&world, &kept);
    let mut pty = Pty::start(&world, &["threads", "prune", "--older-than", "0m"], 100, 20);
    pty.wait_for("Remove 1 leftover");
    pty.type_line("y");
    assert_eq!(pty.wait(), Some(0), "{}", pty.screen());
    assert_eq!(threads_in_database(&world), 0);
}

fn is_of_task(body: &Value) -> bool {
    body["messages"].to_string().contains("Look it up.") && !body["messages"].to_string().contains("\"task\"")
}

/// Takes a thread away, as one that is damaged goes: nobody knows its sub-agents any more.
fn forget(world: &World, id: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(world.path("home/.local/state/prowess/threads.db")).await.unwrap();
        store.delete(&id.parse().unwrap()).await.unwrap();
    });
}
