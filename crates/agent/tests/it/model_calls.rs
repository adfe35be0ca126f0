//! What is stored of calls of the model, and when: no call of a tool begins unstored, and no crash loop has no end.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use prowess_agent::middleware::SubAgents;
use prowess_agent::model::ModelStream;
use prowess_agent::thread::{Lease, StoredEvent, ThreadError, ThreadInfo};
use prowess_agent::{
    Agent, AgentError, AgentOptions, Event, FunctionTool, MemoryThreads, Model, ModelError, ModelRequest,
    NoWatcher, Thread, ThreadId, ThreadStore, ThreadUpdate, Tool, ToolAnswer, TurnOutcome, TurnStatus,
};
use serde_json::json;

use crate::says::{Says, after_reading, calls, text, too_long};

/// How long a thread stays with a process that died.
const LEASE: Duration = Duration::from_millis(30);
/// When a process dies that waits for its model.
const DEATH: Duration = Duration::from_millis(40);
const STEPS: u32 = 4;

fn name(event: &Event) -> String {
    serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned()
}

/// Notes what is stored at once.
#[derive(Debug, Default)]
struct Noting {
    threads: MemoryThreads,
    appended: Mutex<Vec<Vec<String>>>,
}

impl Noting {
    fn appended(&self) -> Vec<Vec<String>> {
        self.appended.lock().unwrap().clone()
    }
}

