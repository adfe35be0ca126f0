//! What an agent tells of its work, as a collector gets it.

mod collector;
mod tree;

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;
use prowess_agent::middleware::{Skills, SubAgents};
use prowess_agent::model::ModelErrorKind;
use prowess_agent::telemetry::{ExportError, Exporter};
use prowess_agent::tool::ToolFailure;
use prowess_agent::{
    Agent, FunctionTool, Model, NoWatcher, Thread, ThreadId, Tool, ToolAnswer, TurnOutcome, Usage,
};
use prowess_models::{OpenAi, Scripted, ScriptedTurn};
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{Dialect, RunSetup, SessionOptions, SkillSession};
use prowess_workspace::{Artifacts, LocalExecutor, LocalOptions, Runner, Workspaces};
use serde_json::json;
use tokio::sync::Barrier;
use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::layer::SubscriberExt as _;

use self::collector::{Collector, attribute};
use crate::agent::Nothing;

/// What may be in no span, in everything that is said, thought, handed over, written and answered.
const SECRET: &str = "secret-word";

/// Tools that wait for each other, so that both are made at the same time, and then tell of something themselves.
fn meeting() -> [Arc<dyn Tool>; 2] {
    let barrier = Arc::new(Barrier::new(2));
    let tool = |name: &str, answer: fn() -> Result<ToolAnswer, ToolFailure>| {
        let (barrier, named) = (Arc::clone(&barrier), name.to_owned());
        let tool = FunctionTool::new(name, "Does something.", move |_: Nothing| {
            let (barrier, named) = (Arc::clone(&barrier), named.clone());
            async move {
                barrier.wait().await;
                tracing::info_span!("inside", tool = named).in_scope(|| tracing::error!("{SECRET}"));
                answer()
            }
        });
        Arc::new(tool) as Arc<dyn Tool>
    };
    [
        tool("good", || Ok(ToolAnswer::text(SECRET))),
        tool("bad", || Err(ToolFailure(format!("it failed: {SECRET}")))),
    ]
}

fn skills(scratch: &std::path::Path) -> Skills {
    std::fs::set_permissions(scratch, PermissionsExt::from_mode(0o711)).unwrap();
    let (root, catalog) = crate::middleware::skills(&["greet"]);
    let root = Arc::new(root);
    let runner = Runner {
        workspaces: Workspaces::open(scratch.join("workspaces")).unwrap(),
        artifacts: Some(Arc::new(Artifacts::in_memory())),
        executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
    };
    Skills::new(move |thread| {
        let _root = Arc::clone(&root);
        let rule = Rule::new("run", "*", Decision::Allow);
        SkillSession::builder(catalog.clone())
            .options(SessionOptions::new(Dialect::Trpc))
            .permissions(Permissions::unattended(Policy::new().rules(RuleSource::User, [rule])))
            .runs(RunSetup::new(runner.clone(), thread.as_str()))
    })
}

async fn open(model: impl Model + 'static) -> Thread {
    Agent::builder(Arc::new(model)).build().unwrap().open(ThreadId::new()).await.unwrap()
}

/// The subscriber of this thread, while the guard is there.
fn told_here(exporter: &Exporter) -> DefaultGuard {
    set_default(tracing_subscriber::registry().with(exporter.layer()))
}

