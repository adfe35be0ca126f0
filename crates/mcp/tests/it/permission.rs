//! Questions of the gate, put to the person behind a client.

use prowess_mcp::{LiveSkills, SkillServer, session_options};
use prowess_permission::Decision::{Ask, Deny};
use prowess_permission::{Rule, RuleSource};
use prowess_skills::{Dialect, SkillSession};
use serde_json::json;

use crate::client::{Client, NEWEST, OLDER, decided};
use crate::library::{Library, permissions};

/// A client whose person is asked before `kit` is loaded.
async fn asked(library: &Library, revision: &'static str) -> Client {
    let server = library.server(&[("skill", "kit", Ask)]).await;
    Client::connect(server, revision, json!({"elicitation": {}})).await
}

#[tokio::test]
async fn a_person_approves_or_rejects_in_every_revision() {
    let library = Library::usual();
    for revision in [OLDER[0], OLDER[1], NEWEST] {
        let client = asked(&library, revision).await;
        let reject = json!({"action": "accept", "content": {"decision": "no", "reason": "not now"}});
        client.will_reply([
            reject,
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
            decided("once"),
        ]);
        let refused = client.call("load_skill", json!({"skill_name": "kit"})).await;
        assert_eq!(refused["isError"], true);
        assert!(refused["content"][0]["text"].as_str().unwrap().contains("not now"), "{refused}");
        for _ in 0..2 {
            assert_eq!(client.call("load_skill", json!({"skill_name": "kit"})).await["isError"], true);
        }
        let loaded = client.call("load_skill", json!({"skill_name": "kit"})).await;
        assert!(loaded["content"][0]["text"].as_str().unwrap().contains("Use `scripts/say.sh`."), "{loaded}");

        let forms = client.forms.lock().unwrap().clone();
        assert_eq!(forms.len(), 4);
        assert!(forms[0]["message"].as_str().unwrap().starts_with("Permission is needed: load the skill '"));
        assert_eq!(
            forms[0]["requestedSchema"]["properties"]["decision"]["enum"],
            json!(["once", "always", "no"])
        );
    }
}

#[tokio::test]
async fn always_is_not_asked_again() {
    let library = Library::usual();
    for revision in [OLDER[1], NEWEST] {
        let client = asked(&library, revision).await;
        client.will_reply([decided("always")]);
        for uri in ["skill://kit/SKILL.md", "skill://kit/scripts/say.sh"] {
            client.read(uri).await.unwrap();
        }
        client.call("load_skill", json!({"skill_name": "kit"})).await;
        assert_eq!(client.forms.lock().unwrap().len(), 1);
        // It was for what the document said.
        library.write_skill("kit", "license: MIT\n", "Changed.");
        client.will_reply([json!({"action": "decline"})]);
        assert!(client.read("skill://kit/SKILL.md").await.is_err());
        assert_eq!(client.forms.lock().unwrap().len(), 2);
        library.write_skill("kit", "", "Back.");
    }
}

#[tokio::test]
async fn files_and_prompts_pass_the_same_gate() {
    let library = Library::usual();
    for revision in [OLDER[0], OLDER[1], NEWEST] {
        let client = asked(&library, revision).await;
        client.will_reply([
            json!({"action": "decline"}),
            decided("once"),
            json!({"action": "decline"}),
            decided("once"),
        ]);
        client.read("skill://kit/scripts/say.sh").await.unwrap_err();
        assert_eq!(client.read("skill://kit/scripts/say.sh").await.unwrap()["text"], "echo said\n");
        client.attended("prompts/get", json!({"name": "kit"})).await.unwrap_err();
        let started = client.attended("prompts/get", json!({"name": "kit"})).await.unwrap();
        assert!(
            started["messages"][0]["content"]["text"].as_str().unwrap().contains("Use `scripts/say.sh`.")
        );
        // What has no text in it is not asked about.
        client.request("skills/get", json!({"uri": "skill://kit/SKILL.md"})).await.unwrap();
        assert_eq!(client.forms.lock().unwrap().len(), 4);
    }
}

#[tokio::test]
async fn a_client_that_cannot_ask_gets_the_rule_to_add() {
    let library = Library::usual();
    for (revision, capabilities) in
        [(OLDER[0], json!({})), (OLDER[1], json!({"elicitation": {"url": {}}})), (NEWEST, json!({}))]
    {
        let server = library.server(&[("skill", "kit", Ask)]).await;
        let client = Client::connect(server, revision, capabilities).await;
        let refused = client.call("load_skill", json!({"skill_name": "kit"})).await;
        assert_eq!(refused["isError"], true);
        let text = refused["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("add at the end of [permission.skill]: \"kit\" = \"allow\""), "{text}");
        let (_, message) = client.read("skill://kit/SKILL.md").await.unwrap_err();
        assert!(message.contains("[permission.skill]"), "{message}");
    }
}

#[tokio::test]
async fn an_answer_is_for_the_call_that_asked_and_counts_once() {
    let library = Library::usual();
    let server = library.server(&[("skill", "*", Ask)]).await;
    let client = Client::newest(server).await;
    let call = |skill: &str| json!({"name": "load_skill", "arguments": {"skill_name": skill}});
    let question = client.request("tools/call", call("kit")).await.unwrap();
    assert_eq!(question["resultType"], "input_required");
    let mut other = call("greet");
    other["inputResponses"] = json!({"permission": decided("once")});
    other["requestState"] = question["requestState"].clone();
    // For another call it is no answer.
    assert_eq!(client.request("tools/call", other).await.unwrap()["resultType"], "input_required");
    let mut forged = call("kit");
    forged["inputResponses"] = json!({"permission": decided("once")});
    for state in ["", "0", "00000000000000000000000000000000"] {
        forged["requestState"] = state.into();
        assert_eq!(
            client.request("tools/call", forged.clone()).await.unwrap()["resultType"],
            "input_required"
        );
    }
    forged["requestState"] = question["requestState"].clone();
    assert_eq!(client.request("tools/call", forged.clone()).await.unwrap()["resultType"], "complete");
    client.call("unload_skill", json!({"skill_name": "kit"})).await;
    assert_eq!(client.request("tools/call", forged).await.unwrap()["resultType"], "input_required", "once");
}

#[tokio::test]
async fn a_rule_that_denies_stands_over_an_answer() {
    let library = Library::usual();
    let permissions = permissions(&[("skill", "kit", Ask)]);
    let catalog = library.catalog(&Default::default());
    let session = SkillSession::builder(catalog.clone())
        .options(session_options(Dialect::DeepAgents))
        .permissions(permissions.clone());
    let client = Client::newest(SkillServer::new(LiveSkills::new(catalog), session.build().await)).await;
    let mut call = json!({"name": "load_skill", "arguments": {"skill_name": "kit"}});
    let question = client.request("tools/call", call.clone()).await.unwrap();
    permissions.set(RuleSource::User, vec![Rule::new("skill", "kit", Deny)]);
    call["inputResponses"] = json!({"permission": decided("always")});
    call["requestState"] = question["requestState"].clone();
    let refused = client.request("tools/call", call).await.unwrap();
    assert_eq!(refused["isError"], true);
    assert!(!refused.to_string().contains("Use `scripts/say.sh`."));
}
