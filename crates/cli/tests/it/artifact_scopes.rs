//! Artifacts of clients over MCP, of runs and of projects are kept apart.

use serde_json::{Value, json};

use crate::mcp::Server;
use crate::world::World;

const CONFIG: &str = "home/.config/prowess/prowess.toml";
const ALLOW: &str = "[permission.run]\n\"*\" = \"allow\"\n";

fn world(more: &str) -> World {
    let world = World::new();
    world.skill("home/.prowess/skills", "kit", "Does things.").file(CONFIG, &format!("{more}{ALLOW}"));
    world
}

fn saves(text: &str) -> Value {
    let command = format!("echo '{text}' > $OUTPUT_DIR/r.txt");
    json!({"skill": "kit", "command": command, "outputs": {"globs": ["out/r.txt"], "save": true}})
}

fn reads(artifact: &str) -> Value {
    let from = format!("artifact://{artifact}");
    json!({"skill": "kit", "command": "cat $WORK_DIR/inputs/*", "inputs": [{"from": from}]})
}

fn version(ran: &Value) -> u64 {
    ran["structuredContent"]["artifact_files"][0]["version"].as_u64().unwrap_or_else(|| panic!("{ran}"))
}

#[test]
fn case_101_a_client_neither_reads_nor_replaces_what_another_saved() {
    let world = world("");
    let mut one = Server::start(&world, &["--run"]);
    let mut other = Server::start(&world, &["--run"]);
    assert_eq!(version(&one.call("skill_run", &saves("of one"))), 0);
    for artifact in ["out/r.txt", "out/r.txt@0"] {
        let read = other.call("skill_run", &reads(artifact));
        assert!(!read.to_string().contains("of one"), "the other client read {artifact}: {read}");
        assert!(read.to_string().contains("there is no artifact 'out/r.txt'"), "{read}");
    }
    assert_eq!(version(&other.call("skill_run", &saves("of the other"))), 0, "each counts for itself");
    let own = one.call("skill_run", &reads("out/r.txt"));
    assert_eq!(own["structuredContent"]["stdout"], "of one\n", "nobody replaced it: {own}");
    let read = one.request("resources/read", &json!({"uri": "artifact://out/r.txt@0"}));
    assert_eq!(read["result"]["contents"][0]["text"], "of one\n", "{read}");
    one.end();
    other.end();
    // The person finds both.
    let listed = world.json(&["artifacts", "list", "--json"]);
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    for one in listed {
        let scope = one["scope"].as_str().unwrap();
        assert!(scope.starts_with("session:"), "{scope}");
        assert!(world.stdout(&["artifacts", "get", "out/r.txt", "--scope", scope]).starts_with("of "));
        // Without a name all of a scope go, once somebody said yes.
        let unasked = world.output(&["artifacts", "rm", "--scope", scope]);
        assert_eq!(unasked.status.code(), Some(2), "{}", world.told(&unasked));
        assert!(world.told(&unasked).contains("add --yes"), "{}", world.told(&unasked));
        world.stdout(&["artifacts", "rm", "--scope", scope, "--yes"]);
        assert_eq!(world.output(&["artifacts", "get", "out/r.txt", "--scope", scope]).status.code(), Some(2));
    }
    assert_eq!(world.output(&["artifacts", "rm", "--yes"]).status.code(), Some(2), "of which scope?");
    assert_eq!(world.json(&["artifacts", "list", "--json"]), json!([]));
}

fn run(world: &World, directory: &str, args: &[&str]) -> std::process::Output {
    std::fs::create_dir_all(world.path(directory).join(".git")).unwrap();
    let args = [&["run", "kit"], args].concat();
    world.command(&args).current_dir(world.path(directory)).output().unwrap()
}

#[test]
fn case_101_runs_of_another_project_have_other_artifacts() {
    let world = world("");
    let save = |directory: &str, text: &str, more: &[&str]| {
        let command = format!("echo '{text}' > out/r.txt");
        let saved = run(&world, directory, &[&["--save"], more, &["--", command.as_str()]].concat());
        assert!(saved.status.success(), "{}", world.told(&saved));
    };
    let read = |directory: &str, more: &[&str]| {
        let from = ["--input", "artifact://out/r.txt", "--", "cat $WORK_DIR/inputs/*"];
        run(&world, directory, &[more, &from].concat())
    };
    save("project", "of one project", &[]);
    let refused = read("other", &[]);
    assert!(!refused.stdout.starts_with(b"of one"), "another project read it: {}", world.told(&refused));
    assert!(world.told(&refused).contains("there is no artifact `out/r.txt`"), "{}", world.told(&refused));
    save("other", "of the other project", &[]);
    assert_eq!(read("project", &[]).stdout, b"of one project\n");
    // Below the project's top it is the same project.
    std::fs::create_dir_all(world.path("project/deep")).unwrap();
    let args = ["run", "kit", "--input", "artifact://out/r.txt", "--", "cat $WORK_DIR/inputs/*"];
    let deep = world.command(&args).current_dir(world.path("project/deep")).output().unwrap();
    assert_eq!(deep.stdout, b"of one project\n", "{}", world.told(&deep));
    // Whoever says so gets another's.
    let top = world.path("project");
    let scope = format!("project:{}", top.display());
    assert_eq!(read("other", &["--scope", &scope]).stdout, b"of one project\n");
    save("project", "of the user", &["--scope", "user"]);
    assert_eq!(read("other", &["--scope", "user"]).stdout, b"of the user\n");
    let wrong = read("other", &["--scope", "thread:../../x"]);
    assert_eq!(wrong.status.code(), Some(125), "nothing ran");
    assert!(world.told(&wrong).contains("an id has 1 to 64 letters"), "{}", world.told(&wrong));
}

#[test]
fn a_wider_scope_is_what_the_person_configured() {
    for (word, scope) in [("project", "project:"), ("user", "user")] {
        let world = world(&format!("[artifacts]\nscope = \"{word}\"\n"));
        let mut one = Server::start(&world, &["--run"]);
        let mut other = Server::start(&world, &["--run"]);
        assert_eq!(version(&one.call("skill_run", &saves("for all"))), 0);
        let read = other.call("skill_run", &reads("out/r.txt"));
        assert_eq!(read["structuredContent"]["stdout"], "for all\n", "{word}: {read}");
        assert_eq!(version(&other.call("skill_run", &saves("for all"))), 1);
        let listed = world.json(&["artifacts", "list", "--json"]);
        assert!(listed[0]["scope"].as_str().unwrap().starts_with(scope), "{listed}");
        // One scope alone has it: it need not be named.
        assert_eq!(world.stdout(&["artifacts", "get", "out/r.txt@1"]), "for all\n");
    }
}

#[test]
fn a_directory_that_artifacts_made_lets_commands_pass() {
    let world = world("");
    std::fs::set_permissions(world.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let kept = world.path("kept").to_string_lossy().into_owned();
    let mut server = Server::start(&world, &["--run", "--workspace", &kept]);
    let ran = server.call("skill_run", &json!({"skill": "kit", "command": "echo passed"}));
    assert_eq!(ran["structuredContent"]["stdout"], "passed\n", "{ran}");
}