/// The one test that tells the whole process's spans: some are of other threads.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_a_tree_of_spans() {
    let (collector, address) = Collector::start();
    let exporter = Exporter::new(&address, "tree").unwrap();
    let subscriber = tracing_subscriber::registry().with(exporter.layer());
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let usage = Usage::new(120, 7).cache_read(100).cache_written(20);
    let run = json!({
        "skill": "greet",
        "command": format!("echo {SECRET} | tee out/{SECRET}.txt"),
        "output_files": ["out/*"],
        "save_as_artifacts": true,
    });
    let model = Scripted::new([
        ScriptedTurn::new()
            .think(SECRET)
            .say(SECRET)
            .call("good", json!({}))
            .call("bad", json!({}))
            .usage(usage),
        ScriptedTurn::new()
            .call("task", json!({"description": SECRET}))
            .call("task", json!({"description": SECRET, "subagent_type": "broken"})),
        ScriptedTurn::new().call("skill_run", run),
        ScriptedTurn::new()
            .call("skill_exec", json!({"skill": "greet", "command": "true", "yield_ms": 20_000})),
        ScriptedTurn::new().say(SECRET),
    ])
    .model_name("openai:big");
    let sub_agent = |turn: ScriptedTurn| {
        Agent::builder(Arc::new(Scripted::new([turn]).model_name("small"))).build().unwrap()
    };
    let sub_agents = SubAgents::new(sub_agent(ScriptedTurn::new().say(SECRET))).sub_agent(
        "broken",
        "Fails.",
        sub_agent(ScriptedTurn::new().fail(ModelErrorKind::Overloaded, SECRET)),
    );
    let scratch = tempfile::tempdir().unwrap();
    let [good, bad] = meeting();
    let agent = Agent::builder(Arc::new(model))
        .name("main")
        .prompt(SECRET)
        .tool(good)
        .tool(bad)
        .middleware(sub_agents)
        .middleware(skills(scratch.path()))
        .build()
        .unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    let turn = thread.say(SECRET, &NoWatcher).await.unwrap();
    assert_eq!(turn, prowess_agent::TurnStatus::Ended(TurnOutcome::Responded));
    let results = crate::agent::results(&thread);
    assert!(results[4].contains("\"exit_code\":0") && results[4].contains("artifact_files"), "{results:?}");
    assert!(results[5].contains("\"status\":\"ended\""), "{results:?}");
    exporter.shutdown().unwrap();

    let spans = collector.spans();
    insta::assert_snapshot!(tree::of_thread(&spans, thread.id()));
    // What may outlive its call is linked to it.
    let call = spans.iter().find(|span| span.name == "execute_tool skill_exec").unwrap();
    let is_linked = |span: &&Span| span.links.iter().any(|link| link.span_id == call.span_id);
    let linked: Vec<&Span> = spans.iter().filter(is_linked).collect();
    assert_eq!(linked.len(), 1);
    insta::assert_snapshot!("what_goes_on_after_its_call", tree::below(&spans, linked[0], thread.id()));
    assert!(!collector.has(SECRET));
    assert_eq!(collector.resource("service.name").as_deref(), Some("tree"));
    assert!(collector.requests.lock().unwrap()[0].0.starts_with("POST /v1/traces "));
}

#[tokio::test]
async fn the_model_that_answers_is_named_as_its_provider_does() {
    let (collector, address) = Collector::start();
    let chunk = json!({"model": "big-2026-11-15", "choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]});
    let events = format!("data: {chunk}\n\ndata: {chunk}\n\ndata: [DONE]\n\n");
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{events}",
        events.len()
    );
    let (_, provider) = Collector::answering(answer);
    let exporter = Exporter::new(&format!("{address}/v1/traces"), "names").unwrap();
    let guard = told_here(&exporter);
    let mut thread = open(OpenAi::builder("big").base_url(provider).key("key".into()).build().unwrap()).await;
    thread.say("hello", &NoWatcher).await.unwrap();
    drop(guard);
    exporter.shutdown().unwrap();
    let spans = collector.spans();
    let chat = spans.iter().find(|span| span.name == "chat big").unwrap();
    let told = |key| attribute(&chat.attributes, key);
    assert_eq!(told("gen_ai.provider.name").as_deref(), Some("openai"));
    assert_eq!(told("gen_ai.response.model").as_deref(), Some("big-2026-11-15"));
    assert_eq!(told("gen_ai.response.finish_reasons").as_deref(), Some("[stop]"));
    let named = chat.attributes.iter().filter(|attribute| attribute.key == "gen_ai.response.model");
    assert_eq!(named.count(), 1);
}

/// How long a turn or an end may take at most beside a collector that is not there.
const BOUND: Duration = Duration::from_secs(8);

async fn turn_beside(exporter: Exporter) -> Result<(), ExportError> {
    let guard = told_here(&exporter);
    let turns = async {
        for _ in 0..100 {
            let mut thread = open(Scripted::new([ScriptedTurn::new().say("hi")])).await;
            thread.say("hello", &NoWatcher).await.unwrap();
        }
    };
    tokio::time::timeout(BOUND, turns).await.unwrap();
    drop(guard);
    let began = Instant::now();
    let ended = exporter.shutdown();
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    ended
}

#[tokio::test]
async fn a_collector_that_never_answers_delays_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let ended = turn_beside(Exporter::new(&address, "silent").unwrap()).await;
    assert_eq!(ended, Err(ExportError::TooSlow));
}

