//! Tools, prompts, resources and notifications.

use prowess_skills::Dialect;
use serde_json::json;

use crate::client::{Client, NEWEST, OLDER};
use crate::library::Library;

#[tokio::test]
async fn every_revision_lists_calls_and_reads() {
    for revision in [OLDER[0], OLDER[1], NEWEST] {
        let library = Library::usual();
        let client = Client::connect(library.server(&[]).await, revision, json!({})).await;
        if revision != NEWEST {
            assert_eq!(client.info["protocolVersion"], revision);
            assert_eq!(client.info["serverInfo"]["name"], "prowess");
        }
        assert!(client.info["instructions"].as_str().unwrap().contains("- **kit**: Looks after kit."));
        let tools = client.request("tools/list", json!({})).await.unwrap();
        let names: Vec<&str> =
            tools["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["load_skill", "unload_skill"]);
        assert_eq!(
            tools["tools"][0]["inputSchema"]["properties"]["skill_name"]["enum"],
            json!(["greet", "kit"])
        );

        let loaded = client.call("load_skill", json!({"skill_name": "kit"})).await;
        assert_ne!(loaded["isError"], true);
        let text = loaded["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("Use `scripts/say.sh`.") && text.contains("<skill name=\"kit\""), "{text}");
        let missing = client.call("load_skill", json!({"skill_name": "none"})).await;
        assert_eq!(missing["isError"], true);
        assert!(
            missing["content"][0]["text"].as_str().unwrap().starts_with("Error: Skill 'none' not found.")
        );
        let unloaded = client.call("unload_skill", json!({"skill_name": "kit"})).await;
        assert_ne!(unloaded["isError"], true);

        let (code, _) =
            client.request("tools/call", json!({"name": "rm", "arguments": {}})).await.unwrap_err();
        assert_eq!(code, -32602);
        let file = client.read("skill://kit/scripts/say.sh").await.unwrap();
        assert_eq!(file["text"], "echo said\n");
    }
}

#[tokio::test]
async fn a_session_is_one_client_s() {
    let library = Library::usual();
    let (one, other) = (library.client().await, library.client().await);
    one.call("load_skill", json!({"skill_name": "kit"})).await;
    let again = one.call("load_skill", json!({"skill_name": "kit"})).await;
    assert!(again["content"][0]["text"].as_str().unwrap().contains("already loaded"));
    let first = other.call("load_skill", json!({"skill_name": "kit"})).await;
    assert!(first["content"][0]["text"].as_str().unwrap().contains("Use `scripts/say.sh`."));
}

#[tokio::test]
async fn each_dialect_has_its_tools_and_gives_the_text_in_its_answer() {
    for (dialect, tool, argument) in [
        (Dialect::DeepAgents, "load_skill", "skill_name"),
        (Dialect::Trpc, "skill_load", "skill"),
        (Dialect::OpenCode, "skill", "name"),
    ] {
        let library = Library::usual();
        let server = library.server_with(dialect, &Default::default(), &[]).await;
        let client = Client::newest(server).await;
        let tools = client.request("tools/list", json!({})).await.unwrap();
        assert!(tools["tools"].as_array().unwrap().iter().any(|found| found["name"] == tool));
        // Where the overview is in a tool's description, it is not in the instructions as well.
        let has_overview = client.info["instructions"].as_str().is_some_and(|text| text.contains("kit"));
        assert_eq!(has_overview, dialect != Dialect::OpenCode);
        let loaded = client.call(tool, json!({ argument: "kit" })).await;
        assert!(
            loaded["content"][0]["text"].as_str().unwrap().contains("Use `scripts/say.sh`."),
            "{dialect:?}"
        );
    }
}

