//! Files in a thread's state: they are what its tools saw, wherever the thread goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use prowess_agent::backends::Backends;
use prowess_agent::middleware::{Files, Keep, StateFiles, Summarisation, Trigger};
use prowess_agent::model::ToolDefinition;
use prowess_agent::thread::{Lease, StoredEvent, ThreadError, ThreadInfo};
use prowess_agent::{
    Agent, AgentBuilder, CallReply, Event, MemoryThreads, Middleware, MiddlewareContext, Model, NoWatcher,
    ThreadId, ThreadStore, ThreadUpdate, Tool, ToolAnswer, ToolContext, ToolOutput, TurnStatus,
};
use prowess_backend::{Backend, Edit, GlobQuery, VirtualPath, WriteMode};
use serde_json::{Value, json};

use crate::agent::results;
use crate::asks::own_question;
use crate::says::{Says, calls, text};

fn with_files(model: Arc<dyn Model>, store: Arc<dyn ThreadStore>) -> AgentBuilder {
    let files = StateFiles::new();
    Agent::builder(model).middleware(files.clone()).middleware(Files::new(files)).store(store)
}

fn write(id: &'static str, path: &str, content: &str) -> (&'static str, &'static str, String) {
    (id, "write_file", json!({"file_path": path, "content": content}).to_string())
}

fn read(id: &'static str, path: &str) -> (&'static str, &'static str, String) {
    (id, "read_file", json!({"file_path": path}).to_string())
}

type Says1 = Result<Vec<prowess_agent::ModelDelta>, prowess_agent::ModelError>;

fn made(list: &[(&'static str, &'static str, String)]) -> Says1 {
    let list: Vec<_> = list.iter().map(|(id, tool, arguments)| (*id, *tool, arguments.as_str())).collect();
    calls(&list)
}

#[tokio::test]
async fn files_are_where_their_thread_is() {
    let store = Arc::new(MemoryThreads::new());
    let model = Says::new([
        made(&[write("a", "/notes.md", "one\n"), write("b", "/more.md", "two\n")]),
        text("written"),
        made(&[read("c", "/notes.md"), read("d", "/more.md")]),
        text("read"),
        made(&[(
            "e",
            "edit_file",
            json!({"file_path": "/notes.md", "old_string": "one", "new_string": "eins"}).to_string(),
        )]),
        text("edited"),
        made(&[read("f", "/notes.md")]),
        text("read"),
        made(&[read("g", "/notes.md")]),
        text("not there"),
    ]);
    let agent = with_files(model, store.clone()).build().unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    thread.say("write", &NoWatcher).await.unwrap();
    thread.close().await.unwrap();

    let mut again = agent.open(id.clone()).await.unwrap();
    again.say("read", &NoWatcher).await.unwrap();
    assert_eq!(results(&again)[2..], ["     1\tone\n", "     1\ttwo\n"]);
    let events = store.events(&id, 0, 1000).await.unwrap().len() as u64;
    let fork = ThreadId::new();
    store.fork(&id, events, &fork).await.unwrap();
    again.say("edit", &NoWatcher).await.unwrap();
    assert_eq!(StateFiles::of(again.states()).last().unwrap().1, "eins\n");

    let mut forked = agent.open(fork).await.unwrap();
    forked.say("read", &NoWatcher).await.unwrap();
    assert_eq!(results(&forked).last().unwrap(), "     1\tone\n", "what came after the fork is not in it");

    let mut another = agent.open(ThreadId::new()).await.unwrap();
    another.say("read", &NoWatcher).await.unwrap();
    assert_eq!(
        results(&another),
        ["Error: /notes.md does not exist; list its directory to see the names in it"]
    );
}

/// Asks a person, and then says what is in a file.
#[derive(Debug)]
struct AsksThenReads(Arc<dyn Backend>);

#[async_trait]
impl Tool for AsksThenReads {
    fn definition(&self) -> Arc<ToolDefinition> {
        let parameters = json!({"type": "object"});
        ToolDefinition::new("ask", "Asks.", parameters).into()
    }

