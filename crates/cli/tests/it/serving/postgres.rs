//! The server on PostgreSQL: as the role that owns the tables, and as one that the database itself keeps to one user at a time.

use std::sync::mpsc::channel;
use std::thread::scope;

use serde_json::json;
use tokio_postgres::NoTls;

use super::Server;
use super::client::Client;
use super::conversing::settled;
use super::limiting::until;
use crate::chat::world;
use crate::model::{Answer, FakeModel};

/// A variable that `scripts/test-postgres.sh start` printed.
pub(super) fn server_url() -> String {
    std::env::var("PROWESS_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("PROWESS_TEST_POSTGRES is not set: run `make unit`, or `eval \"$(scripts/test-postgres.sh start)\"`")
    })
}

/// Runs statements on the server.
pub(super) fn execute(statements: &str) {
    execute_until(statements, || {});
}

/// Runs statements on the server, and keeps the connection while a function runs.
fn execute_until(statements: &str, held: impl FnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&server_url(), NoTls).await.unwrap();
        let connected = tokio::spawn(connection);
        client.batch_execute(statements).await.unwrap();
        held();
        drop(client);
        connected.await.unwrap().unwrap();
    });
}

/// A new schema, and its URL.
pub(super) fn schema(name: &str) -> (String, String) {
    let schema = format!("serving_{name}_{}", std::process::id());
    execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}"));
    let url = format!("{}&options=-c%20search_path%3D{schema}", server_url());
    (schema, url)
}

/// A conversation with a question, and a second user who sees nothing of it.
fn converse(url: &str, is_walled: bool) {
    let run = json!({"skill": "tides", "command": "sh scripts/tides.sh"});
    let model =
        FakeModel::start(vec![Answer::call("skill_run", run), Answer::text("High."), Answer::text("Hello.")]);
    let mut world = world(&model);
    world.variable("PROWESS_DATABASE", url);
    let mut server = Server::start(&world);
    let (ada, bob) = (server.client("admin"), server.new_user("bob"));
    let token = ada.headers.clone();
    // The same directory without the database: the server noted where it is, without its password.
    let without = world.command(&["serve", "user", "list"]).env_remove("PROWESS_DATABASE").output().unwrap();
    let told = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(!without.status.success() && told.contains("--database or PROWESS_DATABASE"), "{told}");
    assert_eq!(Client::anonymous(&server.address).request("GET", "/readyz", None, &[]).status, 200);
    let walls = if is_walled { "row-level security keeps users apart" } else { "without row-level security" };
    assert!(server.said.iter().any(|line| line.contains(walls)), "{:?}", server.said);
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Look it up."}), 202);
    let number = stream.until("asked").last().unwrap().data["number"].clone();
    settled(&ada, &thread);
    assert_eq!(bob.ask("GET", &format!("/threads/{thread}"), None).status, 404);
    assert_eq!(bob.get("/questions")["items"], json!([]));
    // The conversations of users are nobody else's, if the database keeps users apart.
    let listed = world.stdout(&["threads", "list"]);
    assert_eq!(listed.contains(&thread), !is_walled, "{listed}");
    // A skill of hers is hers alone.
    let archive = super::own_skills::skill("knots", "Ties knots.", "bowline");
    let look = super::own_skills::added(&ada, &archive);
    super::own_skills::trust(&ada, &look);
    assert_eq!(ada.get("/skills/knots")["origin"], "yours");
    assert_eq!(bob.ask("GET", "/skills/knots", None).status, 404);
    assert_eq!(bob.get("/own-skills")["items"], json!([]));
    server.kill();

    // Another process takes the reply.
    let server = Server::start(&world);
    let ada = super::client::Client { address: server.address.clone(), headers: token };
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/questions/{number}"), json!({"reply": "always"}), 202);
    assert_eq!(stream.until("turn_ended").last().unwrap().data["outcome"], "answered");
    settled(&ada, &thread);
    let bob = server.client("bob");
    let own = bob.thread();
    bob.say(&own, "Hello?");
    settled(&bob, &own);
    assert_eq!(bob.get("/threads")["items"].as_array().unwrap().len(), 1);
    assert_eq!(ada.get("/threads")["items"].as_array().unwrap().len(), 1);
    assert_eq!(ada.ask("DELETE", &format!("/threads/{thread}"), None).status, 204);
    // Nothing is in the server's own directory.
    assert!(!world.path("home/.local/state/prowess/serve/server.db").exists());
}

