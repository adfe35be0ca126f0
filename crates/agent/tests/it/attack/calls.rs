//! Models that call tools with what no tool was made for, and tools that no model deserves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use prowess_agent::message::AssistantPart;
use prowess_agent::middleware::{Eviction, Files, StateFiles, SubAgents, Todos, WorkspaceFiles};
use prowess_agent::model::ToolDefinition;
use prowess_agent::{
    Agent, FunctionTool, Message, NoWatcher, ThreadId, ThreadUpdate, Tool, ToolAnswer, ToolCall, ToolContext,
    ToolOutput, ToolResult, TurnOutcome, TurnStatus,
};
use prowess_skills::Dialect;
use serde_json::{Value, json};

use super::soon;
use crate::agent::{Nothing, add, results};
use crate::says::{Says, calls, text};
use crate::world::{World, open};

/// Every file tool, with every hostile path and number.
#[tokio::test]
async fn paths_and_numbers_that_nobody_means() {
    let world = World::new(&[]).await;
    std::fs::write(world.scratch.path().join("secret"), "the secret").unwrap();
    std::os::unix::fs::symlink(world.scratch.path(), world.root().join("out")).unwrap();
    let long = "a/".repeat(100_000);
    let paths = [
        "../secret",
        "/../secret",
        "/skills/../../secret",
        "/skills/out/secret",
        "skills/out/secret",
        "\0",
        "/a\0b",
        "",
        "/",
        "//",
        "/..",
        "~/x",
        "file:///etc/passwd",
        "/proc/self/environ",
        "\u{202e}x",
        "C:\\x",
        long.as_str(),
        "/skills/out",
    ];
    let mut made = Vec::new();
    for path in paths {
        made.push((
            "read_file",
            json!({"file_path": path, "offset": u64::MAX, "limit": u64::MAX, "piece": u64::MAX}),
        ));
        made.push(("read_file", json!({"file_path": path})));
        made.push(("read_file", json!({"file_path": path, "offset": -1, "limit": 1e300})));
        made.push((
            "edit_file",
            json!({"file_path": path, "old_string": "", "new_string": "x", "replace_all": true}),
        ));
        made.push(("edit_file", json!({"file_path": path, "old_string": "secret", "new_string": "known"})));
        made.push(("ls", json!({"path": path})));
        made.push(("glob", json!({"pattern": path, "path": path})));
        made.push(("glob", json!({"pattern": format!("{path}/**/*secret*")})));
        made.push(("grep", json!({"pattern": "the secret", "path": path, "glob": path})));
        made.push(("grep", json!({"pattern": "(((((a{99}){99}){99}){99}){99})", "path": path})));
    }
    for path in paths.iter().filter(|path| !path.is_empty() && **path != "\u{202e}x") {
        made.push(("write_file", json!({"file_path": path, "content": "the secret"})));
    }
    let made: Vec<(String, &str, String)> = made
        .into_iter()
        .enumerate()
        .map(|(number, (tool, arguments))| (format!("c{number}"), tool, arguments.to_string()))
        .collect();
    let said = made.chunks(100).map(|chunk| {
        let chunk: Vec<(&str, &str, &str)> =
            chunk.iter().map(|(id, tool, arguments)| (id.as_str(), *tool, arguments.as_str())).collect();
        calls(&chunk)
    });
    let model = Says::new(said.chain([text("done")]));
    let agent = world.agent(model).middleware(Files::new(world.backend())).build().unwrap();
    let mut thread = open(&agent).await;
    let turn = soon(thread.say("go", &NoWatcher)).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
    for ((_, tool, arguments), result) in made.iter().zip(results(&thread)) {
        let shown: String = arguments.chars().take(200).collect();
        assert!(!result.contains("not made for"), "{tool} {shown}: {result}");
        let found = result.contains("the secret") && !result.starts_with("Error");
        assert!(!found, "{tool} {shown}: {result}");
        assert!(result.len() < 100_000, "{tool} {shown}: {} bytes", result.len());
    }
    let kept = std::fs::read_to_string(world.scratch.path().join("secret")).unwrap();
    assert_eq!(kept, "the secret");
}