    async fn call(&self, _: Value, context: ToolContext<'_>) -> ToolOutput {
        if context.consultation.is_none() {
            return own_question("may I?").into();
        }
        let file = VirtualPath::parse("/notes.md").unwrap();
        let text = self.0.download(&[file]).await.remove(0).unwrap();
        ToolAnswer::text(String::from_utf8_lossy(&text)).into()
    }
}

#[derive(Clone, Debug)]
struct Asking;

impl Middleware for Asking {
    fn name(&self) -> &str {
        "asking"
    }

    fn tools(&self, context: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        vec![Arc::new(AsksThenReads(Backends::from(StateFiles::new()).at(context)))]
    }
}

/// Two calls at once: one writes and is done, the other waits for a person. The reply comes from another process.
#[tokio::test]
async fn a_call_that_waited_sees_what_the_others_wrote() {
    let store = Arc::new(MemoryThreads::new());
    let both = made(&[("a", "ask", "{}".to_owned()), write("b", "/notes.md", "heron")]);
    let model = Says::new([both, text("done")]);
    let build = || with_files(model.clone(), store.clone()).middleware(Asking).build().unwrap();
    let id = ThreadId::new();
    let mut thread = build().open(id.clone()).await.unwrap();
    assert!(matches!(thread.say("go", &NoWatcher).await.unwrap(), TurnStatus::Waiting(_)));
    thread.close().await.unwrap();
    let mut elsewhere = build().open(id).await.unwrap();
    elsewhere.reply("a", CallReply::Approve, &NoWatcher).await.unwrap();
    assert_eq!(results(&elsewhere)[0], "heron");
}

/// What is taken out of the model's sight is in the log's files before it is gone.
#[tokio::test]
async fn the_history_is_stored_before_the_cut() {
    let store = Arc::new(MemoryThreads::new());
    let model = Says::new([text("one"), text("two"), text("a summary"), text("three")]);
    let files = StateFiles::new();
    let summaries = Summarisation::new(model.clone(), files.clone())
        .trigger(Trigger::Messages(5))
        .keep(Keep::Messages(1));
    let agent =
        Agent::builder(model).middleware(summaries).middleware(files).store(store.clone()).build().unwrap();
    let id = ThreadId::new();
    let mut thread = agent.open(id.clone()).await.unwrap();
    for said in ["first", "second", "third"] {
        thread.say(said, &NoWatcher).await.unwrap();
    }
    assert_eq!(thread.state().cut(), 4);
    let events = store.events(&id, 0, 1000).await.unwrap();
    let cut = events.iter().position(|stored| matches!(stored.event, Event::Compacted { .. })).unwrap();
    let fork = ThreadId::new();
    store.fork(&id, cut as u64, &fork).await.unwrap();
    let before = agent.open(fork).await.unwrap();
    let (path, history) =
        StateFiles::of(before.states()).next().expect("the history is there before the cut");
    assert_eq!(path.as_str(), format!("/conversation_history/{id}.md"));
    assert!(String::from_utf8_lossy(history).contains("Human: first\nAI: one\nHuman: second\nAI: two\n"));
}

#[tokio::test]
async fn an_agent_without_the_middleware_reports_lost_files() {
    let model = Says::new([made(&[write("a", "/notes.md", "x")]), text("no")]);
    let agent = Agent::builder(model).middleware(Files::new(StateFiles::new())).build().unwrap();
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    let refused = "Error: this backend does not support writing in an agent without the middleware `state_files` for /notes.md";
    assert_eq!(results(&thread), [refused]);
}

type Snapshot = BTreeMap<String, Vec<u8>>;

async fn snapshot(backend: &dyn Backend) -> Snapshot {
    let all = backend.glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap()).await.unwrap();
    let paths: Vec<VirtualPath> = all.entries.into_iter().map(|entry| entry.path).collect();
    let bytes = backend.download(&paths).await.into_iter().map(|bytes| bytes.unwrap().to_vec());
    paths.iter().map(ToString::to_string).zip(bytes).collect()
}