#[async_trait]
impl ThreadStore for Noting {
    async fn lease(&self, thread: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError> {
        self.threads.lease(thread, owner, lasts).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), ThreadError> {
        self.threads.release(lease).await
    }

    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError> {
        self.threads.append(lease, after, events).await?;
        self.appended.lock().unwrap().push(events.iter().map(name).collect());
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

/// Never answers.
#[derive(Debug, Default)]
struct Hangs(AtomicUsize);

#[async_trait]
impl Model for Hangs {
    fn name(&self) -> &str {
        "hangs"
    }

    async fn call(&self, _: ModelRequest) -> Result<ModelStream, ModelError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        pending().await
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn ping() -> Arc<dyn Tool> {
    Arc::new(FunctionTool::new("ping", "Answers.", |_: Nothing| async { Ok(ToolAnswer::text("pong")) }))
}

fn options() -> AgentOptions {
    let mut options = AgentOptions::default();
    options.limits.model_calls = STEPS;
    options.lease = LEASE;
    options
}

fn agent(model: Arc<dyn Model>, store: &Arc<Noting>) -> Agent {
    Agent::builder(model).tool(ping()).store(store.clone()).options(options()).build().unwrap()
}

/// A thread, once the process that died has lost it.
async fn open(agent: &Agent, id: &ThreadId) -> Thread {
    loop {
        match agent.open(id.clone()).await {
            Err(AgentError::Thread(ThreadError::Leased { .. })) => tokio::time::sleep(LEASE / 3).await,
            opened => return opened.unwrap(),
        }
    }
}

async fn stored(store: &Noting, id: &ThreadId) -> Vec<String> {
    store.events(id, 0, 1000).await.unwrap().iter().map(|stored| name(&stored.event)).collect()
}

#[tokio::test]
async fn a_step_is_stored_at_three_times() {
    let store = Arc::new(Noting::default());
    let model = Says::new([calls(&[("c1", "ping", "{}")]), calls(&[("c2", "ping", "{}")]), text("done")]);
    let mut thread = agent(model, &store).open(ThreadId::new()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    let step = [&["model_asked", "model_answered"][..], &["tool_started"], &["tool_answered"]];
    let mut expected = vec![&["turn_started"][..]];
    expected.extend(step.iter().chain(&step));
    expected.extend([&["model_asked", "model_answered"][..], &["turn_ended"]]);
    assert_eq!(store.appended(), expected);
}

#[tokio::test]
async fn a_model_that_fails_is_stored_at_once() {
    let store = Arc::new(Noting::default());
    let mut thread = agent(Says::new([too_long()]), &store).open(ThreadId::new()).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(store.appended()[1], ["model_asked", "model_failed"]);
    assert_eq!(thread.events(), 4);
}

#[tokio::test]
async fn a_process_that_dies_in_every_call_of_the_model_comes_to_its_limit() {
    let (store, model, id) = (Arc::new(Noting::default()), Arc::new(Hangs::default()), ThreadId::new());
    let agent = agent(model.clone(), &store);
    let mut thread = agent.open(id.clone()).await.unwrap();
    assert!(tokio::time::timeout(DEATH, thread.say("go", &NoWatcher)).await.is_err());
    drop(thread);
    assert_eq!(stored(&store, &id).await, ["turn_started"], "the first was not stored before");
    for died in 1..=STEPS {
        let mut thread = open(&agent, &id).await;
        assert!(tokio::time::timeout(DEATH, thread.go_on(&NoWatcher)).await.is_err());
        drop(thread);
        let asked = stored(&store, &id).await.iter().filter(|event| *event == "model_asked").count();
        assert_eq!(asked, died as usize);
    }
    let mut thread = open(&agent, &id).await;
    let turn = thread.go_on(&NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::TooManyModelCalls { most: STEPS }));
    assert_eq!(model.0.load(Ordering::SeqCst), STEPS as usize + 1);
}

#[tokio::test]
async fn only_the_first_call_after_a_crash_is_stored_before() {
    let (store, id) = (Arc::new(Noting::default()), ThreadId::new());
    let mut thread = agent(Arc::new(Hangs::default()), &store).open(id.clone()).await.unwrap();
    assert!(tokio::time::timeout(DEATH, thread.say("go", &NoWatcher)).await.is_err());
    drop(thread);
    let agent = agent(Says::new([calls(&[("c1", "ping", "{}")]), text("done")]), &store);
    open(&agent, &id).await.go_on(&NoWatcher).await.unwrap();
    let expected: [&[&str]; 7] = [
        &["turn_started"],
        &["model_asked"],
        &["model_answered"],
        &["tool_started"],
        &["tool_answered"],
        &["model_asked", "model_answered"],
        &["turn_ended"],
    ];
    assert_eq!(store.appended(), expected);
}

/// A handle that is cut off in a call of the model, such as by a person, knows of it.
#[tokio::test]
async fn a_call_that_was_dropped_counts() {
    let (store, model, id) = (Arc::new(Noting::default()), Arc::new(Hangs::default()), ThreadId::new());
    let mut thread = agent(model.clone(), &store).open(id.clone()).await.unwrap();
    assert!(tokio::time::timeout(DEATH, thread.say("go", &NoWatcher)).await.is_err());
    assert_eq!((thread.state().model_calls(), thread.events()), (1, 1), "it is not stored yet");
    for dropped in 2..=STEPS {
        assert!(tokio::time::timeout(DEATH, thread.go_on(&NoWatcher)).await.is_err());
        assert_eq!(thread.state().model_calls(), dropped);
    }
    let turn = thread.go_on(&NoWatcher).await.unwrap();
    assert_eq!(turn, TurnStatus::Ended(TurnOutcome::TooManyModelCalls { most: STEPS }));
    assert_eq!(model.0.load(Ordering::SeqCst), STEPS as usize);
    let asked = stored(&store, &id).await.iter().filter(|event| *event == "model_asked").count();
    assert_eq!(asked, STEPS as usize);
}

#[tokio::test]
async fn a_call_that_was_dropped_is_stored_with_what_follows() {
    let store = Arc::new(Noting::default());
    let dropped = async |id: &ThreadId| {
        let mut thread = agent(Arc::new(Hangs::default()), &store).open(id.clone()).await.unwrap();
        assert!(tokio::time::timeout(DEATH, thread.say("go", &NoWatcher)).await.is_err());
        thread
    };
    let (cancelled, closed) = (ThreadId::new(), ThreadId::new());
    dropped(&cancelled).await.cancel(&NoWatcher).await.unwrap();
    assert_eq!(stored(&store, &cancelled).await, ["turn_started", "model_asked", "turn_ended"]);
    dropped(&closed).await.close().await.unwrap();
    assert_eq!(stored(&store, &closed).await, ["turn_started", "model_asked"]);
}

#[tokio::test]
async fn a_watcher_sees_nothing_that_is_not_stored() {
    let (store, id) = (Arc::new(Noting::default()), ThreadId::new());
    let model = Says::new([calls(&[("c1", "ping", "{}")]), text("done")]);
    let mut thread = agent(model, &store).open(id.clone()).await.unwrap();
    let seen = AtomicUsize::new(0);
    let watcher = |sight: ThreadUpdate<'_>| {
        if let ThreadUpdate::Stored(event) = sight {
            let number = seen.fetch_add(1, Ordering::SeqCst);
            assert_eq!(store.appended().concat()[number], name(event));
        }
    };
    thread.say("go", &watcher).await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), store.appended().concat().len());
}

/// An agent with a sub-agent, and a task for it.
fn with_helper(helper: Arc<dyn Model>) -> Agent {
    let task = json!({"description": "Think."}).to_string();
    let model = Says::new([after_reading(100, calls(&[("c1", "task", &task)])), text("Done.")]);
    let helper = Agent::builder(helper).tool(ping()).build().unwrap();
    Agent::builder(model).middleware(SubAgents::new(helper)).build().unwrap()
}

#[tokio::test]
async fn what_models_are_paid_is_seen_once() {
    let helper = Says::new([after_reading(50, calls(&[("c1", "ping", "{}")])), text("Yes.")]);
    let agent = with_helper(helper);
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    let seen = Mutex::new(Vec::new());
    let watcher = |update: ThreadUpdate<'_>| match update {
        ThreadUpdate::Paid { event, spent } => {
            let (thread, number) = event.expect("an event");
            seen.lock().unwrap().push(((thread.clone(), number), spent.total().total()));
        }
        ThreadUpdate::Stored(Event::ToolAnswered { .. }) => {
            assert_eq!(seen.lock().unwrap().len(), 3, "the sub-agent's calls were seen before its answer");
        }
        _ => {}
    };
    thread.say("go", &watcher).await.unwrap();
    let seen = seen.into_inner().unwrap();
    let tokens: Vec<u64> = seen.iter().map(|(_, tokens)| *tokens).collect();
    assert_eq!(tokens, [102, 52, 12, 12]);
    assert_eq!(tokens.iter().sum::<u64>(), thread.state().spent().total().total());
    let threads: Vec<bool> = seen.iter().map(|((id, _), _)| id == thread.id()).collect();
    assert_eq!(threads, [true, false, false, true]);
    assert!(seen[1].0.1 < seen[2].0.1);
}