#[tokio::test]
async fn a_person_starts_skills_by_prompts() {
    let library = Library::usual().skill("hidden", "user-invocable: false\n", "No.").skill(
        "ship",
        "arguments:\n  - what\n  - where\ndisable-model-invocation: true\n",
        "Ship $what to $where.",
    );
    for revision in [OLDER[0], OLDER[1], NEWEST] {
        let client = Client::connect(library.server(&[]).await, revision, json!({})).await;
        let listed = client.request("prompts/list", json!({})).await.unwrap();
        let names: Vec<_> = listed["prompts"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
        assert_eq!(names, ["greet", "kit", "ship"]);
        assert_eq!(
            listed["prompts"][0]["arguments"][0],
            json!({"name": "arguments", "description": "[who]", "required": false})
        );
        let text =
            |answer: serde_json::Value| answer["messages"][0]["content"]["text"].as_str().unwrap().to_owned();
        let get = async |name: &str, arguments: serde_json::Value| {
            client.request("prompts/get", json!({"name": name, "arguments": arguments})).await
        };
        let greeting = text(get("greet", json!({"arguments": "the  \"world\""})).await.unwrap());
        assert!(greeting.contains("Wave at the  \"world\"."), "{greeting}");
        assert!(greeting.contains("<skill name=\"greet\""));
        let again = text(get("greet", json!({"arguments": "me"})).await.unwrap());
        assert!(again.contains("Wave at me."), "{again}");
        let shipped = text(get("ship", json!({"where": "the \"moon\\", "what": "a box"})).await.unwrap());
        assert!(shipped.contains("Ship a box to the \"moon\\."), "{shipped}");
        for (name, arguments) in
            [("hidden", json!({})), ("none", json!({})), ("ship", json!({"who": "x"})), ("../kit", json!({}))]
        {
            assert_eq!(get(name, arguments).await.unwrap_err().0, -32602, "{name}");
        }
    }
}

#[tokio::test]
async fn changes_on_disk_are_told_and_served() {
    for revision in [OLDER[0], OLDER[1], NEWEST] {
        let library = Library::usual();
        let (server, _watching) = library.watched().await;
        let client = Client::connect(server, revision, json!({})).await;
        if revision == NEWEST {
            let wanted =
                json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
            let _never_answered =
                client.begin("subscriptions/listen", json!({"notifications": wanted})).await;
            client.heard("notifications/subscriptions/acknowledged").await;
        }
        library.write_skill("newer", "", "New.");
        client.heard("notifications/tools/list_changed").await;
        client.heard("notifications/prompts/list_changed").await;
        let tools = client.request("tools/list", json!({})).await.unwrap();
        let names = &tools["tools"][0]["inputSchema"]["properties"]["skill_name"]["enum"];
        assert_eq!(names, &json!(["greet", "kit", "newer"]));
        assert_eq!(client.read("skill://newer/SKILL.md").await.unwrap()["mimeType"], "text/markdown");
        // A file that no catalog knows is a change of resources.
        library.write("newer/references/more.md", "More.");
        client.heard("notifications/resources/list_changed").await;
    }
}

#[tokio::test]
async fn a_client_of_the_newest_revision_hears_only_what_it_asked_for() {
    let library = Library::usual();
    let (server, _watching) = library.watched().await;
    let client = Client::newest(server).await;
    let _listening =
        client.begin("subscriptions/listen", json!({"notifications": {"promptsListChanged": true}})).await;
    client.heard("notifications/subscriptions/acknowledged").await;
    library.write_skill("newer", "", "New.");
    let told = client.heard("notifications/prompts/list_changed").await;
    assert!(told["params"]["_meta"].is_object(), "{told}");
}

#[tokio::test]
async fn lists_that_are_whole_have_no_second_page() {
    let library = Library::usual();
    let client = library.client().await;
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list"]
    {
        let (code, _) = client.request(method, json!({"cursor": "nonsense"})).await.unwrap_err();
        assert_eq!(code, -32602, "{method}");
    }
    assert_eq!(client.request("skills/dance", json!({})).await.unwrap_err().0, -32601);
}
