//! Files: what clients can write, how it is served, and what a model cannot reach.

use serde_json::json;

use super::Server;
use super::client::Streamed;
use super::conversing::settled;
use crate::chat::world;
use crate::model::{Answer, FakeModel};

#[test]
fn case_140_uploads_are_kept_in_their_place_and_nothing_of_them_runs() {
    let model = FakeModel::start(Vec::new());
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let at = |path: &str| format!("/api/v1/threads/{thread}/files/content?path={path}");
    let html = b"<html><script>alert(1)</script></html>";
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>";
    for (name, bytes) in [("a.html", &html[..]), ("a.svg", svg), ("a.png", html), ("a.js", b"alert(1)")] {
        assert_eq!(ada.request("PUT", &at(&format!("/project/{name}")), Some(bytes), &[]).status, 201);
        let read = ada.request("GET", &at(&format!("/project/{name}")), None, &[]);
        assert_eq!(read.body, bytes);
        assert_eq!(read.header("content-type"), "text/plain; charset=utf-8", "{name}");
        assert_eq!(read.header("x-content-type-options"), "nosniff");
        assert!(read.header("content-security-policy").contains("sandbox"), "{name}");
    }
    // An archive stays one file, and a name stays a name.
    let zip = b"PK\x03\x04\x00\x00";
    assert_eq!(ada.request("PUT", &at("/project/a.zip"), Some(zip), &[]).status, 201);
    let read = ada.request("GET", &at("/project/a.zip"), None, &[]);
    assert!(read.header("content-disposition").starts_with("attachment"), "{:?}", read.headers);
    let odd = "/project/%3Cimg%20src=x%20onerror=alert(1)%3E%22%0D%0Ax.md";
    assert!(ada.request("PUT", &at(odd), Some(b"x"), &[]).status < 500);

    for path in [
        "/etc/passwd",
        "/project/../../../../etc/passwd",
        "/project/%2e%2e/%2e%2e/x",
        "../x",
        "/work/out/x",
        "/skills/tides/SKILL.md",
        "/project",
        "",
        "/project/a%00b",
    ] {
        let written = ada.request("PUT", &at(path), Some(b"x"), &[]);
        assert_eq!(written.status, 400, "{path}: {}", written.text());
        assert!(ada.request("DELETE", &at(path), None, &[]).status >= 400, "{path}");
    }
    for path in ["/etc/passwd", "/project/../../x", "/", "/home"] {
        let read = ada.request("GET", &at(path), None, &[]);
        assert!(read.status >= 400 && read.status < 500, "{path}: {}", read.text());
    }
    assert!(world.path("home/.prowess/skills/tides/SKILL.md").exists());

    // A body that is too large is refused before it is read.
    let refused = ada.request("PUT", &at("/project/big"), Some(&vec![0; (64 << 20) + 1]), &[]);
    assert_eq!(refused.status, 413);
    let listed = ada.get(&format!("/threads/{thread}/files"));
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"a.html") && !names.contains(&"big"), "{names:?}");
    assert_eq!(ada.request("DELETE", &at("/project/a.html"), None, &[]).status, 204);
    assert_eq!(ada.request("GET", &at("/project/a.html"), None, &[]).status, 404);
}

#[test]
fn a_model_reaches_no_file_of_the_server() {
    let world_directory = crate::world::World::new();
    let secret = world_directory.path("outside.txt");
    std::fs::write(&secret, "the server's own words").unwrap();
    let path = secret.to_str().unwrap().to_owned();
    let run = |source: String| json!({"skill": "tides", "command": "cat work/inputs/* 2>&1; cat /project/../outside.txt 2>&1", "inputs": [{"from": source}]});
    let model = FakeModel::start(vec![
        Answer::call("read_file", json!({"file_path": path})),
        Answer::call("skill_run", run(format!("host://{path}"))),
        Answer::call("skill_run", run(path.clone())),
        Answer::call("copy_file", json!({"from": path, "to": "/project/stolen.txt"})),
        Answer::call("write_file", json!({"file_path": path, "content": "mine"})),
        Answer::call("read_file", json!({"file_path": "/project/../../../outside.txt"})),
        Answer::text("I could not."),
    ]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Read it."}), 202);
    let mut events = Vec::new();
    // Even a person who approves everything cannot give it away.
    while events.last().is_none_or(|event: &Streamed| event.name != "turn_ended") {
        let event = stream.next().unwrap();
        if event.name == "asked" {
            let number = &event.data["number"];
            let reply = json!({"reply": "approve"});
            ada.post(&format!("/threads/{thread}/questions/{number}"), reply, 202);
        }
        events.push(event);
    }
    let answers: Vec<_> = events.iter().filter(|event| event.name == "tool_answered").collect();
    assert_eq!(answers.len(), 6);
    for answer in answers {
        assert!(!answer.data["text"].as_str().unwrap().contains("own words"), "{:#}", answer.data);
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "the server's own words");
    settled(&ada, &thread);
}

#[test]
fn a_model_works_with_the_files_of_its_thread_alone() {
    let model = FakeModel::start(vec![
        Answer::call("read_file", json!({"file_path": "/project/plan.md"})),
        Answer::text("Read."),
        Answer::call("ls", json!({"path": "/project"})),
        Answer::text("Nothing."),
    ]);
    let world = world(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let (one, other) = (ada.thread(), ada.thread());
    let content = format!("/api/v1/threads/{one}/files/content?path=/project/plan.md");
    assert_eq!(ada.request("PUT", &content, Some(b"Sail at noon."), &[]).status, 201);
    let events = ada.say(&one, "Read the plan.");
    let answered = events.iter().find(|event| event.name == "tool_answered").unwrap();
    assert!(answered.data["text"].as_str().unwrap().contains("Sail at noon."), "{:#}", answered.data);
    let events = ada.say(&other, "What is there?");
    let answered = events.iter().find(|event| event.name == "tool_answered").unwrap();
    assert!(!answered.data["text"].as_str().unwrap().contains("plan.md"), "{:#}", answered.data);
}
