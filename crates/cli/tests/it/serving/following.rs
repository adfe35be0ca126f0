//! With files in a bucket, the files of a thread follow it to a machine that has nothing.

use serde_json::{Value, json};

use super::Server;
use super::bucket::Bucket;
use super::client::{Client, Streamed};
use super::conversing::settled;
use super::own_skills::{added, skill, trust};
use super::postgres;
use super::watching::{permissive, reported};
use crate::model::{Answer, FakeModel};
use crate::world::World;

const JSON: &str = "content-type: application/json";
const STATE: &str = "home/.local/state/prowess";

fn run(command: &str) -> Answer {
    Answer::call("skill_run", json!({"skill": "tides", "command": command}))
}

fn write(path: &str, text: &str) -> Answer {
    Answer::call("write_file", json!({"file_path": path, "content": text}))
}

/// Says something, approves everything, and waits for the end of the turn.
fn say(client: &Client, thread: &str, text: &str) -> Vec<Streamed> {
    let mut stream = client.events(thread, None);
    client.post(&format!("/threads/{thread}/turns"), json!({"text": text}), 202);
    let mut events: Vec<Streamed> = Vec::new();
    while events.last().is_none_or(|event| event.name != "turn_ended") {
        let event = stream.next().unwrap();
        if event.name == "asked" {
            let number = &event.data["number"];
            let reply = json!({"reply": "approve"});
            client.post(&format!("/threads/{thread}/questions/{number}"), reply, 202);
        }
        events.push(event);
    }
    settled(client, thread);
    events
}

fn with_bucket(model: &FakeModel) -> (World, Bucket) {
    let (mut world, bucket) = (permissive(model), Bucket::start());
    bucket.give_to(&mut world);
    (world, bucket)
}

/// Removes everything of this machine but a database in a file: what another machine has when it takes over.
fn forget_files(world: &World) {
    if !world.path(STATE).join("serve/server.db").exists() {
        std::fs::remove_dir_all(world.path(STATE)).unwrap();
        return;
    }
    for entry in std::fs::read_dir(world.path(STATE)).unwrap().flatten() {
        let path = entry.path();
        if entry.file_name() != "serve" && path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        }
    }
    for entry in std::fs::read_dir(world.path(STATE).join("serve")).unwrap().flatten() {
        if entry.path().is_dir() {
            std::fs::remove_dir_all(entry.path()).unwrap();
        }
    }
}

fn again<'a>(world: &'a World, before: &Client) -> (Server<'a>, Client) {
    let server = Server::start(world);
    let client = Client { address: server.address.clone(), headers: before.headers.clone() };
    (server, client)
}

fn content(client: &Client, thread: &str, path: &str) -> (u16, String) {
    let read = client.ask("GET", &format!("/threads/{thread}/files/content?path={path}"), None);
    (read.status, read.text())
}

fn names(client: &Client, thread: &str, path: &str) -> Vec<String> {
    let listed = client.get(&format!("/threads/{thread}/files?path={path}"));
    let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
    listed["items"].as_array().unwrap().iter().map(name).collect()
}

fn put(client: &Client, thread: &str, path: &str, text: &str) -> u16 {
    let path = format!("/api/v1/threads/{thread}/files/content?path={path}");
    client.request("PUT", &path, Some(text.as_bytes()), &[]).status
}

fn delete(client: &Client, thread: &str, path: &str) -> u16 {
    client.ask("DELETE", &format!("/threads/{thread}/files/content?path={path}"), None).status
}

/// The last answer of a tool in a thread.
fn last_answer(client: &Client, thread: &str) -> String {
    let whole = settled(client, thread);
    let messages = whole["messages"].as_array().unwrap();
    let last = messages.iter().rfind(|message| message["role"] == "tool").unwrap();
    last["text"].as_str().unwrap().to_owned()
}

