//! What a server may take, of time and of room.

use std::time::Duration;

use prowess_mcp::host::{Connection, Server, ServerOptions};

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
    assert!(list.stopped.unwrap().to_string().contains("a page comes again"));
    assert_eq!(looping.asked("skills/list").len(), 2);
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn what_is_no_answer_is_told() {
    for scenario in ["no-list", "other-answer"] {
        let lying = Lying::new(scenario);
        let odd = told(lying.connect("docs").await.skills().await);
        assert!(odd.contains("server `docs` gave an answer to `skills/list` that cannot be used"), "{odd}");
    }
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_server_that_hangs_is_not_waited_for() {
    let hanging = Lying::new("hang");
    let mut options = hanging.options("docs");
    options.limits.answer = Duration::from_millis(300);
    let server = Server::connect(options).await.unwrap();
    assert_eq!(told(server.skills().await), "server `docs` did not answer `skills/list` within 0.3 seconds");
    assert!(server.skill("skill://pdf/SKILL.md").await.is_ok(), "it may answer something else");

    let mute = Lying::new("mute");
    let mut options = mute.options("docs");
    options.limits.connect = Duration::from_secs(3);
    let failed = told(Server::connect(options).await);
    assert!(failed.contains("did not say hello within 3 seconds"), "{failed}");
    assert!(failed.contains("I have nothing to say."), "{failed}");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_server_that_dies_says_why() {
    let failed = told(Server::connect(Lying::new("dies").options("docs")).await);
    assert!(
        failed.contains("server `docs` cannot be reached") && failed.contains("no such database[2J"),
        "{failed}"
    );
    let nothing =
        ServerOptions::new("docs".parse().unwrap(), Connection::command("no-such-program", [""; 0]));
    assert!(told(Server::connect(nothing).await).contains("`no-such-program` cannot be started"));
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn a_huge_answer_is_not_read() {
    let huge = Lying::new("huge");
    let failed = told(huge.connect("docs").await.skills().await);
    assert!(failed.contains("one of its messages is too long"), "{failed}");

    let (_serving, url) = huge.serve();
    let mut options =
        ServerOptions::new("docs".parse().unwrap(), Connection::http(url.parse().unwrap(), None));
    options.limits.answer = PATIENCE;
    let begun = std::time::Instant::now();
    let failed = told(Server::connect(options).await.unwrap().skills().await);
    assert!(failed.contains("too long") || failed.contains("maximum"), "{failed}");
    assert!(begun.elapsed() < PATIENCE, "it is told at once");
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
