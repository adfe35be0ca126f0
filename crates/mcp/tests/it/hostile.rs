//! Files that are not what they seem, and skills that change under a server's hands.

use std::os::unix::fs::symlink;

use prowess_catalog::{Catalog, Root, ScanOptions, Trust};
use prowess_mcp::{LiveSkills, SkillServer};
use prowess_permission::Decision;
use prowess_skills::SkillSession;
use serde_json::{Value, json};

use crate::client::Client;
use crate::library::Library;

async fn listed(client: &Client) -> Vec<String> {
    let listed = client.request("skills/list", json!({})).await.unwrap();
    listed["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["uri"].as_str().unwrap().to_owned())
        .collect()
}

async fn files(client: &Client, uri: &str) -> Vec<String> {
    let entry = client.request("skills/get", json!({ "uri": uri })).await.unwrap();
    let files = entry["skill"]["resources"].as_array().unwrap().clone();
    files.iter().map(|file| file["uri"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn links_lead_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::fs::write(outside.path().join("SKILL.md"), "---\nname: linked\ndescription: D. Use it.\n---\n")
        .unwrap();
    let library = Library::usual().skill("linked", "", "L.");
    symlink(outside.path().join("secret"), library.join("kit/secret")).unwrap();
    symlink(outside.path(), library.join("kit/out")).unwrap();
    symlink(library.join("greet/SKILL.md"), library.join("kit/inside.md")).unwrap();
    let client = library.client().await;
    assert_eq!(files(&client, "skill://kit/SKILL.md").await.len(), 4);
    for uri in [
        "skill://kit/secret",
        "skill://kit/out/secret",
        "skill://kit/inside.md",
        "skill://kit/%2e%2e/greet/SKILL.md",
    ] {
        assert_eq!(client.read(uri).await.unwrap_err().0, -32602, "{uri}");
    }
    // A document that became a link after it was found.
    std::fs::remove_file(library.join("linked/SKILL.md")).unwrap();
    symlink(outside.path().join("SKILL.md"), library.join("linked/SKILL.md")).unwrap();
    assert_eq!(listed(&client).await, ["skill://greet/SKILL.md", "skill://kit/SKILL.md"]);
    assert_eq!(client.read("skill://linked/SKILL.md").await.unwrap_err().0, -32602);
    // And a whole directory.
    std::fs::remove_dir_all(library.join("greet")).unwrap();
    symlink(outside.path(), library.join("greet")).unwrap();
    assert_eq!(listed(&client).await, ["skill://kit/SKILL.md"]);
    assert!(client.read("skill://greet/secret").await.is_err());
}

#[tokio::test]
async fn a_skill_that_changed_is_told_as_it_is_now_or_not_at_all() {
    let library = Library::usual();
    let client = library.client().await;
    let before = client.request("skills/get", json!({"uri": "skill://kit/SKILL.md"})).await.unwrap();
    library.write("kit/scripts/say.sh", "echo other\n");
    library.write("kit/scripts/new.sh", "");
    let after = client.request("skills/get", json!({"uri": "skill://kit/SKILL.md"})).await.unwrap();
    assert_ne!(before["skill"]["resources"], after["skill"]["resources"]);
    // Another description, before anybody looked for skills again.
    library.write_skill("kit", "license: Other\n", "K.");
    let entry = client.request("skills/get", json!({"uri": "skill://kit/SKILL.md"})).await.unwrap();
    assert_eq!(entry["skill"]["frontmatter"]["license"], "Other");
    // Another name, or nothing that conforms: it is not served.
    for text in ["---\nname: other\ndescription: D.\n---\n", "---\nname: kit\n---\n", "", "\u{0}"] {
        library.write("kit/SKILL.md", text);
        assert_eq!(listed(&client).await, ["skill://greet/SKILL.md"], "{text:?}");
        let (code, _) =
            client.request("skills/get", json!({"uri": "skill://kit/SKILL.md"})).await.unwrap_err();
        assert_eq!(code, -32602);
    }
    std::fs::remove_dir_all(library.join("kit")).unwrap();
    assert_eq!(listed(&client).await, ["skill://greet/SKILL.md"]);
    assert_eq!(client.read("skill://kit/scripts/say.sh").await.unwrap_err().0, -32602);
}

#[tokio::test]
async fn odd_names_are_listed_and_read() {
    let names = [
        "a b.md",
        "50%.txt",
        "ä.md",
        "q?x=1#y",
        "[x]",
        "co\u{202e}lor",
        ".hidden",
        "new\nline",
        "-rf",
        "C:\\x",
    ];
    let library = Library::usual();
    for (number, name) in names.iter().enumerate() {
        library.write(&format!("kit/odd/{name}"), number.to_string());
    }
    let client = library.client().await;
    let mut found = 0;
    for uri in files(&client, "skill://kit/SKILL.md").await.iter().filter(|uri| uri.contains("/odd/")) {
        assert!(uri.is_ascii(), "{uri}");
        let text = client.read(uri).await.unwrap()["text"].as_str().unwrap().to_owned();
        assert!(text.parse::<usize>().unwrap() < names.len());
        found += 1;
    }
    assert_eq!(found, names.len());
    let children =
        client.request("resources/directory/read", json!({"uri": "skill://kit/odd"})).await.unwrap();
    assert_eq!(children["resources"].as_array().unwrap().len(), names.len());
}

#[tokio::test]
async fn what_is_no_regular_file_is_no_file_of_a_skill() {
    let library = Library::usual();
    let made = std::process::Command::new("mkfifo").arg(library.join("kit/pipe")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(library.join("kit/socket")).unwrap();
    library.write("kit/.git/config", "secret");
    library.write("kit/__pycache__/x.pyc", "");
    let client = library.client().await;
    assert_eq!(files(&client, "skill://kit/SKILL.md").await.len(), 4);
    for name in ["pipe", "socket", ".git/config", "__pycache__/x.pyc"] {
        assert_eq!(client.read(&format!("skill://kit/{name}")).await.unwrap_err().0, -32602, "{name}");
    }
}

#[tokio::test]
async fn untrusted_and_denied_skills_are_not_served() {
    let (library, foreign) = (Library::usual(), Library::new().skill("foreign", "", "F."));
    let mut untrusted = Root::explicit(foreign.path());
    untrusted.trust = Trust::Untrusted;
    let catalog = Catalog::discover(&[untrusted, Root::explicit(library.path())], &ScanOptions::default());
    assert_eq!(catalog.untrusted().len(), 1);
    let session = SkillSession::builder(catalog.clone()).permissions(crate::library::permissions(&[(
        "skill",
        "kit",
        Decision::Deny,
    )]));
    let client = Client::newest(SkillServer::new(LiveSkills::new(catalog), session.build().await)).await;
    assert_eq!(listed(&client).await, ["skill://greet/SKILL.md"]);
    let prompts = client.request("prompts/list", json!({})).await.unwrap();
    assert_eq!(prompts["prompts"].as_array().unwrap().len(), 1);
    for name in ["kit", "foreign"] {
        let uri = format!("skill://{name}/SKILL.md");
        assert_eq!(client.read(&uri).await.unwrap_err().0, -32602);
        assert_eq!(client.request("skills/get", json!({ "uri": uri })).await.unwrap_err().0, -32602);
        let loaded = client.call("load_skill", json!({"skill_name": name})).await;
        assert_eq!(
            loaded["content"][0]["text"],
            format!("Error: Skill '{name}' not found. Available skills: greet")
        );
        assert_eq!(client.request("prompts/get", json!({"name": name})).await.unwrap_err().0, -32602);
    }
    let whole: Value = client.info.clone();
    assert!(!whole.to_string().contains("foreign") && !whole.to_string().contains("kit"));
}
