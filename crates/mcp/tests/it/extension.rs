//! The Skills extension: each requirement that falls on a server, by its number.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prowess_catalog::{Digest, ScanOptions};
use prowess_mcp::{MAX_SERVED_FILES, SKILLS_EXTENSION};
use prowess_permission::Decision;
use prowess_skills::Dialect;
use serde_json::{Value, json};

use crate::client::{Client, NEWEST, OLDER};
use crate::library::Library;

async fn list(client: &Client) -> Vec<Value> {
    let listed = client.request("skills/list", json!({})).await.unwrap();
    listed["skills"].as_array().unwrap().clone()
}

async fn get(client: &Client, uri: &str) -> Result<Value, (i64, String)> {
    Ok(client.request("skills/get", json!({"uri": uri})).await?["skill"].clone())
}

async fn directory(client: &Client, uri: &str) -> Result<Vec<Value>, (i64, String)> {
    let read = client.request("resources/directory/read", json!({"uri": uri})).await?;
    assert_eq!(read["resultType"], "complete");
    assert!(read["ttlMs"].is_u64() && read["cacheScope"].is_string());
    Ok(read["resources"].as_array().unwrap().clone())
}

fn bytes(contents: &Value) -> Vec<u8> {
    match contents["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => STANDARD.decode(contents["blob"].as_str().unwrap()).unwrap(),
    }
}