/// Ten megabytes of arguments are refused, or done; the next call works.
#[tokio::test]
async fn arguments_of_ten_megabytes() {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    let big = "x".repeat(10_000_000);
    let (name, task) = (json!({"skill_name": big}).to_string(), json!({"description": big}).to_string());
    let todo = json!({"todos": [{"content": big, "status": "pending"}]}).to_string();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut said: Vec<_> = [
        ("load_skill", name.as_str()),
        ("write_todos", todo.as_str()),
        ("add", deep.as_str()),
        (&big[..1_000_000], "{}"),
        ("task", task.as_str()),
    ]
    .into_iter()
    .map(|(tool, arguments)| calls(&[("a", tool, arguments)]))
    .collect();
    said.extend([text("task done"), text("done")]);
    let model = Says::new(said);
    let worker = Agent::builder(model.clone()).build().unwrap();
    let builder = world.agent(model).tool(add()).middleware(world.skills(Dialect::DeepAgents));
    let agent = builder.middleware(Todos).middleware(SubAgents::new(worker)).build().unwrap();
    let mut thread = open(&agent).await;
    let turn = soon(thread.say("go", &NoWatcher)).await.unwrap();
    let results = results(&thread);
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded), "{}", results.len());
    for result in &results {
        assert!(result.len() < 100_000, "{} bytes: {}", result.len(), &result[..200]);
    }
}

/// The same skill, loaded eight times at once, is loaded once, and said once.
#[tokio::test]
async fn the_same_skill_many_times_at_once() {
    let world = World::new(&[("pdf", "", "The way of pdf.")]).await;
    let load = r#"{"skill_name": "pdf"}"#;
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|id| (id, "load_skill", load));
    let model = Says::new([calls(&ids), text("done")]);
    let agent = world.agent(model).middleware(world.skills(Dialect::DeepAgents)).build().unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let bodies = results(&thread).iter().filter(|result| result.contains("The way of pdf.")).count();
    assert_eq!(bodies, 1, "{:?}", results(&thread));
}

/// `execute` reaches neither other threads' files nor the database nor this machine's; and it does not run for ever.
#[tokio::test]
async fn commands_reach_nothing_but_their_own_files() {
    let world = World::new(&[]).await;
    let files = WorkspaceFiles::new(world.runner());
    let scratch = world.scratch.path().display().to_string();
    let look = json!({"command": format!(
        "ls / /tmp; cat {scratch}/threads.db; ls {scratch}; ls -R .. ; cat /etc/shadow; cat /proc/1/environ; echo looked"
    )});
    let other =
        json!({"command": "echo of another > mine; ln -s / root; ln -s /etc large_tool_results; echo made"});
    let never = json!({"command": "echo short", "timeout": u64::MAX});
    let read = json!({"file_path": "/root/etc/passwd"});
    let flood = json!({"command": "head -c 3000000 /dev/zero | tr '\\0' y"});
    let (look, other, never) = (look.to_string(), other.to_string(), never.to_string());
    let (read, flood) = (read.to_string(), flood.to_string());
    let model = Says::new([
        calls(&[("a", "execute", &other)]),
        calls(&[("b", "execute", &flood), ("c", "read_file", &read)]),
        text("done"),
        calls(&[("a", "execute", &look), ("b", "execute", &never)]),
        text("done"),
    ]);
    let agent = world
        .agent(model)
        .middleware(files.clone())
        .middleware(Eviction::new(files.clone()))
        .middleware(Files::new(files))
        .build()
        .unwrap();
    let mut first = open(&agent).await;
    soon(first.say("go", &NoWatcher)).await.unwrap();
    let made = results(&first);
    assert!(made[0].contains("made"), "{made:?}");
    assert!(made[1].len() < 100_000 && !made[2].contains("root:"), "{} {}", made[1], made[2]);
    assert!(!std::path::Path::new(&format!("/etc/{}", first.id())).exists());
    let mut second = open(&agent).await;
    soon(second.say("go", &NoWatcher)).await.unwrap();
    let seen = &results(&second)[0];
    assert!(seen.contains("looked"), "{seen}");
    for hidden in ["SQLite format", "mine", "of another", "workspaces", "root:"] {
        assert!(!seen.contains(hidden), "{hidden}: {seen}");
    }
    assert!(results(&second)[1].contains("short"), "{}", results(&second)[1]);
}