#[tokio::test]
async fn a_collector_that_is_not_there_delays_nobody_and_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ended = turn_beside(Exporter::new(&address, "gone").unwrap()).await;
    assert_eq!(ended, Err(ExportError::Lost(200)), "a turn and a call of a model, a hundred times");
}

#[tokio::test]
async fn a_collector_elsewhere_is_not_followed() {
    let (elsewhere, address) = Collector::start();
    let moved = format!("HTTP/1.1 307 Moved\r\nlocation: {address}/v1/traces\r\ncontent-length: 0\r\n\r\n");
    let (_, address) = Collector::answering(moved);
    let ended = turn_beside(Exporter::new(&address, "moved").unwrap()).await;
    assert_eq!(ended, Err(ExportError::Lost(200)));
    assert!(elsewhere.requests.lock().unwrap().is_empty());
}

#[test]
fn what_is_no_address_is_refused() {
    for wrong in ["", "localhost:4318", "ftp://localhost", "/v1/traces"] {
        let refused = Exporter::new(wrong, "x").unwrap_err();
        assert_eq!(refused, ExportError::Endpoint(wrong.to_owned()));
    }
}

/// In processes of their own, whose environment is theirs.
#[test]
fn the_environment_says_where_spans_go() {
    const ME: &str = "telemetry::the_environment_says_where_spans_go";
    if std::env::var_os("PROWESS_TEST_CHILD").is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match Exporter::from_env() {
            Ok(Some(exporter)) => runtime.block_on(turn_beside(exporter)).unwrap(),
            other => panic!("it says {other:?}"),
        }
        return;
    }
    let (collector, address) = Collector::start();
    let child = |variables: &[(&str, &str)]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", ME, "--nocapture"]).env("PROWESS_TEST_CHILD", "1");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
            command.env_remove(name);
        }
        let done = command.envs(variables.iter().copied()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.success(), said)
    };
    let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str());
    let (sent, said) = child(&[
        at,
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=opener"),
        ("OTEL_SERVICE_NAME", "by-name"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
    ]);
    assert!(sent, "{said}");
    assert_eq!(collector.spans().len(), 200);
    assert_eq!(collector.resource("service.name").as_deref(), Some("by-name"));
    assert_eq!(collector.resource("deployment.environment.name").as_deref(), Some("test"));
    let head = collector.requests.lock().unwrap()[0].0.clone();
    assert!(head.starts_with("POST /v1/traces ") && head.contains("x-key: opener"), "{head}");

    for (variables, says) in [
        (vec![], "Ok(None)"),
        (vec![at, ("OTEL_SDK_DISABLED", "true")], "Ok(None)"),
        (vec![at, ("OTEL_TRACES_EXPORTER", "none")], "Ok(None)"),
        (vec![at, ("OTEL_TRACES_EXPORTER", "zipkin")], "Unsupported"),
        (vec![at, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "Unsupported"),
        (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere")], "Endpoint"),
    ] {
        let (sent, said) = child(&variables);
        assert!(!sent && said.contains(says), "{variables:?}: {said}");
    }
    assert_eq!(collector.spans().len(), 200);
}
