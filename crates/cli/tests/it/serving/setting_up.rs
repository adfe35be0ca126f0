//! Setting a server up: the commands beside it, its address, and what happens if its files go.

use std::path::Path;

use serde_json::json;

use super::Server;
use super::client::Client;
use crate::chat::world;
use crate::model::{Answer, FakeModel};
use crate::uninstalling::apart;
use crate::world::World;

/// An administrator who reads the audit log.
fn auditor(server: &Server<'_>) -> Client {
    server.client_with("admin", &["--scope", "read", "--scope", "write", "--scope", "admin"])
}

#[test]
fn nothing_is_removed_while_a_server_runs() {
    let world = World::new();
    let elsewhere = world.path("data");
    let other = ["--data", elsewhere.to_str().unwrap()];
    let uninstall = |args: &[&str]| {
        let program = Path::new(env!("CARGO_BIN_EXE_prowess"));
        let output = apart(&world, program, &[&["uninstall"], args].concat()).output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(told).unwrap())
    };
    // Its artifacts and workspaces are in the state directory also if its own directory is elsewhere.
    for args in [&[], other.as_slice()] {
        let server = Server::start_with(&world, args);
        let (code, told) = uninstall(&["--yes"]);
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains("a server runs: stop `prowess serve` first; nothing was removed"), "{told}");
        let ready = Client::anonymous(&server.address).request("GET", "/readyz", None, &[]);
        assert_eq!((ready.status, ready.text().as_str()), (200, "ready\n"));
    }
    let (code, told) = uninstall(&["--yes"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("the server's database, users and files"), "{told}");
    assert!(!world.path("home/.local/state/prowess").exists() && elsewhere.join("server.db").exists());
}

#[test]
fn a_server_whose_database_is_gone_is_not_ready() {
    let world = World::new();
    let server = Server::start(&world);
    let ready = || Client::anonymous(&server.address).request("GET", "/readyz", None, &[]);
    assert_eq!(ready().status, 200);
    let database = world.path("home/.local/state/prowess/serve/server.db");
    let aside = database.with_extension("aside");
    std::fs::rename(&database, &aside).unwrap();
    let gone = ready();
    assert_eq!(gone.status, 503);
    assert!(gone.text().contains("removed or replaced: restart the server"), "{}", gone.text());
    std::fs::copy(&aside, &database).unwrap();
    assert_eq!(ready().status, 503, "a copy is another file");
    std::fs::rename(&aside, &database).unwrap();
    assert_eq!(ready().status, 200);
}

#[test]
fn commands_beside_the_server_make_no_database() {
    let world = World::new();
    let data = world.path("data");
    let run = |words: &[&str]| world.run(&[&["serve"], words, &["--data", data.to_str().unwrap()]].concat());
    let commands: [&[&str]; 4] =
        [&["user", "add", "bob"], &["user", "list"], &["token", "add", "admin"], &["login", "admin"]];
    for words in commands {
        let told = run(words);
        assert!(
            told.contains("there is no server in") && told.contains("name --data or --database"),
            "{told}"
        );
    }
    assert!(!data.exists() && !world.path("home/.local/state/prowess/serve").exists());
    std::fs::create_dir(&data).unwrap();
    assert!(run(&["user", "add", "bob"]).contains("there is no server in"));
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
    drop(Server::start_with(&world, &["--data", data.to_str().unwrap()]));
    assert!(run(&["user", "add", "bob"]).contains("added `bob`"));
    // Another place is still none.
    assert!(world.run(&["serve", "user", "list"]).contains("there is no server in"));
    // The notes of a server with its database in PostgreSQL.
    world.file("data/server.json", "{\"url\": \"https://agent.example.com\", \"database\": \"postgres\"}");
    let told = run(&["user", "list"]);
    assert!(told.contains("PostgreSQL") && told.contains("--database or PROWESS_DATABASE"), "{told}");
}