/// A store that dies after so many steps, and knows which files there were at the last one that it took.
#[derive(Debug)]
struct Dies {
    threads: Arc<MemoryThreads>,
    left: Mutex<u32>,
    live: Arc<Mutex<Option<Arc<dyn Backend>>>>,
    seen: Mutex<Snapshot>,
}

#[async_trait]
impl ThreadStore for Dies {
    async fn lease(&self, thread: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError> {
        self.threads.lease(thread, owner, lasts).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), ThreadError> {
        self.threads.release(lease).await
    }

    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError> {
        let is_dead = {
            let mut left = self.left.lock().unwrap();
            *left = left.saturating_sub(1);
            *left == 0
        };
        if is_dead {
            let action = "storing".to_owned();
            return Err(ThreadError::Store { action, source: "the process died".into() });
        }
        let live = self.live.lock().unwrap().clone();
        let seen = match live {
            Some(live) => Some(snapshot(&*live).await),
            None => None,
        };
        self.threads.append(lease, after, events).await?;
        if let Some(seen) = seen {
            *self.seen.lock().unwrap() = seen;
        }
        Ok(())
    }

    async fn events(&self, id: &ThreadId, after: u64, most: usize) -> Result<Vec<StoredEvent>, ThreadError> {
        self.threads.events(id, after, most).await
    }

    async fn list(&self, most: usize) -> Result<Vec<ThreadInfo>, ThreadError> {
        self.threads.list(most).await
    }

    async fn fork(&self, from: &ThreadId, through: u64, to: &ThreadId) -> Result<(), ThreadError> {
        self.threads.fork(from, through, to).await
    }

    async fn delete(&self, thread: &ThreadId) -> Result<(), ThreadError> {
        self.threads.delete(thread).await
    }
}

/// Does things to files, with pauses in which others may do theirs.
#[derive(Clone, Debug)]
struct Doing {
    files: StateFiles,
    live: Arc<Mutex<Option<Arc<dyn Backend>>>>,
}

#[derive(Debug)]
struct Does(Arc<dyn Backend>);

impl Middleware for Doing {
    fn name(&self) -> &str {
        "doing"
    }

    fn tools(&self, context: MiddlewareContext<'_>) -> Vec<Arc<dyn Tool>> {
        let backend = Backends::from(self.files.clone()).at(context);
        *self.live.lock().unwrap() = Some(backend.clone());
        vec![Arc::new(Does(backend))]
    }
}

#[async_trait]
impl Tool for Does {
    fn definition(&self) -> Arc<ToolDefinition> {
        let parameters = json!({"type": "object"});
        ToolDefinition::new("do", "Does.", parameters).into()
    }

