//! Answers of persons that come late, twice, or for something else.

use prowess_permission::Decision::Ask;
use serde_json::{Value, json};

use crate::client::{Client, NEWEST, OLDER, decided};
use crate::library::Library;

fn load(skill: &str) -> Value {
    json!({"name": "load_skill", "arguments": {"skill_name": skill}})
}

/// A client whose person is asked before any skill is loaded.
async fn asked(library: &Library, revision: &'static str) -> Client {
    let server = library.server(&[("skill", "*", Ask)]).await;
    Client::connect(server, revision, json!({"elicitation": {"form": {}}})).await
}

#[tokio::test]
async fn an_answer_is_none_to_what_the_document_says_by_then() {
    for revision in OLDER {
        let library = Library::usual();
        let client = asked(&library, revision).await;
        let (_, answered) = client.begin("tools/call", load("kit")).await;
        let form = client.shown("'kit'").await;
        library.write_skill("kit", "license: Other\n", "Changed.");
        client.answer(&form, decided("always")).await;
        let form = client.shown("'kit'").await;
        let forms = client.forms.lock().unwrap().clone();
        assert_ne!(forms[0]["message"], forms[1]["message"], "what it says now is shown");
        client.answer(&form, decided("once")).await;
        let loaded = answered.await.unwrap();
        assert!(loaded["result"]["content"].to_string().contains("Changed."), "{loaded}");
        // Neither text was approved for good.
        for body in ["Changed.", "Use `scripts/say.sh`."] {
            client.call("unload_skill", json!({"skill_name": "kit"})).await;
            library.write_skill("kit", "license: Other\n", body);
            client.will_reply([json!({"action": "decline"})]);
            assert_eq!(client.call("load_skill", json!({"skill_name": "kit"})).await["isError"], true);
        }
        assert_eq!(client.forms.lock().unwrap().len(), 4);
    }
}

#[tokio::test]
async fn an_answer_is_none_to_what_the_document_says_in_a_later_call() {
    let library = Library::usual();
    let client = asked(&library, NEWEST).await;
    let answer = |question: &Value, decision: &str| {
        let mut call = load("kit");
        call["inputResponses"] = json!({"permission": decided(decision)});
        call["requestState"] = question["requestState"].clone();
        call
    };
    let first = client.request("tools/call", load("kit")).await.unwrap();
    library.write_skill("kit", "license: Other\n", "Changed.");
    let second = client.request("tools/call", answer(&first, "always")).await.unwrap();
    assert_eq!(second["resultType"], "input_required");
    assert_ne!(first["inputRequests"], second["inputRequests"], "what it says now is shown");
    // What was asked first is over.
    let third = client.request("tools/call", answer(&first, "once")).await.unwrap();
    assert_eq!(third["resultType"], "input_required");
    let loaded = client.request("tools/call", answer(&second, "once")).await.unwrap();
    assert!(loaded["content"].to_string().contains("Changed."), "{loaded}");
    client.call("unload_skill", json!({"skill_name": "kit"})).await;
    let again = client.request("tools/call", load("kit")).await.unwrap();
    assert_eq!(again["resultType"], "input_required", "nothing was approved for good");
}

#[tokio::test]
async fn an_answer_is_for_one_question() {
    let library = Library::usual();
    for revision in OLDER {
        let client = asked(&library, revision).await;
        let (_, kit) = client.begin("tools/call", load("kit")).await;
        let (_, mut greet) = client.begin("tools/call", load("greet")).await;
        let (about_kit, about_greet) = (client.shown("'kit'").await, client.shown("'greet'").await);
        assert_ne!(about_kit, about_greet);
        for _ in 0..2 {
            client.answer(&about_kit, decided("once")).await;
        }
        assert_ne!(kit.await.unwrap()["result"]["isError"], true);
        for id in [json!(999_999), json!("greet"), Value::Null] {
            client.answer(&id, decided("once")).await;
        }
        client.request("ping", json!({})).await.unwrap();
        let early = greet.try_recv();
        assert!(early.is_err(), "nobody has answered that: {early:?}");
        client.answer(&about_greet, json!({"action": "decline"})).await;
        assert_eq!(greet.await.unwrap()["result"]["isError"], true);
        // And what was answered once is asked again.
        client.call("unload_skill", json!({"skill_name": "kit"})).await;
        let (_, _kit) = client.begin("tools/call", load("kit")).await;
        client.answer(&about_kit, decided("once")).await;
        client.shown("'kit'").await;
    }
}
