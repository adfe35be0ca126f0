//! Middleware decide by the kind of a tool, never by its name; and the outcome of a call is data.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use prowess_agent::agent::NextTool;
use prowess_agent::middleware::MiddlewareError;
use prowess_agent::middleware::{
    Eviction, Files, Keep, SubAgents, Summarisation, Todos, ToolPermissions, Trigger, TruncateArguments,
};
use prowess_agent::thread_state::NextStep;
use prowess_agent::tool::{RefusedBy, ToolData, ToolKind};
use prowess_agent::{
    Agent, CallReply, Event, FunctionTool, MemoryThreads, Middleware, MiddlewareAction, MiddlewareContext,
    NoWatcher, ThreadId, ThreadStore, Tool, ToolAnswer, ToolOutput, TurnStatus,
};
use prowess_backend::{Backend, MemoryBackend};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{Dialect, SkillToolKind};
use serde_json::json;

use crate::agent::results;
use crate::says::{Says, calls, text};
use crate::world::World;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Said {
    #[serde(default, rename = "content")]
    _content: String,
}

/// A tool of this name that does this, and says much or nothing.
fn tool(name: &str, kind: ToolKind, answer: &'static str, times: usize) -> Arc<dyn Tool> {
    let says = move |_: Said| async move { Ok(ToolAnswer::text(answer.repeat(times))) };
    Arc::new(FunctionTool::new(name, "Does something.", says).tool_kind(kind))
}

fn files() -> Arc<dyn Backend> {
    Arc::new(MemoryBackend::new())
}

/// Notes what the tools of calls do, before they are made and around them.
#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<BTreeMap<String, Noted>>>);

/// Before, and around.
type Noted = (Option<ToolKind>, Option<ToolKind>);

#[async_trait]
impl Middleware for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    async fn after_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        if let NextStep::CallTools(calls) = context.thread_state.next() {
            for call in calls {
                let kind = context.tool_kind(&call.call.name);
                self.0.lock().unwrap().entry(call.call.name).or_default().0 = kind;
            }
        }
        Ok(Vec::new())
    }

    async fn wrap_tool_call(&self, _: MiddlewareContext<'_>, next: NextTool<'_>) -> ToolOutput {
        self.0.lock().unwrap().entry(next.call.name.clone()).or_default().1 = Some(next.kind());
        next.call().await
    }
}

#[tokio::test]
async fn every_tool_says_what_it_does() {
    let skills = World::new(&[("pdf", "", "Read it.")]).await;
    let expected = [
        ("ls", ToolKind::List),
        ("read_file", ToolKind::Read),
        ("write_file", ToolKind::Write),
        ("edit_file", ToolKind::Edit),
        ("copy_file", ToolKind::Copy),
        ("glob", ToolKind::Find),
        ("grep", ToolKind::Search),
        ("write_todos", ToolKind::Todo),
        ("task", ToolKind::Task),
        ("load_skill", ToolKind::Skill(SkillToolKind::Load)),
        ("other", ToolKind::Other),
    ];
    let all: Vec<_> = expected.iter().map(|(name, _)| (*name, *name, "{}")).collect();
    let model = Says::new([calls(&all), text("done")]);
    let helper = Agent::builder(Says::new([])).build().unwrap();
    let notes = Notes::default();
    let agent = skills
        .agent(model)
        .middleware(notes.clone())
        .middleware(skills.skills(Dialect::DeepAgents))
        .middleware(Todos)
        .middleware(Files::new(files()))
        .middleware(SubAgents::new(helper))
        .tool(tool("other", ToolKind::Other, "x", 1))
        .build()
        .unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    let noted = notes.0.lock().unwrap();
    for (name, kind) in expected {
        assert_eq!(noted[name], (Some(kind), Some(kind)), "{name}");
    }
}

fn shortening(model: &Arc<Says>) -> Summarisation {
    let mut truncate = TruncateArguments::default();
    truncate.trigger = Trigger::Messages(1);
    truncate.keep = Keep::Messages(1);
    truncate.max_length = 10;
    Summarisation::new(model.clone(), files()).truncate_arguments(truncate)
}

/// Which of the calls in the first answer that a model was shown are shortened.
fn shortened(model: &Says, request: usize) -> Vec<bool> {
    let messages = model.request(request).messages;
    messages[1].tool_calls().map(|call| call.arguments.contains("truncated")).collect()
}