    async fn call(&self, arguments: Value, context: ToolContext<'_>) -> ToolOutput {
        for act in arguments["acts"].as_array().unwrap() {
            for _ in 0..act["pauses"].as_u64().unwrap() {
                tokio::task::yield_now().await;
            }
            let path = VirtualPath::parse(act["path"].as_str().unwrap()).unwrap();
            let bytes: Vec<u8> = serde_json::from_value(act["bytes"].clone()).unwrap();
            // What does not go changes nothing.
            match act["act"].as_u64().unwrap() {
                0 => drop(self.0.write(&path, bytes.into(), WriteMode::Replace).await),
                1 => drop(self.0.write(&path, bytes.into(), WriteMode::CreateNew).await),
                2 => drop(self.0.append(&path, bytes.into()).await),
                3 => drop(self.0.edit(&path, &Edit::all("a", "ba")).await),
                4 => drop(self.0.edit(&path, &Edit::unique("b", "")).await),
                5 => drop(self.0.delete(&path).await),
                _ => drop(self.0.upload(vec![(path, bytes.into())]).await),
            }
        }
        match arguments["end"].as_u64().unwrap() {
            0 if context.consultation.is_none() => own_question("may it end?").into(),
            1 => ToolOutput::InOrder(Box::new(|_| ToolAnswer::text("in order"))),
            _ => ToolAnswer::text("done").into(),
        }
    }
}

fn any_act() -> impl Strategy<Value = Value> {
    let path = prop_oneof![Just("/a"), Just("/b"), Just("/b/c"), Just("/d/e")];
    let byte = prop_oneof![3 => Just(b'a'), 2 => Just(b'b'), 1 => Just(0xff_u8)];
    (0..7_u64, path, prop::collection::vec(byte, 0..5), 0..3_u64).prop_map(
        |(act, path, bytes, pauses)| json!({"act": act, "path": path, "bytes": bytes, "pauses": pauses}),
    )
}

fn any_call() -> impl Strategy<Value = Value> {
    (prop::collection::vec(any_act(), 0..4), 0..5_u64)
        .prop_map(|(acts, end)| json!({"acts": acts, "end": end}))
}

/// Runs a thread through its turns, and dies now and then. Each life goes on with a fork of what was stored.
async fn lives(turns: Vec<Vec<Value>>, deaths: Vec<u32>) {
    let script = turns.iter().map(|turn| {
        let ids: Vec<String> = (0..turn.len()).map(|number| format!("c{number}")).collect();
        let arguments: Vec<String> = turn.iter().map(ToString::to_string).collect();
        let list: Vec<_> =
            ids.iter().zip(&arguments).map(|(id, a)| (id.as_str(), "do", a.as_str())).collect();
        calls(&list)
    });
    let model = Says::new(script.chain([text("done")]));
    let threads = Arc::new(MemoryThreads::new());
    let mut id = ThreadId::new();
    let mut expected = Snapshot::new();
    for life in deaths.into_iter().chain([u32::MAX, u32::MAX]) {
        let live = Arc::default();
        let store = Arc::new(Dies {
            threads: Arc::clone(&threads),
            left: Mutex::new(life),
            live: Arc::clone(&live),
            seen: Mutex::new(expected.clone()),
        });
        let files = StateFiles::new();
        let agent = Agent::builder(model.clone())
            .middleware(Doing { files: files.clone(), live: live.clone() })
            .middleware(files)
            .store(store.clone())
            .build()
            .unwrap();
        let mut thread = agent.open(id.clone()).await.unwrap();
        let stored = StateFiles::of(thread.states());
        let stored: Snapshot = stored.map(|(path, bytes)| (path.to_string(), bytes.to_vec())).collect();
        assert_eq!(stored, expected);
        let seen = Mutex::new(0_u32);
        let watcher = |sight: ThreadUpdate<'_>| {
            if matches!(sight, ThreadUpdate::Stored(_)) {
                *seen.lock().unwrap() += 1;
            }
        };
        let mut turn = match thread.state().messages().is_empty() {
            true => thread.say("go", &watcher).await,
            false => thread.go_on(&watcher).await,
        };
        while let Ok(TurnStatus::Waiting(waiting)) = &turn {
            let call = waiting[0].call.id.clone();
            turn = thread.reply(&call, CallReply::Approve, &watcher).await;
        }
        assert!(turn.is_ok() || life < u32::MAX, "{turn:?}");
        let backend = live.lock().unwrap().clone();
        expected = store.seen.lock().unwrap().clone();
        if let (Ok(_), Some(backend)) = (&turn, backend) {
            assert_eq!(snapshot(&*backend).await, expected, "a turn that ended has stored all of its files");
        }
        drop(thread);
        let events = threads.events(&id, 0, 10_000).await.unwrap().len() as u64;
        let next = ThreadId::new();
        threads.fork(&id, events, &next).await.unwrap();
        id = next;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Whatever calls do at the same time, and wherever the process dies: a thread has the files that there were when
    /// it last stored something.
    #[test]
    fn what_was_stored_is_what_there_was(
        turns in prop::collection::vec(prop::collection::vec(any_call(), 1..5), 1..4),
        deaths in prop::collection::vec(1..25_u32, 0..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(lives(turns, deaths));
    }
}