/// A conversation that writes files, a server that is killed, and a machine without files that goes on.
fn move_on(world: &World, model: &FakeModel) {
    let mut server = Server::start(world);
    let ada = server.client("admin");
    let thread = ada.thread();
    say(&ada, &thread, "Plan the trip.");
    // A command that is under way when the machine is lost.
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Wait for high water."}), 202);
    reported(&mut stream, "begun");
    server.kill();
    stream.rest();
    forget_files(world);

    let (_server, ada) = again(world, &ada);
    settled(&ada, &thread);
    assert_eq!(content(&ada, &thread, "/project/plan.md"), (200, "- rest\n".to_owned()));
    assert_eq!(content(&ada, &thread, "/work/out/tide.txt"), (200, "high\n".to_owned()));
    assert_eq!(names(&ada, &thread, "/work/out"), ["tide.txt"], "what the dead run left is not there");
    model.then(vec![
        run("cat \"$OUTPUT_DIR/tide.txt\" && echo more >> \"$OUTPUT_DIR/tide.txt\""),
        Answer::call("read_file", json!({"file_path": "/project/plan.md"})),
        Answer::text("Done."),
    ]);
    say(&ada, &thread, "Go on.");
    assert!(last_answer(&ada, &thread).contains("- rest"));
    assert_eq!(content(&ada, &thread, "/work/out/tide.txt"), (200, "high\nmore\n".to_owned()));
}

fn answers() -> Vec<Answer> {
    vec![
        write("/project/plan.md", "- rest\n"),
        run("echo high > \"$OUTPUT_DIR/tide.txt\""),
        Answer::text("It is planned."),
        run("echo half > \"$OUTPUT_DIR/half.txt\"; echo begun; sleep 600"),
        Answer::text("The machine was lost."),
    ]
}

#[test]
fn files_follow_a_thread_to_a_machine_that_has_nothing() {
    let model = FakeModel::start(answers());
    let (world, bucket) = with_bucket(&model);
    bucket.be_flaky();
    move_on(&world, &model);
}

/// The same with PostgreSQL: the other machine has an empty directory.
#[test]
fn files_follow_a_thread_to_an_empty_directory() {
    let model = FakeModel::start(answers());
    let (mut world, bucket) = with_bucket(&model);
    bucket.be_flaky();
    let (schema, url) = postgres::schema("following");
    world.variable("PROWESS_DATABASE", &url);
    move_on(&world, &model);
    postgres::execute(&format!("DROP SCHEMA {schema} CASCADE"));
}

/// The same with a server that others wrote, with the bucket `prowess`, the key `test` and the secret `test`.
#[test]
#[ignore = "needs a server: `make s3` starts one"]
fn files_follow_a_thread_through_another_object_store() {
    let endpoint = std::env::var("PROWESS_TEST_S3").expect("PROWESS_TEST_S3 names the server: use `make s3`");
    let model = FakeModel::start(answers());
    let mut world = permissive(&model);
    Bucket::start().give_to(&mut world);
    world.variable("AWS_ENDPOINT_URL", &endpoint);
    let prefix = format!("s3://prowess/following-{}", std::process::id());
    world.variable("PROWESS_FILES", &prefix);
    move_on(&world, &model);
}

