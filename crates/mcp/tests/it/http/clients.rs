//! Friends: clients of every revision, beside each other.

use std::time::Duration;

use prowess_mcp::HttpLimits;
use prowess_permission::Decision::Ask;
use serde_json::{Value, json};

use super::served::{Served, hello};
use crate::client::{NEWEST, OLDER, decided};
use crate::library::Library;

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn every_revision_lists_loads_and_reads() {
    let library = Library::usual();
    let served = Served::start(&library, &[]).await;
    for revision in [OLDER[0], OLDER[1], NEWEST] {
        let client = served.client(revision).await;
        let tools = client.request("tools/list", json!({})).await.unwrap();
        assert_eq!(tools["tools"][0]["name"], "load_skill");
        let loaded = client.call("load_skill", json!({"skill_name": "kit"})).await;
        assert!(text(&loaded).contains("Use `scripts/say.sh`."), "{loaded}");
        let read =
            client.request("resources/read", json!({"uri": "skill://kit/scripts/say.sh"})).await.unwrap();
        assert_eq!(read["contents"][0]["text"], "echo said\n");
        let listed = client.request("skills/list", json!({})).await.unwrap();
        assert_eq!(listed["skills"].as_array().unwrap().len(), 2);
    }
    served.end().await;
}

#[tokio::test]
async fn clients_do_not_see_what_others_loaded() {
    let library = Library::usual();
    let served = Served::start(&library, &[]).await;
    let (one, other) = (served.client(OLDER[0]).await, served.client(OLDER[1]).await);
    assert_ne!(one.session, other.session);
    one.call("load_skill", json!({"skill_name": "kit"})).await;
    let again = one.call("load_skill", json!({"skill_name": "kit"})).await;
    assert!(!text(&again).contains("Use `scripts/say.sh`."), "{again}");
    let loaded = other.call("load_skill", json!({"skill_name": "kit"})).await;
    assert!(text(&loaded).contains("Use `scripts/say.sh`."), "{loaded}");
    // Those without a session cannot be told apart, so each request is somebody's who has seen nothing.
    let newest = served.client(NEWEST).await;
    for _ in 0..2 {
        let loaded = newest.call("load_skill", json!({"skill_name": "kit"})).await;
        assert!(text(&loaded).contains("Use `scripts/say.sh`."), "{loaded}");
    }
    let tools = newest.request("tools/list", json!({})).await.unwrap();
    let names: Vec<&Value> = tools["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["load_skill"], "there is nothing to unload");
    let unload = json!({"name": "unload_skill", "arguments": {"skill_name": "kit"}});
    assert_eq!(newest.request("tools/call", unload).await.unwrap_err().0, -32602);
}

#[tokio::test]
async fn a_person_is_asked_while_the_call_waits() {
    let library = Library::usual();
    let served = Served::start(&library, &[("skill", "kit", Ask)]).await;
    for revision in OLDER {
        let client = served.client(revision).await;
        for (reply, is_allowed) in [(json!({"action": "decline"}), false), (decided("once"), true)] {
            let call = json!({"name": "load_skill", "arguments": {"skill_name": "kit"}});
            let mut wire = client.open("tools/call", call).await;
            assert_eq!(wire.head().await.unwrap().status, 200);
            let form = wire.message().await.unwrap();
            assert_eq!(form["method"], "elicitation/create");
            client.reply(&form["id"], reply).await;
            let loaded = wire.message().await.unwrap();
            assert_eq!(loaded["result"]["isError"] != true, is_allowed, "{loaded}");
            assert!(wire.message().await.is_none(), "the stream ends with the answer");
        }
    }
}

#[tokio::test]
async fn a_question_is_found_by_a_later_request_with_its_state() {
    let library = Library::usual();
    let served = Served::start(&library, &[("skill", "*", Ask)]).await;
    let (asks, other) = (served.client(NEWEST).await, served.client(NEWEST).await);
    let call = json!({"name": "load_skill", "arguments": {"skill_name": "kit"}});
    let question = asks.request("tools/call", call.clone()).await.unwrap();
    assert_eq!(question["resultType"], "input_required");
    let mut answered = call.clone();
    answered["inputResponses"] = json!({"permission": decided("once")});
    // Whoever does not know the state is asked.
    answered["requestState"] = "0".repeat(32).into();
    assert_eq!(other.request("tools/call", answered.clone()).await.unwrap()["resultType"], "input_required");
    answered["requestState"] = question["requestState"].clone();
    let loaded = asks.request("tools/call", answered.clone()).await.unwrap();
    assert!(text(&loaded).contains("Use `scripts/say.sh`."), "{loaded}");
    assert_eq!(asks.request("tools/call", answered).await.unwrap()["resultType"], "input_required", "once");
}

#[tokio::test]
async fn every_revision_hears_of_changes() {
    let library = Library::usual();
    let served = Served::start(&library, &[]).await;
    for (number, revision) in [OLDER[0], OLDER[1], NEWEST].into_iter().enumerate() {
        let client = served.client(revision).await;
        let mut wire = if revision == NEWEST {
            let wanted = json!({"notifications": {"toolsListChanged": true, "resourcesListChanged": true}});
            let mut wire = client.open("subscriptions/listen", wanted).await;
            assert_eq!(wire.head().await.unwrap().status, 200);
            assert_eq!(wire.message().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
            wire
        } else {
            client.stream().await
        };
        library.write_skill(&format!("newer-{number}"), "", "New.");
        served.live.put(&library.catalog(&Default::default()));
        let mut heard = Vec::new();
        while heard.len() < 2 {
            heard.push(wire.message().await.unwrap()["method"].clone());
        }
        assert_eq!(heard, ["notifications/resources/list_changed", "notifications/tools/list_changed"]);
        let listed = client.request("skills/list", json!({})).await.unwrap();
        assert_eq!(listed["skills"].as_array().unwrap().len(), 3 + number);
    }
}

#[tokio::test]
async fn sessions_end_when_they_are_ended_or_left_and_are_counted() {
    let library = Library::usual();
    let mut limits = HttpLimits::default();
    limits.sessions = 2;
    limits.session_idle = Duration::from_millis(300);
    let served = Served::with(&library, &[], limits).await;
    let (one, other) = (served.client(OLDER[0]).await, served.client(OLDER[1]).await);
    let mut stream = other.stream().await;
    assert_eq!(served.post("", hello(OLDER[1], &json!({})).to_string()).await.status, 503);
    // One is ended by its client.
    let ended = served.request("DELETE", &one.headers("", &json!({}))) + "\r\n";
    assert_eq!(served.raw(ended).await.status, 204);
    let list = one.body("tools/list", json!({}));
    assert_eq!(served.post(&one.headers("", &json!({})), &list).await.status, 404);
    let third = served.client(OLDER[0]).await;
    // One is left, and one has a stream.
    let deadline = std::time::Instant::now() + crate::client::PATIENCE;
    loop {
        // Asking would be using it: room for another says that it is gone.
        let begun = served.post("", hello(OLDER[1], &json!({})).to_string()).await.status;
        if begun == 200 {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{begun}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(served.post(&third.headers("", &json!({})), &list).await.status, 404);
    assert!(other.request("tools/list", json!({})).await.is_ok());
    library.write_skill("newer", "", "New.");
    served.live.put(&library.catalog(&Default::default()));
    assert!(stream.message().await.is_some());
}

#[tokio::test]
async fn a_client_has_so_many_calls_at_once() {
    let library = Library::usual();
    let served = Served::start(&library, &[("skill", "*", Ask)]).await;
    let (many, other) = (served.client(OLDER[1]).await, served.client(OLDER[1]).await);
    let call = json!({"name": "load_skill", "arguments": {"skill_name": "kit"}});
    let mut waiting = Vec::new();
    for number in 0..64 {
        let mut wire = Box::pin(open_numbered(&served, &many, &call, number)).await;
        assert_eq!(wire.message().await.unwrap()["method"], "elicitation/create");
        waiting.push(wire);
    }
    assert_eq!(many.request("tools/call", call.clone()).await.unwrap_err().0, -32000);
    let read = json!({"uri": "skill://kit/SKILL.md"});
    assert_eq!(many.request("resources/read", read).await.unwrap_err().0, -32000);
    let mut theirs = open_numbered(&served, &other, &call, 1).await;
    assert_eq!(theirs.message().await.unwrap()["method"], "elicitation/create");
}

/// A call with an id of its own, whose stream has begun.
async fn open_numbered(
    served: &Served,
    client: &super::served::HttpClient<'_>,
    call: &Value,
    number: usize,
) -> super::wire::Wire {
    let body =
        json!({"jsonrpc": "2.0", "id": format!("call-{number}"), "method": "tools/call", "params": call});
    let body = body.to_string();
    let mut wire = super::wire::Wire::connect(served.address).await;
    let head = served.request("POST", &client.headers("tools/call", call));
    wire.write(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
    assert_eq!(wire.head().await.unwrap().status, 200);
    wire
}

#[tokio::test]
async fn it_ends_with_what_waits_and_listens() {
    let library = Library::usual();
    let served = Served::start(&library, &[("skill", "*", Ask)]).await;
    let address = served.address;
    let client = served.client(OLDER[1]).await;
    let mut stream = client.stream().await;
    let call = json!({"name": "load_skill", "arguments": {"skill_name": "kit"}});
    let mut waits = open_numbered(&served, &client, &call, 1).await;
    assert_eq!(waits.message().await.unwrap()["method"], "elicitation/create");
    let newest = served.client(NEWEST).await;
    let mut listens =
        newest.open("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
    assert_eq!(listens.head().await.unwrap().status, 200);
    served.end().await;
    assert!(stream.message().await.is_none());
    while waits.message().await.is_some() {}
    while listens.message().await.is_some() {}
    tokio::net::TcpStream::connect(address).await.unwrap_err();
}
