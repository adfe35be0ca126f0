//! The commands of docs/serving.md, as somebody types them.

use std::process::Command;

use super::Server;
use super::client::Client;
use crate::world::World;

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serving.md")).unwrap()
}

/// The commands of the page, each on a line. Those of root are left out: another test checks the unit.
fn commands() -> Vec<String> {
    let page = page();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    let commands = blocks.filter(|block| !block.contains("sudo ")).map(|block| block.replace("\\\n", " "));
    commands.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The options of a command that starts a server.
fn starts(command: &str) -> Option<Vec<&str>> {
    let words = command.split(" #").next()?.trim().strip_prefix("prowess serve")?;
    let words: Vec<&str> = words.split_whitespace().collect();
    words.first().is_none_or(|first| first.starts_with("--")).then_some(words)
}

/// A command that follows a stream, up to where a person would end it. Other commands stay as they are.
fn followed(command: &str) -> String {
    let end = if command.contains("after=0") { "asked" } else { "live" };
    match command.split_once(" | sed ") {
        _ if !command.contains("/events") => command.to_owned(),
        // The command itself says where it ends.
        Some((stream, end)) => format!("sed {end} < <({{ {stream} || true; }} 2> /dev/null)"),
        None => format!("sed '/^event: {end}/q' < <({{ {command} || true; }} 2> /dev/null)"),
    }
}

#[test]
fn every_command_of_the_page_works() {
    let world = World::new();
    let price = "[price.\"offline\"]\ninput = 1.0\noutput = 2.0\n";
    let skill = "---\nname: tides\ndescription: Looks up the tide. Use for boat trips.\n---\n\n```sh\nmkdir -p out; echo high > out/tide.txt\n```\n";
    world.file("home/.config/prowess/prowess.toml", price).file("home/.prowess/skills/tides/SKILL.md", skill);
    let all = commands();
    let (servers, typed): (Vec<_>, Vec<_>) = all.iter().partition(|command| starts(command).is_some());
    assert!(servers.len() >= 2 && typed.len() >= 10, "{all:#?}");
    for command in servers {
        let options = starts(command).unwrap();
        drop(Server::start_with(&world, &options));
    }
    let server = Server::start(&world);
    let mut script = String::from("set -euo pipefail\n");
    for command in typed {
        // Its output says which token it is.
        let command = command
            .replace(" ID", " \"$(prowess serve token list bob | grep laptop | grep -oE '[0-9a-f]{32}')\"");
        let command = command.replace("127.0.0.1:8930", &server.address);
        script.push_str(&format!("{}\n", followed(&command)));
    }
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_prowess"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-x", "-c", &script]).current_dir(world.path("project")).env_clear();
    let ran = bash.env("HOME", world.path("home")).env("PATH", path).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}\n{err}");
    // An error of the API has its own form, and curl does not fail with it.
    assert!(!out.contains("\"error\":{"), "{out}");
    assert!(out.contains("event: turn_ended") && out.contains("\"object\":\"response\""), "{out}");
    // What was uploaded, and what the command saved.
    assert!(out.contains("\nSail at noon.\n") && out.contains("\nhigh\n"), "{out}");
}

#[test]
fn the_page_lists_every_address_of_the_api() {
    let world = World::new();
    let server = Server::start(&world);
    let document = Client::anonymous(&server.address).request("GET", "/openapi.json", None, &[]).json();
    let page = page();
    let mut described = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let Some(path) = path.strip_prefix("/api/v1") else { continue };
        for method in item.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            let request = format!("| `{} {path}` |", method.to_uppercase());
            assert!(page.contains(&request), "docs/serving.md does not list {request}");
            described += 1;
        }
    }
    let listed = page.lines().filter(|line| {
        ["GET", "POST", "PUT", "PATCH", "DELETE"]
            .iter()
            .any(|method| line.starts_with(&format!("| `{method} /")))
    });
    assert_eq!(listed.count(), described);
}

#[test]
fn a_backup_is_restored() {
    let page = page();
    let (_, section) = page.split_once("**Back it up.**").unwrap();
    let blocks: Vec<&str> =
        section.split("```bash\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let [back_up, restore] = blocks[..] else { panic!("{blocks:#?}") };
    let world = World::new();
    let run = |script: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-euc", script]).env("HOME", world.path("home"));
        assert!(bash.status().unwrap().success(), "{script}");
    };
    let server = Server::start(&world);
    let mut ada = server.client("admin");
    let thread = ada.thread();
    ada.say(&thread, "Hello?");
    super::conversing::settled(&ada, &thread);
    let log = ada.get(&format!("/threads/{thread}/log"));
    drop(server);
    run(back_up);
    let server = Server::start(&world);
    ada.address.clone_from(&server.address);
    assert_eq!(ada.ask("DELETE", &format!("/threads/{thread}"), None).status, 204);
    drop(server);
    run(restore);
    let server = Server::start(&world);
    ada.address.clone_from(&server.address);
    assert_eq!(ada.get(&format!("/threads/{thread}/log")), log);
}
