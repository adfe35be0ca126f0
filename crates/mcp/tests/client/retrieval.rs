//! Skills that are listed, retrieved and verified.

use prowess_mcp::client::{Connection, HeldEntry, Mismatch, Server, ServerError, ServerOptions, Unverified};

use crate::lying::{Lying, told};

const SKILL: &str = "skill://pdf/SKILL.md";
const GUIDE: &str = "docs/guide.md";

async fn held(server: &Server) -> HeldEntry {
    HeldEntry::from(&server.skills().await.unwrap().offers[0])
}

fn mismatch<T: std::fmt::Debug>(result: Result<T, ServerError>) -> Mismatch {
    match result.unwrap_err() {
        ServerError::Unverified(Unverified { mismatch, .. }) => mismatch,
        other => panic!("it is no failed verification: {other}"),
    }
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn an_honest_server_is_read() {
    let lying = Lying::new("honest");
    let server = lying.connect("docs").await;
    assert_eq!(server.revision(), "2026-07-28");
    let list = server.skills().await.unwrap();
    assert!(list.refused.is_empty() && list.stopped.is_none(), "{list:?}");
    let [offer] = &list.offers[..] else { panic!("{list:?}") };
    let held = HeldEntry::from(offer);
    let manifest = server.read(&held, "SKILL.md").await.unwrap();
    assert!(manifest.ends_with(b"---\nRead the guide.\n"));
    assert_eq!(server.read(&held, GUIDE).await.unwrap(), b"# Guide\n\nTurn the pages.\n");
    let picture = server.read(&held, "docs/picture.png").await.unwrap();
    assert_eq!(picture, (0..=255).collect::<Vec<u8>>(), "what is no text comes in Base64");
    assert_eq!(server.skill(SKILL).await.unwrap(), *offer);
    server.close().await;
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn an_honest_server_is_read_over_http() {
    let lying = Lying::new("honest").with("--token", "secret");
    let (_serving, url) = lying.serve();
    let options = |url: &str, token: &str| {
        let connection = Connection::http(url.parse().unwrap(), Some(token.into()));
        ServerOptions::new("docs".parse().unwrap(), connection)
    };
    let server = Server::connect(options(&url, "secret")).await.unwrap();
    let held = held(&server).await;
    assert_eq!(server.read(&held, GUIDE).await.unwrap(), b"# Guide\n\nTurn the pages.\n");
    let refused = told(Server::connect(options(&url, "wrong-secret")).await);
    assert!(refused.contains("401") && !refused.contains("wrong-secret"), "{refused}");
    let elsewhere = url.replace("/mcp", "/elsewhere");
    let redirected = told(Server::connect(options(&elsewhere, "secret")).await);
    assert!(redirected.contains("307"), "a redirect is not followed: {redirected}");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_21_a_list_is_no_proof_and_a_scheme_makes_no_skill() {
    let unlisted = Lying::new("unlisted-skill");
    let server = unlisted.connect("docs").await;
    assert!(server.skills().await.unwrap().offers.is_empty());
    let offer = server.skill(SKILL).await.unwrap();
    assert_eq!(server.read(&HeldEntry::from(&offer), GUIDE).await.unwrap().len(), 25);
    let unknown = told(server.skill("skill://other/SKILL.md").await);
    assert!(unknown.contains("refused `skills/get`") && unknown.contains("-32602"), "{unknown}");

    let plain = Lying::new("no-extension");
    let server = plain.connect("docs").await;
    assert!(!server.has_skills());
    assert!(server.skills().await.unwrap().offers.is_empty());
    assert!(told(server.skill(SKILL).await).contains("serves no skills"));
    assert_eq!(plain.log(), [""; 0], "it is not asked for what it does not serve");
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_22_an_odd_entry_is_not_loaded_and_the_others_are() {
    let lying = Lying::new("odd");
    let server = lying.connect("docs").await;
    let list = server.skills().await.unwrap();
    let offered: Vec<_> = list.offers.iter().map(|offer| offer.published.uri.as_str()).collect();
    assert_eq!(offered, [SKILL], "the one that is right");
    let refused: Vec<String> = list.refused.iter().map(ToString::to_string).collect();
    assert_eq!(refused.len(), 26, "{refused:#?}");
    for why in [
        "its entry has no list of files",
        "\"dynamic\"",
        "is listed twice",
        "at most 512",
        "more than 16 MiB",
        "its name is not the last segment",
        "leads elsewhere",
        "outside the skill's address",
        "no SHA-256 digest",
        "has no size",
        "its entry has no address",
    ] {
        assert!(refused.iter().any(|refused| refused.contains(why)), "{why}: {refused:#?}");
    }
    let is_plain = |text: &String| !text.contains(['\u{202e}', '\u{1b}', '\n']);
    assert!(refused.iter().all(is_plain), "{refused:#?}");

    let dynamic = Lying::new("dynamic");
    let server = dynamic.connect("docs").await;
    assert!(told(server.skill(SKILL).await).contains("\"dynamic\", so they cannot be verified"));
    let other = Lying::new("other-skill");
    let server = other.connect("docs").await;
    assert!(told(server.skill("skill://other/SKILL.md").await).contains("it describes another skill"));
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_23_what_is_not_as_listed_is_not_used() {
    for (scenario, expected) in [
        ("digest", Mismatch::Digest { path: GUIDE.to_owned() }),
        ("size", Mismatch::Size { path: GUIDE.to_owned(), listed: 25, got: 45 }),
    ] {
        let lying = Lying::new(scenario);
        let server = lying.connect("docs").await;
        let held = held(&server).await;
        let failed = server.read(&held, GUIDE).await;
        let text = failed.as_ref().unwrap_err().to_string();
        assert!(text.contains("failed verification") && text.contains("used nothing of it"), "{text}");
        assert_eq!(mismatch(failed), expected);
        assert!(server.read(&held, "SKILL.md").await.is_ok(), "what is right can be read");
    }
    for (scenario, why) in [
        ("address", "it has another address"),
        ("two", "it has 2 contents"),
        ("none", "it has 0 contents"),
        ("base64", "it is not Base64"),
    ] {
        let lying = Lying::new(scenario);
        let server = lying.connect("docs").await;
        let failed = mismatch(server.read(&held(&server).await, GUIDE).await);
        assert_eq!(failed, Mismatch::Contents { path: GUIDE.to_owned(), why: why.to_owned() });
    }
    // What changed at the server is another skill: the entry is refreshed by whoever loads, and by nobody else.
    let lying = Lying::new("honest");
    let server = lying.connect("docs").await;
    let held = held(&server).await;
    lying.control("changed");
    let failed = mismatch(server.read(&held, "SKILL.md").await);
    assert!(failed.may_be_outdated(), "{failed}");
    assert!(lying.asked("skills/get").is_empty());
    let refreshed = HeldEntry::from(&server.skill(SKILL).await.unwrap());
    assert_ne!(refreshed.published().digest(), held.published().digest());
    assert!(server.read(&refreshed, "SKILL.md").await.unwrap().ends_with(b"Do something else entirely.\n"));
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_24_frontmatter_that_differs_fails_verification() {
    for (scenario, field) in [
        ("frontmatter-value", "description"),
        ("frontmatter-type", "metadata"),
        ("frontmatter-missing", "metadata"),
        ("frontmatter-more", "license"),
    ] {
        let lying = Lying::new(scenario);
        let server = lying.connect("docs").await;
        let failed = mismatch(server.read(&held(&server).await, "SKILL.md").await);
        assert_eq!(failed, Mismatch::Frontmatter { field: field.to_owned() }, "{scenario}");
    }
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_25_a_file_that_is_not_listed_is_not_asked_for() {
    let lying = Lying::new("honest");
    let server = lying.connect("docs").await;
    let held = held(&server).await;
    for path in ["docs/secret.md", "../pdf/SKILL.md", "SKILL.md/", "./SKILL.md", "docs", ""] {
        let failed = mismatch(server.read(&held, path).await);
        assert_eq!(failed, Mismatch::Unlisted { path: path.to_owned() });
    }
    assert!(lying.asked("resources/").is_empty(), "{:?}", lying.log());
}

#[tokio::test]
#[ignore = "make mcp runs it: it needs the Python SDK"]
async fn x_20_an_entry_is_of_one_server_and_no_other_is_asked() {
    let (one, two) = (Lying::new("honest"), Lying::new("honest"));
    let (first, second) = (one.connect("one").await, two.connect("two").await);
    let (of_one, of_two) = (held(&first).await, held(&second).await);
    assert_eq!(of_one.published().uri, of_two.published().uri);
    assert_ne!(of_one.published().digest(), of_two.published().digest());
    let crossed = told(second.read(&of_one, GUIDE).await);
    assert!(crossed.contains("it belongs to server `one`"), "{crossed}");
    assert!(two.asked("resources/").is_empty());
}