/// A tool that prepares well, and breaks when it is to finish in its order.
#[derive(Debug)]
struct Breaks;

#[async_trait]
impl Tool for Breaks {
    fn definition(&self) -> Arc<ToolDefinition> {
        let parameters = json!({"type": "object"});
        ToolDefinition::new("breaks", "Breaks.", parameters).into()
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    async fn call(&self, _: Value, _: ToolContext<'_>) -> ToolOutput {
        ToolOutput::InOrder(Box::new(|_| panic!("on purpose")))
    }
}

/// A panic is an answer, also of what is finished in order; its neighbours are answered.
#[tokio::test]
async fn a_tool_that_breaks_in_order_is_an_answer() {
    let sum = r#"{"numbers": [1, 2]}"#;
    let model = Says::new([calls(&[("a", "breaks", "{}"), ("b", "add", sum)]), text("done")]);
    let agent = Agent::builder(model).tool(Arc::new(Breaks)).tool(add()).build().unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    assert!(results(&thread)[0].starts_with("Error") && results(&thread)[1] == "3", "{:?}", results(&thread));
}

/// An answer of 50 MB goes into a file, or away; the thread's files have their limit, and the turn goes on.
#[tokio::test]
async fn gigantic_answers_fill_nothing_but_their_room() {
    let giant: Arc<dyn Tool> = Arc::new(FunctionTool::new("giant", "Much.", |_: Nothing| async {
        Ok(ToolAnswer::text("ä".repeat(25_000_000)))
    }));
    let model = Says::new([
        calls(&[("a", "giant", "{}"), ("b", "giant", "{}"), ("c", "giant", "{}")]),
        calls(&[("d", "write_file", r#"{"file_path": "/small", "content": "fits"}"#)]),
        text("done"),
    ]);
    let agent = Agent::deep_builder(model.clone()).tool(giant).build().unwrap();
    let mut thread = open(&agent).await;
    assert_eq!(soon(thread.say("go", &NoWatcher)).await.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
    let sizes: Vec<usize> = results(&thread).iter().map(String::len).collect();
    assert!(sizes.iter().all(|size| *size < 10_000), "{sizes:?}");
    let kept: usize = StateFiles::of(thread.states()).map(|(_, bytes)| bytes.len()).sum();
    assert!(kept < 64 * 1024 * 1024 && kept > 50_000_000, "{kept}");
    assert!(results(&thread)[3].contains("Wrote"), "{:?}", results(&thread)[3]);
}

/// A watcher that panics at any sight spoils its own turn, and nothing that is stored.
#[tokio::test]
async fn a_watcher_that_panics() {
    use std::panic::AssertUnwindSafe;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;

    let world = World::new(&[]).await;
    let sum = r#"{"numbers": [1, 2]}"#;
    for moment in 0..9 {
        let model = Says::new([calls(&[("a", "add", sum)]), text("done"), text("done"), text("done")]);
        let agent = world.agent(model).tool(add()).build().unwrap();
        let mut thread = open(&agent).await;
        let seen = AtomicUsize::new(0);
        let watcher =
            |_: ThreadUpdate<'_>| assert!(seen.fetch_add(1, Ordering::SeqCst) != moment, "on purpose");
        let said = AssertUnwindSafe(thread.say("go", &watcher)).catch_unwind().await;
        assert!(said.is_err(), "{moment}: {said:?}");
        let turn = soon(thread.go_on(&NoWatcher)).await.unwrap();
        assert!(
            matches!(turn, TurnStatus::Ended(TurnOutcome::Responded) | TurnStatus::Idle),
            "{moment}: {turn:?}"
        );
        let live = thread.state().clone();
        let id = thread.id().clone();
        thread.close().await.unwrap();
        let read = agent.open(id).await.unwrap();
        assert_eq!(live.messages(), read.state().messages(), "{moment}");
        assert_eq!(read.state().outcome(), Some(&TurnOutcome::Responded), "{moment}");
    }
}

/// A tool that blocks its thread loses the lease at worst, and never writes over another's work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_beyond_its_lease() {
    let world = World::new(&[]).await;
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let block: Arc<dyn Tool> = Arc::new(FunctionTool::new("block", "Blocks.", move |_: Nothing| {
        let held = Arc::clone(&held);
        async move {
            held.lock().unwrap().recv_timeout(Duration::from_secs(60)).unwrap();
            Ok(ToolAnswer::text("blocked"))
        }
    }));
    let model = Says::new([calls(&[("a", "block", "{}")]), text("by another")]);
    let builder = world.agent(model).tool(block);
    let agent = builder.options(super::short_lease()).build().unwrap();
    let id = ThreadId::new();
    let mut one = agent.open(id.clone()).await.unwrap();
    let working = tokio::spawn(async move { one.say("go", &NoWatcher).await });
    // Another process takes over once nobody renews the lease: the call is not made again.
    let opened = async {
        loop {
            match agent.open(id.clone()).await {
                Ok(thread) => return thread,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let mut another = soon(opened).await;
    let turn = soon(another.go_on(&NoWatcher)).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::Responded));
    assert!(results(&another)[0].contains("not known"), "{:?}", results(&another));
    let_go.send(()).unwrap();
    let turn = soon(working).await.unwrap();
    assert!(turn.is_err(), "{turn:?}");
    another.close().await.unwrap();
    let read = agent.open(id).await.unwrap();
    assert_eq!(results(&read).len(), 1);
}

/// A foreign conversation with calls of one name, results before their calls, and names that were there before.
#[tokio::test]
async fn a_hostile_conversation_is_mended() {
    let call = |id: &str, arguments: &str| {
        let (name, arguments) = ("add".to_owned(), arguments.to_owned());
        AssistantPart::ToolCall(ToolCall { id: id.into(), name, arguments })
    };
    let result = |id: &str, text: &str| {
        Message::tool(ToolResult {
            call: id.into(),
            name: "add".to_owned(),
            text: text.to_owned(),
            is_error: false,
        })
    };
    let mut twin = Message::assistant(vec![call("x", "{}"), call("x", "{broken"), call("", "{}")]);
    twin.id = "m".into();
    let mut same = Message::user("same name");
    same.id = "m".into();
    let messages = vec![
        result("x", "before its call"),
        twin,
        same,
        result("x", "one"),
        result("x", "two"),
        result("never", "nobody asked"),
        Message::assistant(vec![call("x", "{}")]),
        Message::assistant(Vec::new()),
    ];
    let world = World::new(&[]).await;
    let model = Says::new([text("well")]);
    let agent = world.agent(model.clone()).tool(add()).build().unwrap();
    let mut thread = open(&agent).await;
    thread.import(messages).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    let seen = model.request(0);
    let mut open_calls: Vec<String> = Vec::new();
    for message in &seen.messages {
        let ids: Vec<String> = message.tool_calls().map(|call| call.id.as_str().to_owned()).collect();
        let all: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(all.len(), ids.len(), "two calls of one answer have one name: {ids:?}");
        assert!(ids.iter().all(|id| !id.is_empty()), "a call has no name");
        if let prowess_agent::message::Content::Tool(result) = &message.content {
            let place = open_calls.iter().position(|id| id == result.call.as_str());
            open_calls.remove(place.expect("a result without its call"));
        } else {
            assert_eq!(open_calls, Vec::<String>::new(), "a call without its result");
            open_calls = ids;
        }
    }
    let live = thread.state().messages().to_vec();
    let id = thread.id().clone();
    thread.close().await.unwrap();
    assert_eq!(agent.open(id).await.unwrap().state().messages(), live, "it is mended the same way each time");
}
