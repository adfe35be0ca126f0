//! Eviction: what is large is in a file, and a model can read it to its end.

use std::sync::Arc;

use async_trait::async_trait;
use prowess_agent::middleware::{Eviction, Files, StateFiles};
use prowess_agent::model::ToolDefinition;
use prowess_agent::{
    Agent, FunctionTool, MemoryThreads, NoWatcher, ThreadId, Tool, ToolAnswer, ToolContext, ToolOutput,
};
use prowess_skills::Dialect;
use serde_json::{Value, json};

use crate::agent::{Nothing, results};
use crate::says::{Says, calls, text};
use crate::world::{World, open};

/// One line of 100 KB, and a process that dies between the call and the reading.
#[tokio::test]
async fn one_line_of_100_kb_can_be_read_to_its_end() {
    let line: String = (0..20_000).map(|number| format!("{number:05}")).collect();
    let said = line.clone();
    let long = FunctionTool::new("long", "Says much.", move |_: Nothing| {
        let said = said.clone();
        async move { Ok(ToolAnswer::text(said)) }
    });
    let long: Arc<dyn Tool> = Arc::new(long);
    let files = StateFiles::new();
    let store = Arc::new(MemoryThreads::new());
    let build = |model: Arc<Says>| {
        Agent::builder(model)
            .middleware(Eviction::new(files.clone()))
            .middleware(files.clone())
            .middleware(Files::new(files.clone()))
            .tool(long.clone())
            .store(store.clone())
            .build()
            .unwrap()
    };
    let id = ThreadId::new();
    let first = build(Says::new([calls(&[("a", "long", "{}")]), text("I see.")]));
    let mut thread = first.open(id.clone()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    let result = results(&thread).remove(0);
    assert!(result.len() < 5_000, "{result}");
    let path = result.split("All of it is in ").nth(1).unwrap().split(':').next().unwrap().to_owned();
    thread.close().await.unwrap();

    let (mut whole, mut from) = (String::new(), Some((0, 0)));
    while let Some((offset, piece)) = from {
        let arguments = json!({"file_path": path, "offset": offset, "piece": piece}).to_string();
        let agent = build(Says::new([calls(&[("r", "read_file", &arguments)]), text("on")]));
        let mut thread = agent.open(id.clone()).await.unwrap();
        thread.say("read", &NoWatcher).await.unwrap();
        let answer = results(&thread).pop().unwrap();
        thread.close().await.unwrap();
        answer.lines().filter_map(|row| row.split_once('\t')).for_each(|(_, piece)| whole.push_str(piece));
        from = answer.rsplit_once("read on with offset ").map(|(_, next)| {
            let numbers: Vec<u64> =
                next.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
            (numbers[0], numbers.get(1).copied().unwrap_or(0))
        });
    }
    assert_eq!(whole, line);
}

/// What a model calls by a wrong name, or with wrong arguments, is not answered with a flood.
#[tokio::test]
async fn foolish_calls_get_no_large_answers() {
    let flood = "x".repeat(200_000);
    let model = Says::new([
        calls(&[
            ("a", &flood, "{}"),
            ("b", "read_file", &json!({"file_path": flood}).to_string()),
            ("c", "read_file", &json!({"file_path": 1, &flood: flood}).to_string()),
            ("d", "read_file", &json!({"file_path": "/a", "offset": flood}).to_string()),
            ("e", "grep", &json!({"pattern": flood}).to_string()),
        ]),
        text("I see."),
    ]);
    let files = StateFiles::new();
    let eviction = Eviction::new(files.clone());
    let agent = Agent::builder(model)
        .middleware(files.clone())
        .middleware(eviction)
        .middleware(Files::new(files))
        .build()
        .unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    for result in results(&thread) {
        assert!(result.len() < 5_000, "{} bytes: {}", result.len(), &result[..200]);
    }
}

/// Says much, once the calls before it are done.
#[derive(Debug)]
struct Ordered;

#[async_trait]
impl Tool for Ordered {
    fn definition(&self) -> Arc<ToolDefinition> {
        let parameters = json!({"type": "object"});
        ToolDefinition::new("ordered", "Says much.", parameters).into()
    }

    async fn call(&self, _: Value, _: ToolContext<'_>) -> ToolOutput {
        ToolOutput::InOrder(Box::new(|_| ToolAnswer::text("é".repeat(100_000))))
    }
}

#[tokio::test]
async fn what_is_finished_in_order_is_no_flood_either() {
    let skills = World::new(&[("long", "", &"A long way. ".repeat(10_000))]).await;
    let model = Says::new([
        calls(&[("a", "ordered", "{}"), ("b", "load_skill", r#"{"skill_name": "long"}"#)]),
        text("I see."),
    ]);
    let agent = skills
        .agent(model)
        .middleware(Eviction::new(skills.backend()))
        .middleware(skills.skills(Dialect::DeepAgents))
        .tool(Arc::new(Ordered))
        .build()
        .unwrap();
    let mut thread = open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    let results = results(&thread);
    let begins = "The result is large (200000 bytes), and the rest is lost, because this tool cannot wait for a file. It begins:";
    assert!(results[0].starts_with(begins) && results[0].len() < 5_000, "{}", results[0]);
    assert!(results[1].len() > 120_000, "a skill's text stays in its frame");
}