fn uris(entry: &Value) -> Vec<&str> {
    entry["resources"].as_array().unwrap().iter().map(|file| file["uri"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn x_01_the_extension_is_declared_with_resources() {
    let library = Library::usual();
    for revision in [OLDER[0], OLDER[1], NEWEST] {
        let client = Client::connect(library.server(&[]).await, revision, json!({})).await;
        let capabilities = &client.info["capabilities"];
        assert_eq!(capabilities["extensions"][SKILLS_EXTENSION], json!({"directoryRead": true}));
        assert!(capabilities["resources"].is_object());
    }
}

#[tokio::test]
async fn x_02_its_methods_are_there_in_every_revision() {
    let library = Library::usual();
    for revision in [OLDER[0], OLDER[1], NEWEST] {
        let client = Client::connect(library.server(&[]).await, revision, json!({})).await;
        assert_eq!(list(&client).await.len(), 2);
        get(&client, "skill://kit/SKILL.md").await.unwrap();
        directory(&client, "skill://kit").await.unwrap();
    }
}

#[tokio::test]
async fn x_03_what_breaches_the_specification_is_not_served() {
    let library = Library::usual()
        .file("Loud_Name/SKILL.md", "---\nname: Loud_Name\ndescription: D.\n---\n")
        .file("elsewhere/SKILL.md", "---\nname: moved\ndescription: D.\n---\n")
        .file("repaired/SKILL.md", "---\nname: repaired\ndescription: Use when: it fails\n---\n")
        .file("twice/SKILL.md", "---\nname: twice\nname: twice\ndescription: D.\n---\n");
    let server = library.server(&[]).await;
    let unserved: BTreeSet<String> = server.unserved().await.into_iter().map(|skill| skill.name).collect();
    assert_eq!(unserved, ["Loud_Name", "moved", "repaired", "twice"].map(str::to_owned).into());
    let client = Client::newest(server).await;
    assert_eq!(list(&client).await.len(), 2);
    for name in unserved {
        assert_eq!(get(&client, &format!("skill://{name}/SKILL.md")).await.unwrap_err().0, -32602);
        // The tools go on as they do elsewhere: leniently.
        let loaded = client.call("load_skill", json!({"skill_name": name})).await;
        assert_ne!(loaded["isError"], true, "{name}");
    }
}

#[tokio::test]
async fn x_04_the_last_segment_is_the_name() {
    let library = Library::usual().skill("größe", "", "Measure.");
    let client = library.client().await;
    for entry in list(&client).await {
        let name = entry["frontmatter"]["name"].as_str().unwrap();
        assert_eq!(entry["uri"], format!("skill://{name}/SKILL.md"));
        assert!(uris(&entry).iter().all(|uri| uri.starts_with(&format!("skill://{name}/"))));
    }
    client.read("skill://größe/SKILL.md").await.unwrap();
    client.read("skill://gr%C3%B6%C3%9Fe/SKILL.md").await.unwrap();
}

#[tokio::test]
async fn x_05_resources_say_what_they_are() {
    let library = Library::usual();
    let client = library.client().await;
    let listed = client.request("resources/list", json!({})).await.unwrap();
    let kit = listed["resources"].as_array().unwrap().iter().find(|found| found["name"] == "kit").unwrap();
    assert_eq!(kit["uri"], "skill://kit/SKILL.md");
    assert_eq!(
        (&kit["mimeType"], &kit["description"]),
        (&json!("text/markdown"), &json!("Looks after kit."))
    );
    assert!(kit["_meta"].is_null());
    assert_eq!(client.read("skill://kit/assets/logo.png").await.unwrap()["mimeType"], "image/png");
    assert_eq!(client.read("skill://kit/scripts/say.sh").await.unwrap()["mimeType"], "application/x-sh");
}

#[tokio::test]
async fn x_06_entries_have_every_field_and_every_file_as_it_is() {
    let library = Library::usual().skill(
        "typed",
        "metadata:\n  yes: yes\n  on: true\n  none: ~\n  day: 2024-01-01\nallowed-tools: Read Bash(git:*)\nunheard-of: {a: b, list: [1, '1', 1.5]}\n",
        "T.",
    );
    let server = library.server(&[]).await;
    assert_eq!(server.unserved().await, []);
    let client = Client::newest(server).await;
    let listed = list(&client).await;
    let typed = listed.iter().find(|entry| entry["frontmatter"]["name"] == "typed").unwrap();
    assert_eq!(
        typed["frontmatter"],
        json!({"name": "typed", "description": "Looks after typed.", "allowed-tools": "Read Bash(git:*)",
            "unheard-of": {"a": "b", "list": [1, "1", 1.5]},
            "metadata": {"yes": "yes", "on": true, "none": null, "day": "2024-01-01"}})
    );
    let kit = listed.iter().find(|entry| entry["frontmatter"]["name"] == "kit").unwrap();
    assert_eq!(kit["frontmatter"]["metadata"], json!({"version": 1.1, "tag": "007"}));
    assert_eq!(
        uris(kit),
        [
            "skill://kit/SKILL.md",
            "skill://kit/assets/logo.png",
            "skill://kit/references/deep/notes.md",
            "skill://kit/scripts/say.sh"
        ]
    );
    for entry in &listed {
        // Their order depends on what else is built.
        let keys: BTreeSet<&str> = entry.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(["frontmatter", "resources", "uri"]));
        for file in entry["resources"].as_array().unwrap() {
            let read = bytes(&client.read(file["uri"].as_str().unwrap()).await.unwrap());
            assert_eq!(file["digest"], Digest::of(&read).to_string());
            assert_eq!(file["size"], read.len());
        }
    }
}

#[tokio::test]
async fn x_07_a_skill_beyond_the_limits_is_not_served_and_said_to_be_so() {
    let library = Library::usual().skill("many", "", "M.").skill("large", "", "L.").skill("full", "", "F.");
    for number in 0..MAX_SERVED_FILES {
        library.write(&format!("many/{number}.txt"), "");
    }
    for number in 1..MAX_SERVED_FILES {
        library.write(&format!("full/{number}.txt"), "");
    }
    library.write("large/data.bin", vec![0; 16 * 1024 * 1024]);
    let server = library.server(&[]).await;
    let unserved: Vec<String> =
        server.unserved().await.into_iter().map(|skill| format!("{}: {}", skill.name, skill.why)).collect();
    assert_eq!(unserved, ["large: more than 16777216 bytes", "many: more than 512 files"]);
    let client = Client::newest(server).await;
    let names: Vec<Value> =
        list(&client).await.iter().map(|entry| entry["frontmatter"]["name"].clone()).collect();
    assert_eq!(names, ["full", "greet", "kit"]);
    for uri in ["skill://large/SKILL.md", "skill://many/SKILL.md"] {
        assert_eq!(get(&client, uri).await.unwrap_err().0, -32602);
        assert_eq!(client.read(uri).await.unwrap_err().0, -32602);
        assert_eq!(directory(&client, uri.trim_end_matches("/SKILL.md")).await.unwrap_err().0, -32602);
    }
    assert_eq!(uris(&get(&client, "skill://full/SKILL.md").await.unwrap()).len(), MAX_SERVED_FILES);
}

#[tokio::test]
async fn x_08_lists_come_in_pages_of_whole_entries() {
    let library = Library::new();
    for number in 0..120 {
        library.write_skill(&format!("s{number:03}"), "", "S.");
    }
    let client = library.client().await;
    let (mut names, mut cursor) = (Vec::new(), Value::Null);
    for _ in 0..10 {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = client.request("skills/list", params).await.unwrap();
        assert_eq!(page["resultType"], "complete");
        assert!(page["ttlMs"].is_u64());
        assert_eq!(page["cacheScope"], "private");
        for entry in page["skills"].as_array().unwrap() {
            assert_eq!(uris(entry).len(), 1);
            names.push(entry["frontmatter"]["name"].as_str().unwrap().to_owned());
        }
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
        // What goes meanwhile shifts nothing.
        let _ = std::fs::remove_dir_all(library.join("s000"));
    }
    let all: Vec<String> = (0..120).map(|number| format!("s{number:03}")).collect();
    assert_eq!(names, all);
}

#[tokio::test]
async fn x_09_get_gives_the_entry_of_the_list_and_nothing_else() {
    let library = Library::usual();
    let client = library.client().await;
    let listed = list(&client).await;
    assert_eq!(listed.len(), 2);
    for entry in listed {
        let got = client.request("skills/get", json!({"uri": entry["uri"]})).await.unwrap();
        assert_eq!(got["skill"], entry);
        assert_eq!(got["resultType"], "complete");
        assert!(got["ttlMs"].is_u64() && got["cacheScope"].is_string());
    }
    for uri in [
        "skill://none/SKILL.md",
        "skill://kit",
        "skill://kit/scripts/say.sh",
        "skill://kit/SKILL.md/",
        "skill://kit/skill.md",
        "skill://KIT/SKILL.md",
        "kit/SKILL.md",
        "file:///etc/passwd",
        "",
    ] {
        assert_eq!(get(&client, uri).await.unwrap_err().0, -32602, "{uri}");
    }
    assert_eq!(client.request("skills/get", json!({})).await.unwrap_err().0, -32602);
    assert_eq!(client.request("skills/get", json!({"uri": 7})).await.unwrap_err().0, -32602);
}

#[tokio::test]
async fn x_10_directories_give_their_direct_children() {
    let library = Library::usual();
    std::fs::create_dir(library.join("kit/empty")).unwrap();
    let client = library.client().await;
    let children = |found: Vec<Value>| -> Vec<String> {
        found
            .iter()
            .map(|child| {
                format!("{} {}", child["uri"].as_str().unwrap(), child["mimeType"].as_str().unwrap())
            })
            .collect()
    };
    assert_eq!(
        children(directory(&client, "skill://kit").await.unwrap()),
        [
            "skill://kit/SKILL.md text/markdown",
            "skill://kit/assets inode/directory",
            "skill://kit/empty inode/directory",
            "skill://kit/references inode/directory",
            "skill://kit/scripts inode/directory"
        ]
    );
    assert_eq!(
        children(directory(&client, "skill://kit/references").await.unwrap()),
        ["skill://kit/references/deep inode/directory"]
    );
    let deep = directory(&client, "skill://kit/references/deep").await.unwrap();
    assert_eq!(
        deep,
        [
            json!({"uri": "skill://kit/references/deep/notes.md", "name": "notes.md", "mimeType": "text/markdown", "size": 9})
        ]
    );
    assert!(directory(&client, "skill://kit/empty").await.unwrap().is_empty());
    for uri in [
        "skill://kit/",
        "skill://kit/SKILL.md",
        "skill://kit/gone",
        "skill://none",
        "skill://",
        "skill://kit/references/",
        "skill://kit/..",
    ] {
        assert_eq!(directory(&client, uri).await.unwrap_err().0, -32602, "{uri}");
    }
}

#[tokio::test]
async fn x_11_what_is_unknown_and_what_fails_have_their_codes() {
    let library = Library::usual();
    for revision in [OLDER[0], OLDER[1], NEWEST] {
        let client = Client::connect(library.server(&[]).await, revision, json!({})).await;
        for uri in [
            "skill://kit/gone.md",
            "skill://none/SKILL.md",
            "skill://kit",
            "skill://kit/scripts",
            "run://1/x",
        ] {
            assert_eq!(client.read(uri).await.unwrap_err().0, -32602, "{uri}");
        }
    }
}

#[tokio::test]
async fn x_12_nested_skills_are_entries_of_their_own() {
    let library = Library::usual()
        .skill("kit/inner", "", "I.")
        .file("kit/inner/SKILL.md", "---\nname: inner\ndescription: D. Use it.\n---\nI.\n")
        .file("kit/inner/a.md", "A");
    let mut options = ScanOptions::default();
    options.nested = true;
    let client = Client::newest(library.server_with(Dialect::DeepAgents, &options, &[]).await).await;
    let addresses: Vec<Value> = list(&client).await.iter().map(|entry| entry["uri"].clone()).collect();
    assert_eq!(addresses, ["skill://greet/SKILL.md", "skill://kit/inner/SKILL.md", "skill://kit/SKILL.md"]);
    let (outer, inner) = (
        get(&client, "skill://kit/SKILL.md").await.unwrap(),
        get(&client, "skill://kit/inner/SKILL.md").await.unwrap(),
    );
    assert_eq!(uris(&inner), ["skill://kit/inner/SKILL.md", "skill://kit/inner/a.md"]);
    // To the skill around it they are files like any others.
    assert!(uris(&inner).iter().all(|uri| uris(&outer).contains(uri)));
    assert_eq!(client.read("skill://kit/inner/a.md").await.unwrap()["text"], "A");

    // Denied, it is in neither.
    let rules = [("skill", "inner", Decision::Deny)];
    let client = Client::newest(library.server_with(Dialect::DeepAgents, &options, &rules).await).await;
    let outer = get(&client, "skill://kit/SKILL.md").await.unwrap();
    assert!(!uris(&outer).iter().any(|uri| uri.contains("inner")));
    assert_eq!(client.read("skill://kit/inner/a.md").await.unwrap_err().0, -32602);
    assert_eq!(directory(&client, "skill://kit/inner").await.unwrap_err().0, -32602);
    assert!(!directory(&client, "skill://kit").await.unwrap().iter().any(|child| child["name"] == "inner"));
}

#[tokio::test]
async fn x_13_without_the_extension_they_are_ordinary_resources() {
    let library = Library::usual();
    let client = Client::connect(library.server(&[]).await, OLDER[0], json!({})).await;
    let listed = client.request("resources/list", json!({})).await.unwrap();
    assert_eq!(listed["resources"].as_array().unwrap().len(), 2);
    let templates = client.request("resources/templates/list", json!({})).await.unwrap();
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "skill://{skill}/{+file}");
    assert_eq!(client.read("skill://kit/references/deep/notes.md").await.unwrap()["text"], "# Notes\r\n");
}