#[tokio::test]
async fn arguments_are_shortened_by_what_a_tool_does() {
    let long = json!({"content": "x".repeat(100)}).to_string();
    let model = Says::new([calls(&[("a", "put", &long), ("b", "write_file", &long)]), text("a"), text("b")]);
    let tools = [tool("put", ToolKind::Write, "x", 1), tool("write_file", ToolKind::Other, "x", 1)];
    let store = Arc::new(MemoryThreads::new());
    let [put, other] = tools.clone();
    let agent = Agent::builder(model.clone()).middleware(shortening(&model)).store(store.clone());
    let agent = agent.tool(put).tool(other).build().unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    thread.say("go on", &NoWatcher).await.unwrap();
    assert_eq!(shortened(&model, 2), [true, false], "whatever it is called");
    thread.close().await.unwrap();

    // An agent without the tool: nobody can read again what was written.
    let model = Says::new([text("c")]);
    let [_, other] = tools;
    let agent = Agent::builder(model.clone())
        .middleware(shortening(&model))
        .store(store)
        .tool(other)
        .build()
        .unwrap();
    agent.open(id).await.unwrap().say("and now?", &NoWatcher).await.unwrap();
    assert_eq!(shortened(&model, 0), [false, false]);
}

#[tokio::test]
async fn results_are_put_away_by_what_a_tool_does() {
    let model = Says::new([calls(&[("a", "look", "{}"), ("b", "read_file", "{}")]), text("done")]);
    let agent = Agent::builder(model)
        .middleware(Eviction::new(files()))
        .tool(tool("look", ToolKind::Read, "x", 100_000))
        .tool(tool("read_file", ToolKind::Other, "x", 100_000))
        .build()
        .unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    let results = results(&thread);
    assert_eq!(results[0].len(), 100_000, "it is in a file");
    assert!(results[1].starts_with("The result is large"), "{}", &results[1][..100]);
}

async fn answers(store: &MemoryThreads, id: &ThreadId) -> Vec<ToolAnswer> {
    let events = store.events(id, 0, 1000).await.unwrap().into_iter();
    let answers = events.filter_map(|stored| match stored.event {
        Event::ToolAnswered { answer, .. } => Some(answer),
        _ => None,
    });
    answers.collect()
}

#[tokio::test]
async fn who_refused_a_call_is_data() {
    let rules = [
        Rule::new("tool", "*", Decision::Allow),
        Rule::new("tool", "write_todos", Decision::Deny),
        Rule::new("read", "*", Decision::Ask),
    ];
    let permissions = Permissions::unattended(Policy::new().rules(RuleSource::User, rules));
    let model = Says::new([
        calls(&[("a", "write_todos", r#"{"todos": []}"#), ("b", "ls", r#"{"path": "/"}"#)]),
        text("I see."),
    ]);
    let store = Arc::new(MemoryThreads::new());
    let agent = Agent::builder(model)
        .middleware(ToolPermissions::new(permissions.clone()))
        .middleware(Todos)
        .middleware(Files::new(files()).permissions(permissions))
        .store(store.clone())
        .build()
        .unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    let TurnStatus::Waiting(waiting) = thread.say("go", &NoWatcher).await.unwrap() else { panic!("it asks") };
    let no = CallReply::Reject { message: "not here".to_owned() };
    thread.reply(&waiting[0], no, &NoWatcher).await.unwrap();
    let data: Vec<_> = answers(&store, &id).await.into_iter().map(|answer| answer.data.unwrap()).collect();
    let by_person =
        ToolData::Refused { by: RefusedBy::Person, message: Some("not here".to_owned()), rule: None };
    assert_eq!(data, [ToolData::Refused { by: RefusedBy::Rule, message: None, rule: None }, by_person]);
}

/// What is stored stays readable: answers of before have no data.
#[test]
fn the_stored_form_of_data() {
    let before = json!({"event": "tool_answered", "call": "a", "text": "Error: no.", "is_error": true});
    let event: Event = serde_json::from_value(before.clone()).unwrap();
    assert_eq!(serde_json::to_value(&event).unwrap(), before);
    let answer = ToolAnswer::refused("Error: no.", RefusedBy::Nobody);
    let event = Event::ToolAnswered { call: "a".into(), answer };
    let now = json!({
        "event": "tool_answered", "call": "a", "text": "Error: no.", "is_error": true,
        "data": {"kind": "refused", "by": "nobody"},
    });
    assert_eq!(serde_json::to_value(&event).unwrap(), now);
    assert_eq!(serde_json::from_value::<Event>(now).unwrap(), event);
}