#[test]
fn files_that_people_change_are_listed_at_once_and_reach_the_agent() {
    let model = FakeModel::start(vec![
        run("cat /project/in/notes.txt; rm /project/in/old.txt; ls /project/in"),
        Answer::call("read_file", json!({"file_path": "/project/in/notes.txt"})),
        Answer::text("Read."),
    ]);
    let (world, _bucket) = with_bucket(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    for (path, text) in [("in/notes.txt", "neap"), ("in/old.txt", "old"), ("gone.txt", "gone")] {
        assert_eq!(put(&ada, &thread, &format!("/project/{path}"), text), 201);
        assert_eq!(content(&ada, &thread, &format!("/project/{path}")), (200, text.to_owned()));
    }
    assert_eq!(put(&ada, &thread, "/project/in/notes.txt", "spring"), 201);
    assert_eq!(content(&ada, &thread, "/project/in/notes.txt"), (200, "spring".to_owned()));
    assert_eq!(delete(&ada, &thread, "/project/gone.txt"), 204);
    assert_eq!(delete(&ada, &thread, "/project/gone.txt"), 404);
    assert_eq!(names(&ada, &thread, "/project"), ["in"]);
    assert_eq!(names(&ada, &thread, "/project/in"), ["notes.txt", "old.txt"]);
    // As in a local directory.
    assert_eq!(put(&ada, &thread, "/project/in", "x"), 400);
    assert_eq!(put(&ada, &thread, "/project/in/notes.txt/x", "x"), 400);
    assert_eq!(delete(&ada, &thread, "/project/in"), 400);
    assert_eq!(put(&ada, &thread, "/work/out/x", "x"), 400);
    // The process that answered has no directory of the thread until an agent works.
    assert_eq!(content(&ada, &thread, "/project/none").0, 404);
    say(&ada, &thread, "Read the notes.");
    assert!(last_answer(&ada, &thread).contains("spring"));
    // Another user cannot see them.
    let bob = server.new_user("bob");
    assert_eq!(content(&bob, &thread, "/project/in/notes.txt").0, 404);
}

#[test]
fn a_fork_has_the_files_of_its_event_and_outlives_its_thread() {
    let model = FakeModel::start(vec![
        write("/project/plan.md", "first"),
        Answer::text("Written."),
        Answer::call(
            "edit_file",
            json!({"file_path": "/project/plan.md", "old_string": "first", "new_string": "second"}),
        ),
        Answer::text("Written again."),
    ]);
    let (world, bucket) = with_bucket(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    let first = say(&ada, &thread, "Write.").last().unwrap().id.unwrap();
    settled(&ada, &thread);
    say(&ada, &thread, "Write again.");
    settled(&ada, &thread);
    let fork = ada.post(&format!("/threads/{thread}/fork"), json!({"through": first}), 201)["id"].clone();
    let fork = fork.as_str().unwrap();
    settled(&ada, fork);
    assert_eq!(content(&ada, &thread, "/project/plan.md"), (200, "second".to_owned()));
    assert_eq!(content(&ada, fork, "/project/plan.md"), (200, "first".to_owned()));
    // A deletion that fails can be repeated: the thread is still there.
    bucket.refuse(true);
    assert_eq!(ada.ask("DELETE", &format!("/threads/{thread}"), None).status, 500);
    bucket.refuse(false);
    assert_eq!(ada.ask("DELETE", &format!("/threads/{thread}"), None).status, 204);
    assert_eq!(content(&ada, fork, "/project/plan.md"), (200, "first".to_owned()));
    model.then(vec![
        Answer::call("read_file", json!({"file_path": "/project/plan.md"})),
        Answer::text("Read."),
    ]);
    say(&ada, fork, "Read.");
    assert!(last_answer(&ada, fork).contains("first"));
    assert_eq!(ada.ask("DELETE", &format!("/threads/{fork}"), None).status, 204);
    let left: Vec<String> = bucket.keys().into_iter().filter(|key| key.contains("/threads/")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_call_whose_files_cannot_be_stored_says_so_and_no_event_names_them() {
    let bucket = Bucket::start();
    let mended = bucket.clone();
    let model = FakeModel::start(vec![
        write("/project/plan.md", "- rest"),
        Answer::calls(move |_| {
            mended.refuse(false);
            vec![("write_file", json!({"file_path": "/project/other.md", "content": "x"}))]
        }),
        Answer::text("It failed, and then it did not."),
        write("/project/lost.md", "x"),
        Answer::text("It failed."),
    ]);
    let mut world = permissive(&model);
    bucket.give_to(&mut world);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    bucket.refuse(true);
    let events = say(&ada, &thread, "Write.");
    let answers: Vec<_> = events.iter().filter(|event| event.name == "tool_answered").collect();
    assert_eq!((&answers[0].data["is_error"], &answers[1].data["is_error"]), (&json!(true), &json!(false)));
    let text = answers[0].data["text"].as_str().unwrap();
    assert!(
        text.starts_with("Error: the call was made, but the files that it changed could not be stored: "),
        "{text}"
    );
    // The next call that works stores them, too.
    assert_eq!(names(&ada, &thread, "/project"), ["other.md", "plan.md"]);
    bucket.refuse(true);
    say(&ada, &thread, "Write again.");
    bucket.refuse(false);
    model.then(vec![Answer::call("ls", json!({"path": "/project"})), Answer::text("Looked.")]);
    say(&ada, &thread, "Look.");
    assert!(!last_answer(&ada, &thread).contains("lost.md"), "what was not stored is gone");
    assert_eq!(names(&ada, &thread, "/project"), ["other.md", "plan.md"]);
}

#[test]
fn files_from_before_a_bucket_was_used_stay() {
    let model = FakeModel::start(vec![write("/project/plan.md", "- rest"), Answer::text("Written.")]);
    let mut world = permissive(&model);
    let mut server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    say(&ada, &thread, "Write.");
    // One that was killed would have to be waited for: it may use the same files elsewhere.
    let id = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    server.child.wait().unwrap();
    drop(server);
    Bucket::start().give_to(&mut world);
    let (mut server, ada) = again(&world, &ada);
    assert_eq!(content(&ada, &thread, "/project/plan.md"), (200, "- rest".to_owned()));
    assert_eq!(put(&ada, &thread, "/project/new.md", "new"), 201);
    settled(&ada, &thread);
    assert_eq!(names(&ada, &thread, "/project"), ["new.md", "plan.md"]);
    server.kill();
    forget_files(&world);
    let (_server, ada) = again(&world, &ada);
    assert_eq!(content(&ada, &thread, "/project/plan.md"), (200, "- rest".to_owned()));
    assert_eq!(content(&ada, &thread, "/project/new.md"), (200, "new".to_owned()));
}

#[test]
fn files_from_before_stay_while_the_bucket_takes_none() {
    let model = FakeModel::start(vec![write("/project/plan.md", "- rest"), Answer::text("Written.")]);
    let mut world = permissive(&model);
    let mut server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    say(&ada, &thread, "Write.");
    settled(&ada, &thread);
    let id = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    server.child.wait().unwrap();
    drop(server);
    let bucket = Bucket::start();
    bucket.give_to(&mut world);
    bucket.refuse(true);
    // Each time, the thread is opened, and the log names no inventory.
    for text in ["Think.", "Think again."] {
        let (mut server, ada) = again(&world, &ada);
        model.then(vec![Answer::text("So.")]);
        let mut stream = ada.events(&thread, None);
        // A worker may be trying to store the files.
        ada.post(&format!("/threads/{thread}/turns"), json!({"text": text, "mode": "queue"}), 202);
        stream.until("turn_ended");
        settled(&ada, &thread);
        let fork = ada.ask("POST", &format!("/threads/{thread}/fork"), Some(json!({})));
        assert_eq!(fork.status, 409, "it would have no files: {}", fork.text());
        let id = rustix::process::Pid::from_child(&server.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        server.child.wait().unwrap();
    }
    bucket.refuse(false);
    // The start of the server has them stored, although nobody says anything.
    let (_server, ada) = again(&world, &ada);
    let begun = std::time::Instant::now();
    while bucket.keys().iter().all(|key| !key.contains("/inventory-")) {
        settled(&ada, &thread);
        assert!(begun.elapsed() < super::PATIENCE, "nobody stored the files");
    }
    settled(&ada, &thread);
    let fork = ada.post(&format!("/threads/{thread}/fork"), json!({}), 201)["id"].clone();
    for thread in [thread.as_str(), fork.as_str().unwrap()] {
        assert_eq!(content(&ada, thread, "/project/plan.md"), (200, "- rest".to_owned()));
    }
}

#[test]
fn a_turn_whose_files_are_out_of_reach_can_be_cancelled_and_goes_on_later() {
    let model = FakeModel::start(answers());
    let (world, bucket) = with_bucket(&model);
    let mut server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    say(&ada, &thread, "Plan the trip.");
    let mut stream = ada.events(&thread, None);
    ada.post(&format!("/threads/{thread}/turns"), json!({"text": "Wait for high water."}), 202);
    reported(&mut stream, "begun");
    server.kill();
    stream.rest();
    forget_files(&world);
    bucket.hide(true);
    let (_server, ada) = again(&world, &ada);
    let mut stream = ada.events(&thread, None);
    stream.until("notice");
    ada.post(&format!("/threads/{thread}/cancel"), json!({}), 202);
    assert_eq!(stream.until("turn_ended").last().unwrap().data["outcome"], "cancelled");
    bucket.hide(false);
    model.instead(vec![
        Answer::call("read_file", json!({"file_path": "/project/plan.md"})),
        Answer::text("Read."),
    ]);
    say(&ada, &thread, "Go on.");
    assert!(last_answer(&ada, &thread).contains("- rest"));
}

#[test]
fn a_thread_that_is_made_again_has_another_family() {
    let model = FakeModel::start(Vec::new());
    let (world, bucket) = with_bucket(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let mut families = Vec::new();
    for text in ["one", "two"] {
        model.then(vec![Answer::text("So.")]);
        let input = json!({
            "threadId": "mine", "runId": text, "tools": [], "context": [], "state": {}, "forwardedProps": {},
            "messages": [{"id": text, "role": "user", "content": "Write."}],
        });
        let run = ada.request("POST", "/agui/prowess", Some(input.to_string().as_bytes()), &[JSON]);
        assert_eq!(run.status, 200);
        assert!(run.text().contains("RUN_FINISHED"), "{}", run.text());
        let thread = ada.get("/threads")["items"][0]["id"].as_str().unwrap().to_owned();
        settled(&ada, &thread);
        assert_eq!(put(&ada, &thread, "/project/plan.md", text), 201);
        assert_eq!(content(&ada, &thread, "/project/plan.md"), (200, text.to_owned()));
        let family = |key: String| {
            key.split_once("/threads/").map(|(_, rest)| rest.split('/').nth(1).unwrap().to_owned())
        };
        families.extend(bucket.keys().into_iter().find_map(family));
        assert_eq!(ada.ask("DELETE", &format!("/threads/{thread}"), None).status, 204);
    }
    // A day later, a sweep removes what workers of the first one may still have stored.
    assert_eq!(families.len(), 2);
    assert_ne!(families[0], families[1]);
}

#[test]
fn a_run_lists_files_that_no_agent_of_this_machine_has_seen() {
    let model = FakeModel::start(vec![Answer::text("So.")]);
    let (world, _bucket) = with_bucket(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    assert_eq!(put(&ada, &thread, "/project/notes.txt", "neap"), 201);
    let input = json!({
        "threadId": thread, "runId": "run", "tools": [], "context": [], "state": {}, "forwardedProps": {},
        "messages": [{"id": "m", "role": "user", "content": "Think."}],
    });
    let run = ada.request("POST", "/agui/prowess", Some(input.to_string().as_bytes()), &[JSON]).text();
    let snapshot = run.lines().find(|line| line.contains("STATE_SNAPSHOT")).unwrap();
    assert!(snapshot.contains("/project/notes.txt"), "{snapshot}");
}

#[test]
fn a_turn_that_changes_no_file_asks_the_bucket_nothing() {
    let todo = || Answer::call("write_todos", json!({"todos": []}));
    let model = FakeModel::start(vec![write("/project/plan.md", "- rest"), Answer::text("Written.")]);
    let (world, bucket) = with_bucket(&model);
    let server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    say(&ada, &thread, "Write.");
    settled(&ada, &thread);
    let before = bucket.requests();
    model.then(vec![todo(), todo(), todo(), Answer::text("Nothing changed.")]);
    say(&ada, &thread, "Think.");
    settled(&ada, &thread);
    assert_eq!(bucket.requests(), before);
}

#[test]
fn the_history_follows_a_thread_too() {
    let model = FakeModel::start(vec![
        Answer::text("Noted."),
        Answer::text("They spoke of tides."),
        Answer::text("Of tides."),
    ]);
    let mut world = permissive(&model);
    let path = "home/.config/prowess/prowess.toml";
    let config = std::fs::read_to_string(world.path(path)).unwrap();
    world.file(path, &format!("{config}[compaction]\ntrigger = \"3 messages\"\nkeep = \"1 messages\"\n"));
    let bucket = Bucket::start();
    bucket.give_to(&mut world);
    let mut server = Server::start(&world);
    let ada = server.client("admin");
    let thread = ada.thread();
    say(&ada, &thread, &"High water at noon. ".repeat(4000));
    let events = say(&ada, &thread, "What did we speak of?");
    let at = |name: &str| events.iter().position(|event| event.name == name).unwrap();
    assert!(at("state_changed") < at("compacted"), "the history is stored before the model forgets");
    server.kill();
    forget_files(&world);
    let (_server, ada) = again(&world, &ada);
    let history = names(&ada, &thread, "/work/conversation_history");
    let (status, text) = content(&ada, &thread, &format!("/work/conversation_history/{}", history[0]));
    assert_eq!(status, 200);
    assert!(text.contains("Human: High water at noon."), "{}", text.chars().take(200).collect::<String>());
}

#[test]
fn skills_of_users_come_from_the_bucket_by_their_digest() {
    let model = FakeModel::start(Vec::new());
    let (world, bucket) = with_bucket(&model);
    let mut server = Server::start(&world);
    let ada = server.client("admin");
    let look = added(&ada, &skill("knots", "Ties knots of sailors.", "bowline"));
    trust(&ada, &look);
    server.kill();
    forget_files(&world);

    let (mut server, ada) = again(&world, &ada);
    assert_eq!(ada.get("/skills/knots")["instructions"], "Run scripts/say.sh.");
    model.then(vec![
        Answer::call("skill_run", json!({"skill": "knots", "command": "sh scripts/say.sh"})),
        Answer::text("A bowline."),
    ]);
    let thread = ada.thread();
    say(&ada, &thread, "Tie a knot.");
    assert!(last_answer(&ada, &thread).contains("bowline"));
    server.kill();
    forget_files(&world);

    // Bytes that somebody changed are no skill.
    bucket.damage("/blobs/");
    let (_server, ada) = again(&world, &ada);
    assert_eq!(ada.ask("GET", "/skills/knots", None).status, 404);
}