#[tokio::test]
async fn a_sub_agents_call_that_is_dropped_is_estimated() {
    let hangs = Arc::new(Hangs::default());
    let agent = with_helper(hangs.clone());
    let mut thread = agent.open(ThreadId::new()).await.unwrap();
    let seen = Mutex::new(Vec::new());
    let watcher = |update: ThreadUpdate<'_>| {
        if let ThreadUpdate::Paid { event: None, spent } = update {
            seen.lock().unwrap().push(spent.clone());
        }
    };
    let called = async {
        while hangs.0.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        turn = thread.say("go", &watcher) => panic!("{turn:?}"),
        () = called => {}
    }
    let seen = seen.into_inner().unwrap();
    let [spent] = &seen[..] else { panic!("{seen:?}") };
    let (model, usage) = spent.iter().next().unwrap();
    assert_eq!((model, usage.output), ("hangs", 0));
    assert!(usage.input > 1, "{usage:?}");
}

/// Who lost the thread while the model thought stores nothing of it.
#[tokio::test]
async fn a_lease_that_is_lost_in_a_call_of_the_model() {
    let (store, id) = (Arc::new(Noting::default()), ThreadId::new());
    let mut thread = agent(Arc::new(Hangs::default()), &store).open(id.clone()).await.unwrap();
    let other = async {
        tokio::time::sleep(LEASE / 6).await;
        // As when the process stood still for longer than its lease.
        let over = Lease::new(id.clone(), "", 1, LEASE);
        store.threads.release(&over).await.unwrap();
        let lease = store.threads.lease(&id, "another", LEASE).await.unwrap();
        store
            .threads
            .append(&lease, 1, &[Event::TurnEnded { outcome: TurnOutcome::Cancelled }])
            .await
            .unwrap();
    };
    let (turn, ()) = tokio::join!(thread.say("go", &NoWatcher), other);
    let is_lost = |error: &AgentError| {
        matches!(error, AgentError::Thread(ThreadError::LeaseLost(_) | ThreadError::Leased { .. }))
    };
    assert!(is_lost(&turn.unwrap_err()));
    assert!(thread.cancel(&NoWatcher).await.is_err());
    assert_eq!(stored(&store, &id).await, ["turn_started", "turn_ended"]);
}

/// What a sub-agent does is limited as well, whichever process dies.
#[tokio::test]
async fn a_sub_agent_that_dies_in_every_call_of_its_model_comes_to_its_limit() {
    let (store, id, hangs) = (Arc::new(Noting::default()), ThreadId::new(), Arc::new(Hangs::default()));
    let task = json!({"description": "Think.", "subagent_type": "general-purpose"}).to_string();
    let model = Says::new([calls(&[("c1", "task", &task)]), text("It could not.")]);
    let helper = Agent::builder(hangs.clone()).options(options()).build().unwrap();
    let agent =
        Agent::builder(model).middleware(SubAgents::new(helper)).store(store.clone()).options(options());
    let agent = agent.build().unwrap();
    let mut thread = agent.open(id.clone()).await.unwrap();
    // It may need the lease of its sub-agent's thread to be over.
    assert!(tokio::time::timeout(DEATH * 3, thread.say("go", &NoWatcher)).await.is_err());
    drop(thread);
    for _ in 0..=STEPS + 1 {
        let mut thread = open(&agent, &id).await;
        let turn = tokio::time::timeout(Duration::from_secs(1), thread.go_on(&NoWatcher)).await;
        if let Ok(turn) = turn {
            assert_eq!(turn.unwrap(), TurnStatus::Ended(TurnOutcome::Responded));
            assert_eq!(hangs.0.load(Ordering::SeqCst), STEPS as usize + 1);
            return;
        }
    }
    panic!("it has no end");
}
