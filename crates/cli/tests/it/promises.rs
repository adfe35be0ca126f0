//! What documents and help promise, tried: names of tools, the engine's socket, what is copied out.

use serde_json::{Value, json};

use crate::chat;
use crate::document::documents;
use crate::model::{Answer, FakeModel};
use crate::world::{World, examples};

#[test]
fn tools_are_called_as_the_document_of_the_server_says() {
    let documents = documents();
    let page = documents.iter().find(|document| document.path.ends_with("docs/mcp.md")).unwrap();
    let table =
        page.tables.iter().find(|table| table.heading.first().is_some_and(|word| word == "started with"));
    let rows = &table.expect("docs/mcp.md has no table of the names of tools").rows;
    assert_eq!(rows.len(), 4);
    // `--run` adds tools and renames none.
    let (plain, running) = (&rows[0][2], &rows[1][2]);
    assert!(rows[1][0][0].ends_with("mcp --run") && running.len() > plain.len());
    assert_eq!(running[..plain.len()], plain[..]);
    let world = World::new();
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ];
    let input: String = messages.iter().map(|message| format!("{message}\n")).collect();
    for row in rows {
        let [started, _, tools] = row.as_slice() else { panic!("{row:?}") };
        let mut args: Vec<&str> = started[0].split(' ').skip(1).collect();
        let examples = examples();
        args.extend(["--only", "--root", &examples]);
        let output = world.fed(&args, &input);
        let answers = String::from_utf8(output.stdout).unwrap();
        let listed: Value = serde_json::from_str(answers.lines().last().unwrap()).unwrap();
        let names: Vec<&str> = listed["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, *tools, "{started:?}");
    }
}

#[test]
fn the_engine_is_looked_for_at_the_socket_that_is_configured() {
    let model = FakeModel::start(vec![
        Answer::call("skill_run", json!({"skill": "tides", "command": "true"})),
        Answer::text("It did not run."),
    ]);
    let world = chat::world(&model);
    let socket = world.path("home/engine.sock").to_string_lossy().into_owned();
    let config = "home/.config/prowess/prowess.toml";
    let settings = std::fs::read_to_string(world.path(config)).unwrap();
    world.file(
        config,
        &format!("{settings}\n[sandbox]\nexecutor = \"container\"\nengine_socket = \"~/engine.sock\"\n"),
    );
    let expected = format!("no container engine answers at {socket} (no such socket)");
    let doctor = world.json(&["doctor", "--json"]);
    assert!(doctor["containers"]["problem"].as_str().unwrap().contains(&expected), "{doctor}");
    let run = world.run(&["run", "tides", "--", "true"]);
    assert!(
        run.starts_with("exit 125")
            && run.contains(&expected.replace(&*world.path("").to_string_lossy(), "[WORLD]/")),
        "{run}"
    );
    world.output(&["chat", "--yes", "hello"]);
    let answer = model.requests()[1].to_string();
    assert!(answer.contains(&expected), "{answer}");
}

#[test]
fn doctor_says_how_to_start_podman_where_it_is_installed() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    world.file("bin/podman", "#!/bin/sh\necho podman version 4.3.1\n");
    std::fs::set_permissions(world.path("bin/podman"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let told = |path: String| {
        let mut command = world.command(&["doctor"]);
        command.env("PATH", path).env("DOCKER_HOST", "unix:///nonexistent/engine.sock");
        world.told(&command.output().unwrap())
    };
    let (own, system) = (world.path("bin").display().to_string(), "/usr/bin:/bin");
    let with = told(format!("{own}:{system}"));
    let advice = "/bin/podman is installed, but its service is not running: start it with `podman system service --time=0 &`";
    assert!(with.contains(&format!("[WORLD]{advice}")), "{with}");
    assert!(with.contains("name its socket as `sandbox.engine_socket` in prowess.toml"), "{with}");
    if !std::path::Path::new("/usr/bin/podman").exists() {
        assert!(!told(system.to_owned()).contains("is installed, but"));
    }
}

#[test]
fn results_are_copied_out_be_they_text_or_not() {
    let world = World::new();
    world.skill("home/.prowess/skills", "tides", "Looks up tides. Use at sea.");
    let command =
        "printf '\\000\\377' > out/bytes; echo text > out/text; head -c 5000000 /dev/zero > out/large";
    let told = world.run(&["run", "tides", "--to", "results", "--", command]);
    assert!(told.starts_with("exit 0"), "{told}");
    assert_eq!(std::fs::read(world.path("project/results/out/bytes")).unwrap(), b"\0\xff");
    assert_eq!(std::fs::read(world.path("project/results/out/text")).unwrap(), b"text\n");
    assert!(!world.path("project/results/out/large").exists());
    assert!(told.contains("`out/large` was not copied: it is too large; the whole file is"), "{told}");
    let help = world.stdout(&["run", "--help"]);
    let help: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("Copy the results to this directory, up to 4 MiB each"), "{help}");
}
