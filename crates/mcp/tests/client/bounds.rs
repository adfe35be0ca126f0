//! What a server may take, of time and of room.

use std::time::Duration;

use prowess_mcp::client::{Connection, Server, ServerOptions};

use crate::lying::{Lying, PATIENCE, told};

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn lists_end() {
    let many = Lying::new("many");
    let list = many.connect("docs").await.skills().await.unwrap();
    assert_eq!((list.offers.len(), list.stopped), (61, None), "pages are read on");

    let endless = Lying::new("endless");
    let mut options = endless.options("docs");
    options.limits.pages = 7;
    let list = Server::connect(options).await.unwrap().skills().await.unwrap();
    assert_eq!(list.offers.len(), 7, "what there is can be used");
    assert!(list.stopped.unwrap().to_string().contains("more than 7 pages"));

    let mut options = endless.options("docs");
    options.limits.skills = 5;
    let list = Server::connect(options).await.unwrap().skills().await.unwrap();
    assert_eq!(list.offers.len(), 5);
    assert!(list.stopped.unwrap().to_string().contains("too many skills"));

    let looping = Lying::new("loop");
    let list = looping.connect("docs").await.skills().await.unwrap();
    assert_eq!(list.offers.len(), 1);
    assert!(list.stopped.unwrap().to_string().contains("it sends the same page twice"));
    assert_eq!(looping.asked("skills/list").len(), 2);
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn what_is_no_answer_is_told() {
    for scenario in ["no-list", "other-answer"] {
        let lying = Lying::new(scenario);
        let odd = told(lying.connect("docs").await.skills().await);
        assert!(odd.contains("the answer of server `docs` to `skills/list` cannot be used"), "{odd}");
    }
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_server_that_hangs_is_not_waited_for() {
    let hanging = Lying::new("hang");
    let mut options = hanging.options("docs");
    options.limits.answer = Duration::from_secs(3);
    let server = Server::connect(options).await.unwrap();
    assert_eq!(told(server.skills().await), "server `docs` did not answer `skills/list` within 3 seconds");
    assert!(server.skill("skill://pdf/SKILL.md").await.is_ok(), "it may answer something else");

    let mute = Lying::new("mute");
    let mut options = mute.options("docs");
    options.limits.connect = Duration::from_secs(5);
    let failed = told(Server::connect(options).await);
    assert!(failed.contains("did not finish the handshake within 5 seconds"), "{failed}");
    assert!(failed.contains("I have nothing to say."), "{failed}");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_server_that_dies_says_why() {
    let failed = told(Server::connect(Lying::new("dies").options("docs")).await);
    assert!(
        failed.contains("cannot reach server `docs`") && failed.contains("no such database[2J"),
        "{failed}"
    );
    let nothing =
        ServerOptions::new("docs".parse().unwrap(), Connection::command("no-such-program", [""; 0]));
    assert!(told(Server::connect(nothing).await).contains("cannot start `no-such-program`"));
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_huge_answer_is_not_read() {
    let huge = Lying::new("huge");
    let failed = told(huge.connect("docs").await.skills().await);
    assert!(failed.contains("one of its messages is too long"), "{failed}");

    for huge in [Lying::new("huge"), Lying::new("huge").flag("--json")] {
        let (_serving, url) = huge.serve();
        let connection = Connection::http(url.parse().unwrap(), None);
        let mut options = ServerOptions::new("docs".parse().unwrap(), connection);
        options.limits.answer = PATIENCE;
        let failed = told(Server::connect(options).await.unwrap().skills().await);
        assert!(failed.contains("a message is too long"), "it is told at once: {failed}");
    }
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn older_revisions_are_spoken() {
    for revision in ["2025-06-18", "2025-11-25"] {
        let lying = Lying::new("honest").with("--revision", revision);
        let server = lying.connect("docs").await;
        assert_eq!(server.revision(), revision);
        assert!(server.has_tools());
        // This SDK declares extensions to clients of the newest revision alone.
        assert!(!server.has_skills());
        let (_serving, url) = lying.serve();
        let connection = Connection::http(url.parse().unwrap(), None);
        let server = Server::connect(ServerOptions::new("docs".parse().unwrap(), connection)).await.unwrap();
        assert_eq!(server.revision(), revision);
    }
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn changes_are_heard_of() {
    for revision in ["2025-06-18", "2026-07-28"] {
        let lying = Lying::new("honest").with("--revision", revision);
        let server = lying.connect("docs").await;
        let mut changes = server.changes();
        // A server remembers whom to tell when it was asked something.
        let _ = server.skill("skill://pdf/SKILL.md").await;
        lying.control("changed");
        tokio::time::timeout(PATIENCE, changes.changed()).await.expect(revision).unwrap();
    }
}

fn text(result: &prowess_mcp::rmcp::model::CallToolResult) -> String {
    let result = serde_json::to_value(result).unwrap();
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_program_finds_what_it_is_given_and_none_of_our_keys() {
    let lying = Lying::new("honest");
    let mut options = lying.options("docs");
    if let Connection::Command { env, .. } = &mut options.connection {
        env.insert("GIVEN".into(), "1".into());
    }
    let server = Server::connect(options).await.unwrap();
    let found = text(&server.call_tool("environment", serde_json::Map::new()).await.unwrap());
    let found: Vec<&str> = found.split(' ').collect();
    assert!(found.contains(&"GIVEN") && found.contains(&"PATH"), "{found:?}");
    // This process has those of Cargo, as it might have keys.
    assert!(std::env::vars().any(|(name, _)| name.starts_with("CARGO")));
    assert!(!found.iter().any(|name| name.starts_with("CARGO") || name.starts_with("PROWESS")), "{found:?}");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_program_ends_with_us_and_so_do_its_children() {
    let lying = Lying::new("honest");
    let server = lying.connect("docs").await;
    let processes = text(&server.call_tool("children", serde_json::Map::new()).await.unwrap());
    drop(server);
    let is_alive = |process: &str| {
        let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    let begun = std::time::Instant::now();
    while processes.split(' ').any(is_alive) {
        assert!(begun.elapsed() < PATIENCE, "{processes} go on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