#[test]
fn links_have_the_address_with_which_the_server_started() {
    let world = World::new();
    let login = |args: &[&str]| world.run(&[&["serve", "login", "admin"], args].concat());
    let server = Server::start(&world);
    let local = format!("http://{}/login/prowess_", server.address);
    assert!(login(&[]).contains(&local));
    drop(server);
    let server = Server::start_with(&world, &["--url", "http://agent.example.com:81/"]);
    assert_eq!(server.address, "agent.example.com:81");
    assert!(
        server.said.iter().any(|line| line.contains(" · listens on http://127.0.0.1:")),
        "{:?}",
        server.said
    );
    assert!(login(&[]).contains("http://agent.example.com:81/login/prowess_"));
    assert!(
        login(&["--url", "https://other.example.com"]).contains("https://other.example.com/login/prowess_")
    );
    for wrong in ["agent.example.com", "ftp://a", "https://a?b=c", "https://a#b", "https://a/b"] {
        assert!(login(&["--url", wrong]).contains("invalid value"), "{wrong}");
        assert!(world.run(&["serve", "--url", wrong]).contains("invalid value"), "{wrong}");
    }
}

#[test]
fn the_audit_log_says_who_did_it() {
    let world = World::new();
    let server = Server::start(&world);
    let admin = auditor(&server);
    for words in [
        &["user", "add", "carol"] as &[&str],
        &["user", "limit", "carol", "--daily-cost", "2"],
        &["login", "carol"],
    ] {
        world.stdout(&[&["serve"], words].concat());
    }
    let id = admin.get("/users")["items"][1]["id"].clone();
    let entries = admin.get("/audit")["items"].as_array().unwrap().clone();
    let told: Vec<_> = entries.iter().take(3).map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(told, ["make login link", "change user", "add user"]);
    for entry in &entries[..3] {
        assert_eq!((&entry["user"], &entry["affected"]), (&json!("command line"), &id), "{entry}");
        assert!(entry["detail"]["system_user"].as_str().is_some_and(|name| !name.is_empty()), "{entry}");
    }
    assert_eq!(entries[1]["detail"]["daily"]["cost"], "2.00");
    // In a browser.
    let link = world.stdout(&["serve", "login", "carol"]);
    let path = link.trim().split_once("/login/").map(|(_, code)| format!("/login/{code}")).unwrap();
    let nobody = Client::anonymous(&server.address);
    assert_eq!(nobody.request("POST", &path, None, &["sec-fetch-site: same-origin"]).status, 303);
    let secret = world.stdout(&["serve", "token", "add", "carol"]);
    let body = json!({"token": secret.trim()}).to_string();
    let signed = nobody.request(
        "POST",
        "/api/v1/login",
        Some(body.as_bytes()),
        &["content-type: application/json", "x-prowess: 1"],
    );
    assert_eq!(signed.status, 204);
    let made = admin.post("/users", json!({"name": "dora"}), 201)["id"].clone();
    let entries = admin.get("/audit")["items"].as_array().unwrap().clone();
    let me = admin.get("/me")["user"]["id"].clone();
    let told: Vec<_> =
        entries.iter().take(5).map(|entry| (&entry["action"], &entry["user"], &entry["affected"])).collect();
    let (none, line) = (json!(null), json!("command line"));
    let [link, user, sign, token] =
        ["make login link", "add user", "sign in", "add token"].map(|action| json!(action));
    assert_eq!(
        told,
        [
            (&link, &me, &made),
            (&user, &me, &made),
            (&sign, &id, &none),
            (&token, &line, &id),
            (&sign, &id, &none)
        ]
    );
    assert_eq!(
        (&entries[2]["detail"]["with"], &entries[4]["detail"]["with"]),
        (&json!("token"), &json!("login link"))
    );
    assert!(!entries.iter().any(|entry| entry.to_string().contains("prowess_")), "no secret is in it");
}