#[test]
fn a_link_has_no_address_of_a_server_with_another_database() {
    let mut world = crate::world::World::new();
    let login = |world: &crate::world::World| world.run(&["serve", "login", "admin"]);
    let (unknown, usual) =
        ("warning: the address of the server is not known here", "http://127.0.0.1:8930/login/");
    let urls = [schema("link_one").1, schema("link_two").1];
    let ours = Server::start(&world);
    assert!(login(&world).contains(&format!("http://{}/login/", ours.address)));
    drop(ours);
    // An empty database gets its tables by the first command: the role that owns them may never serve.
    for url in &urls {
        world.variable("PROWESS_DATABASE", url);
        assert!(world.run(&["serve", "user", "add", "admin", "--admin"]).contains("added `admin`"));
        let told = login(&world);
        assert!(told.contains(unknown) && told.contains(usual), "{told}");
    }
    let theirs = Server::start(&world);
    let told = login(&world);
    assert!(told.contains(&format!("http://{}/login/", theirs.address)) && !told.contains(unknown), "{told}");
    drop(theirs);
    world.variable("PROWESS_DATABASE", &urls[0]);
    let told = login(&world);
    assert!(told.contains(unknown) && told.contains(usual), "{told}");
    let named = world.run(&["serve", "login", "admin", "--url", "https://a.example.com"]);
    assert!(named.contains("https://a.example.com/login/") && !named.contains(unknown), "{named}");
}

#[test]
fn a_conversation_on_postgres() {
    let (_, url) = schema("owner");
    converse(&url, false);
}

#[test]
fn case_148_a_search_that_takes_too_long_ends() {
    let (schema, url) = schema("search");
    let model = FakeModel::start(Vec::new());
    let mut world = world(&model);
    world.variable("PROWESS_DATABASE", &url);
    let server = Server::start(&world);
    let ada = server.client("admin");
    ada.thread();
    // Nobody can read the table until the transaction ends.
    let (locked, is_locked) = channel();
    let (unlock, may_unlock) = channel();
    let client = &ada;
    // If the test fails, the transaction ends with the sender.
    scope(move |scope| {
        scope.spawn(move || {
            let lock = format!("BEGIN; LOCK TABLE {schema}.prowess_owned_threads IN ACCESS EXCLUSIVE MODE");
            execute_until(&lock, || {
                locked.send(()).unwrap();
                let _ = may_unlock.recv();
            });
        });
        is_locked.recv().unwrap();
        let answered = client.ask("GET", "/threads?search=tides", None);
        assert_eq!(answered.status, 503, "{}", answered.text());
        assert!(answered.text().contains("The search took too long"), "{}", answered.text());
        // While one runs, another one of the same user is refused.
        let both = || {
            let running = client.send("GET", "/api/v1/threads?search=tides", None, &[]);
            let answered = client.ask("GET", "/threads?search=tides", None);
            drop(running);
            (answered.status, answered.header("retry-after").to_owned())
        };
        until(both, |answered| *answered == (429, "1".to_owned()));
        unlock.send(()).unwrap();
    });
    until(|| ada.ask("GET", "/threads?search=tides", None).status, |status| *status == 200);
}

#[test]
fn processes_that_keep_files_elsewhere_do_not_start() {
    let (_, url) = schema("one");
    let mut world = crate::world::World::new();
    world.variable("PROWESS_DATABASE", &url);
    let mut server = Server::start(&world);
    let other = world.path("other");
    let elsewhere = ["--data", other.to_str().unwrap()];
    let refused = world.run(&[&["serve", "--listen", ":0"], elsewhere.as_slice()].concat());
    let process = format!("the process {} on ", server.child.id());
    assert!(refused.starts_with("exit 2\n") && refused.contains(&process), "{refused}");
    assert!(
        refused.contains("keeps files elsewhere: start all processes of a database with the same --files")
    );
    // Another schema is another database of prowess.
    let (_, apart) = schema("apart");
    drop(Server::start_with(&world, &[elsewhere.as_slice(), &["--database", &apart]].concat()));
    // What commands beside the server print works as it is, and the variable needs no option.
    let added = world.stdout(&["serve", "user", "add", "bob"]);
    assert_eq!(added, "added `bob`; `prowess serve login bob` prints a link to sign in\n");
    let added = world.stdout(&["serve", "user", "add", "bob", "--database", &apart]);
    assert!(added.contains(&format!("; `prowess serve login bob --database '{apart}'` prints")), "{added}");
    let secret = apart.replacen("prowess@", "prowess:secret@", 1);
    let added = world.stdout(&["serve", "user", "add", "carl", "--database", &secret]);
    assert!(added.contains("; `prowess serve login carl` with the same --database prints"), "{added}");
    server.kill();
    drop(Server::start_with(&world, &elsewhere));
}

#[test]
fn a_conversation_as_a_role_behind_row_level_security() {
    let (schema, url) = schema("role");
    // The owner makes the tables.
    let model = FakeModel::start(Vec::new());
    let mut world = world(&model);
    world.variable("PROWESS_DATABASE", &url);
    world.stdout(&["serve", "user", "list"]);
    let role = format!("{schema}_server");
    execute(&format!(
        "DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}; \
         SET search_path = {schema}; SELECT prowess_serve_grant('{role}')"
    ));
    let (_, place) = url.split_once('@').unwrap();
    converse(&format!("postgres://{role}@{place}"), true);
    execute(&format!("DROP SCHEMA {schema} CASCADE; DROP ROLE {role}"));
}