#[test]
fn commands_say_what_they_did() {
    let world = World::new();
    let server = Server::start(&world);
    let run = |words: &[&str]| world.run(&[&["serve"], words].concat());
    let added = run(&["user", "add", "Ada Lovelace"]);
    assert!(added.contains("`prowess serve login 'Ada Lovelace'` prints"), "{added}");
    for taken in ["ADMIN", "ada lovelace", "Command Line"] {
        assert!(run(&["user", "add", taken]).contains("already"), "{taken}");
    }
    let limited = run(&["user", "limit", "Ada Lovelace", "--daily-tokens", "2000", "--daily-cost", "1.5"]);
    assert!(limited.contains("limited `Ada Lovelace` to 2000 tokens and $1.50 a day"), "{limited}");
    let listed = run(&["user", "list"]);
    assert!(listed.contains("2000 tokens and $1.50"), "{listed}");
    let free = run(&["user", "limit", "Ada Lovelace"]);
    assert!(free.contains("removed the limits of `Ada Lovelace`"), "{free}");
    assert!(run(&["token", "add", "admin", "--days", "0"]).contains("invalid value '0'"));
    assert!(run(&["token", "add", "admin", "--name", "for ever"]).contains("prowess_"));
    assert!(run(&["token", "add", "admin", "--name", "short", "--days", "1"]).contains("prowess_"));
    let tokens = run(&["token", "list", "admin"]);
    let of = |name: &str| tokens.lines().find(|line| line.contains(name)).unwrap().to_owned();
    let ends = regex::Regex::new(r"never\t\d{4}-\d\d-\d\d\t").unwrap();
    assert!(of("for ever").contains("never\tnever\t") && ends.is_match(&of("short")), "{tokens}");
    let missing = run(&["token", "revoke", "Ada Lovelace", "0"]);
    assert!(missing.contains("`prowess serve token list 'Ada Lovelace'`"), "{missing}");
    let admin = auditor(&server);
    admin.post("/tokens", json!({"name": "a", "scopes": ["read"], "days": 0}), 400);
    admin.post("/users", json!({"name": "Admin"}), 409);

    let busy = world.run(&["serve", "--listen", &server.address]);
    assert!(busy.contains("cannot listen on") && busy.contains("another program may use the port"), "{busy}");
    let away = world.run(&["serve", "user", "list", "--database", "postgres://me:secret@127.0.0.1:1/none"]);
    assert!(
        away.contains("cannot be reached") && away.contains("check that PostgreSQL runs there"),
        "{away}"
    );
    assert!(!away.contains("secret"), "{away}");
}

#[test]
fn the_model_on_a_server_knows_where_it_is() {
    let model = FakeModel::start(vec![Answer::text("Hello.")]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    ada.say(&thread, "Hello?");
    let told = model.requests()[0]["messages"][0]["content"].to_string();
    assert!(
        told.contains("You are an agent on a server. A person talks to you through a web page"),
        "{told}"
    );
    assert!(told.contains("files that the person uploads") && !told.contains("terminal"), "{told}");
}

#[test]
fn a_unit_warns_about_a_program_that_its_user_cannot_reach() {
    let mut world = World::new();
    let program = Path::new(env!("CARGO_BIN_EXE_prowess"));
    let warned = |world: &World| {
        let output = world.output(&["serve", "--print-unit"]);
        assert!(output.status.success() && !String::from_utf8_lossy(&output.stdout).contains("warning"));
        String::from_utf8(output.stderr).unwrap()
    };
    world.variable("HOME", program.parent().unwrap().to_str().unwrap());
    let told = warned(&world);
    assert!(told.contains("the service's user cannot reach") && told.contains("/usr/local/bin/"), "{told}");
    // Unless these tests are below somebody's home.
    world.variable("HOME", world.path("home").to_str().unwrap());
    let is_at_home = ["/home/", "/root/"].iter().any(|home| program.to_str().unwrap().contains(home));
    assert_eq!(warned(&world).is_empty(), !is_at_home);
}
