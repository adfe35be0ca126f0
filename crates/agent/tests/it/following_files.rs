//! The files of a thread follow it: what its log says is what the next machine has.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use prowess_agent::backends::Backends;
use prowess_agent::middleware::{
    CapturedFiles, FileStorage, FollowedFiles, FollowingFiles, MiddlewareAction, MiddlewareError,
    PersonalChange, StorageError, SubAgents,
};
use prowess_agent::thread::ThreadError;
use prowess_agent::{
    Agent, AgentError, AgentOptions, Event, FunctionTool, MemoryThreads, Middleware, MiddlewareContext,
    Model, NoWatcher, Thread, ThreadId, ThreadStore as _, ToolAnswer,
};
use prowess_backend::{Backend, MemoryBackend, VirtualPath};
use tokio::sync::Notify;

use crate::agent::{Nothing, results};
use crate::says::{Says, calls, text};

type Files = BTreeMap<String, String>;

/// What is stored, for all machines: inventories by their names.
#[derive(Debug, Default)]
struct Store {
    inventories: Mutex<Vec<Files>>,
    fails: AtomicBool,
    /// How many restores of inventories work before the next one fails.
    restores: Mutex<Option<usize>>,
}

/// The files of a thread on one machine.
#[derive(Debug, Default)]
struct Machine {
    store: Arc<Store>,
    local: Mutex<Files>,
    captured: Mutex<Files>,
    restores: AtomicUsize,
}

impl Machine {
    fn new(store: &Arc<Store>) -> Arc<Self> {
        Arc::new(Self { store: store.clone(), ..Self::default() })
    }

    fn write(&self, name: &str) {
        self.local.lock().unwrap().insert(name.to_owned(), "text".to_owned());
    }

    fn names(&self) -> Vec<String> {
        self.local.lock().unwrap().keys().cloned().collect()
    }
}

#[async_trait]
impl FileStorage for Machine {
    async fn restore(&self, files: &FollowedFiles) -> Result<(), StorageError> {
        self.restores.fetch_add(1, Ordering::Relaxed);
        let Some(inventory) = files.inventory() else { return Ok(()) };
        if let Some(left) = self.store.restores.lock().unwrap().as_mut() {
            if *left == 0 {
                // A part is done.
                self.local.lock().unwrap().clear();
                return Err("the store is out of reach".into());
            }
            *left -= 1;
        }
        let stored = self.store.inventories.lock().unwrap()[inventory.parse::<usize>()?].clone();
        *self.local.lock().unwrap() = stored.clone();
        *self.captured.lock().unwrap() = stored;
        for change in files.changes() {
            self.apply(files.family(), change).await?;
        }
        Ok(())
    }

    async fn capture(&self, _: Option<&str>) -> Result<Option<CapturedFiles>, StorageError> {
        let (local, mut captured) = (self.local.lock().unwrap(), self.captured.lock().unwrap());
        if *local == *captured {
            return Ok(None);
        }
        if self.store.fails.load(Ordering::Relaxed) {
            return Err("the store is down".into());
        }
        let mut inventories = self.store.inventories.lock().unwrap();
        inventories.push(local.clone());
        captured.clone_from(&local);
        let notice = local.contains_key("huge").then(|| "Note: huge is not stored.".to_owned());
        let inventory = (inventories.len() - 1).to_string();
        let mut files = CapturedFiles::default();
        (files.inventory, files.family, files.notice) = (inventory, "family".to_owned(), notice);
        Ok(Some(files))
    }

    async fn apply(&self, _: Option<&str>, change: &PersonalChange) -> Result<(), StorageError> {
        let mut local = self.local.lock().unwrap();
        match &change.content {
            Some((digest, _)) => local.insert(change.path.clone(), digest.clone()),
            None => local.remove(&change.path),
        };
        Ok(())
    }

    fn passes(&self, error: &StorageError) -> bool {
        error.to_string().contains("out of reach")
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Named {
    name: String,
}

/// Everything that outlives a machine, and the agent on one.
struct Setup {
    threads: Arc<MemoryThreads>,
    store: Arc<Store>,
    id: ThreadId,
    /// Told when a call hangs.
    hangs: Arc<Notify>,
}

impl Setup {
    fn new() -> Self {
        Self {
            threads: Arc::new(MemoryThreads::new()),
            store: Arc::default(),
            id: ThreadId::new(),
            hangs: Arc::default(),
        }
    }

    /// The agent on a machine, and its sub-agent, which can write files and hang.
    fn agent(&self, machine: &Arc<Machine>, model: Arc<dyn Model>, worker: Arc<dyn Model>) -> Agent {
        let files = FollowingFiles::new(self.id.clone(), machine.clone());
        let build = |model: Arc<dyn Model>| {
            let own = machine.clone();
            let note = FunctionTool::new("note", "Writes a file.", move |named: Named| {
                let own = own.clone();
                async move {
                    own.write(&named.name);
                    Ok(ToolAnswer::text("noted"))
                }
            });
            let (hangs, own) = (self.hangs.clone(), machine.clone());
            let hang = FunctionTool::new("hang", "Hangs.", move |_: Nothing| {
                let (hangs, own) = (hangs.clone(), own.clone());
                async move {
                    own.write("half-done");
                    hangs.notify_one();
                    std::future::pending::<()>().await;
                    Ok(ToolAnswer::text("never"))
                }
            });
            let mut options = AgentOptions::default();
            options.lease = Duration::from_millis(200);
            let builder = Agent::builder(model).store(self.threads.clone()).options(options);
            builder.middleware(files.clone()).tool(Arc::new(note)).tool(Arc::new(hang))
        };
        let worker = build(worker).build().unwrap();
        build(model).middleware(SubAgents::new(worker)).build().unwrap()
    }

    /// Opens the thread, also while a dead machine still has its lease.
    async fn open(&self, agent: &Agent) -> Thread {
        for _ in 0..1000 {
            match agent.open(self.id.clone()).await {
                Err(AgentError::Thread(ThreadError::Leased { .. })) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                opened => return opened.unwrap(),
            }
        }
        panic!("the lease never ended");
    }

    /// Lets a machine work until a call hangs and so many calls are answered, and ends it there.
    async fn crash(&self, agent: Agent, answers: usize) {
        let mut thread = self.open(&agent).await;
        let work = tokio::spawn(async move { thread.say("go", &NoWatcher).await.map(drop) });
        self.hangs.notified().await;
        while self.answered().await < answers {
            tokio::task::yield_now().await;
        }
        work.abort();
        assert!(work.await.unwrap_err().is_cancelled());
    }

    async fn answered(&self) -> usize {
        let events = self.threads.events(&self.id, 0, 1000).await.unwrap();
        events.iter().filter(|stored| matches!(stored.event, Event::ToolAnswered { .. })).count()
    }

    async fn followed(&self) -> FollowedFiles {
        let mut files = FollowedFiles::default();
        for stored in self.threads.events(&self.id, 0, 1000).await.unwrap() {
            if let Event::StateChanged { changes } = &stored.event {
                changes.iter().for_each(|change| files.read(change));
            }
        }
        files
    }

    /// The names of the files that the log names.
    async fn logged(&self) -> Vec<String> {
        let files = self.followed().await;
        let Some(inventory) = files.inventory() else { return Vec::new() };
        let stored = &self.store.inventories.lock().unwrap()[inventory.parse::<usize>().unwrap()];
        stored.keys().cloned().collect()
    }
}

fn silent() -> Arc<Says> {
    Says::new([])
}

const ONE: (&str, &str, &str) = ("a", "note", r#"{"name": "one"}"#);
const HANG: (&str, &str, &str) = ("b", "hang", "{}");

#[tokio::test]
async fn an_answered_call_has_its_files_although_another_was_cut_off() {
    for order in [[ONE, HANG], [HANG, ONE]] {
        let setup = Setup::new();
        let first = Machine::new(&setup.store);
        setup.crash(setup.agent(&first, Says::new([calls(&order)]), silent()), 1).await;
        assert_eq!(first.names(), ["half-done", "one"]);
        // One write has the digest and the answer.
        let events = setup.threads.events(&setup.id, 0, 100).await.unwrap();
        let answered = events.iter().position(|stored| matches!(stored.event, Event::ToolAnswered { .. }));
        let before = &events[answered.unwrap() - 1].event;
        assert!(matches!(before, Event::StateChanged { .. }), "{before:?}");

        let other = Machine::new(&setup.store);
        let agent = setup.agent(&other, Says::new([text("on")]), silent());
        let mut thread = setup.open(&agent).await;
        thread.go_on(&NoWatcher).await.unwrap();
        assert!(other.names().contains(&"one".to_owned()), "{order:?}");
        assert_eq!(setup.logged().await, other.names());
    }
}

#[tokio::test]
async fn what_the_log_does_not_name_is_not_restored() {
    let setup = Setup::new();
    let first = Machine::new(&setup.store);
    let model = Says::new([calls(&[ONE]), calls(&[HANG])]);
    setup.crash(setup.agent(&first, model, silent()), 1).await;
    assert_eq!(first.names(), ["half-done", "one"]);
    // Also on the machine that has it.
    for machine in [Machine::new(&setup.store), first] {
        let agent = setup.agent(&machine, Says::new([text("on"), text("on")]), silent());
        let mut thread = setup.open(&agent).await;
        thread.go_on(&NoWatcher).await.unwrap();
        thread.say("again", &NoWatcher).await.unwrap();
        assert_eq!(machine.names(), ["one"]);
        thread.close().await.unwrap();
    }
}

#[tokio::test]
async fn files_of_a_sub_agent_follow_although_only_its_own_log_names_them() {
    let setup = Setup::new();
    let first = Machine::new(&setup.store);
    let task = ("t", "task", r#"{"description": "Do it."}"#);
    let child = ("c", "note", r#"{"name": "by-child"}"#);
    let agent = setup.agent(
        &first,
        Says::new([calls(&[ONE]), calls(&[task])]),
        Says::new([calls(&[child]), calls(&[HANG])]),
    );
    setup.crash(agent, 1).await;
    assert_eq!(setup.logged().await, ["one"], "the parent's log ends before the task is answered");

    let other = Machine::new(&setup.store);
    let agent = setup.agent(&other, Says::new([text("top")]), Says::new([text("bottom")]));
    let mut thread = setup.open(&agent).await;
    thread.go_on(&NoWatcher).await.unwrap();
    assert_eq!(results(&thread).last().unwrap(), "bottom");
    assert_eq!(other.names(), ["by-child", "one"]);
    assert_eq!(setup.logged().await, ["by-child", "one"], "the parent's log has them with the answer");
    assert_eq!(other.restores.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn files_that_cannot_be_stored_are_an_error_and_are_stored_later() {
    let setup = Setup::new();
    let machine = Machine::new(&setup.store);
    let two = ("b", "note", r#"{"name": "two"}"#);
    let model = Says::new([calls(&[ONE]), text("failed"), calls(&[two]), text("worked")]);
    let agent = setup.agent(&machine, model, silent());
    let mut thread = setup.open(&agent).await;
    setup.store.fails.store(true, Ordering::Relaxed);
    thread.say("go", &NoWatcher).await.unwrap();
    let said = results(&thread)[0].clone();
    assert!(
        said.starts_with("Error: the call was made, but") && said.contains("the store is down"),
        "{said}"
    );
    assert!(!said.contains("noted"), "{said}");
    assert_eq!(setup.logged().await, [""; 0]);
    setup.store.fails.store(false, Ordering::Relaxed);
    thread.say("again", &NoWatcher).await.unwrap();
    assert_eq!(results(&thread)[1], "noted");
    assert_eq!(setup.logged().await, ["one", "two"]);
}

#[tokio::test]
async fn what_is_left_out_is_told_with_the_answer() {
    let setup = Setup::new();
    let machine = Machine::new(&setup.store);
    let huge = ("a", "note", r#"{"name": "huge"}"#);
    let agent = setup.agent(&machine, Says::new([calls(&[huge]), text("so")]), silent());
    let mut thread = setup.open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(results(&thread), ["noted\n\nNote: huge is not stored."]);
}

#[tokio::test]
async fn changes_of_people_reach_the_files_once() {
    let setup = Setup::new();
    let machine = Machine::new(&setup.store);
    let model = Says::new([calls(&[ONE]), text("one"), text("two")]);
    let agent = setup.agent(&machine, model, silent());
    let mut thread = setup.open(&agent).await;
    let written = FollowedFiles::change("1", "family", PersonalChange::written("notes", "digest", 6));
    thread.change(written.clone()).await.unwrap();
    thread.change(written).await.unwrap();
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(machine.names(), ["notes", "one"]);
    assert_eq!(setup.logged().await, ["notes", "one"]);
    assert_eq!(setup.followed().await.changes().count(), 0, "the inventory has it");
    let removed = FollowedFiles::change("2", "family", PersonalChange::removed("notes"));
    thread.change(removed).await.unwrap();
    thread.close().await.unwrap();

    // Another machine takes it in when the next turn begins.
    let other = Machine::new(&setup.store);
    let agent = setup.agent(&other, Says::new([text("two")]), silent());
    let mut thread = setup.open(&agent).await;
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(other.names(), ["one"]);
    assert_eq!(setup.logged().await, ["one"]);
}

#[tokio::test]
async fn a_turn_that_is_cancelled_keeps_the_files_where_they_are() {
    let setup = Setup::new();
    let machine = Machine::new(&setup.store);
    let agent = setup.agent(&machine, Says::new([calls(&[HANG])]), silent());
    let mut thread = setup.open(&agent).await;
    tokio::select! {
        _ = thread.say("go", &NoWatcher) => panic!("it hangs"),
        () = setup.hangs.notified() => {}
    }
    thread.settle().await.unwrap();
    thread.cancel(&NoWatcher).await.unwrap();
    assert_eq!(machine.names(), ["half-done"], "the process had the thread all the time");
    assert_eq!(machine.restores.load(Ordering::Relaxed), 1);
    assert_eq!(setup.logged().await, ["half-done"], "and they are stored when the turn ends");
}

#[tokio::test]
async fn a_turn_whose_files_cannot_be_restored_waits_and_can_be_cancelled() {
    let setup = Setup::new();
    let first = Machine::new(&setup.store);
    setup.crash(setup.agent(&first, Says::new([calls(&[ONE, HANG])]), silent()), 1).await;
    let other = Machine::new(&setup.store);
    let agent = setup.agent(&other, Says::new([text("on")]), silent());
    *setup.store.restores.lock().unwrap() = Some(0);
    let mut thread = setup.open(&agent).await;
    for _ in 0..2 {
        match thread.go_on(&NoWatcher).await {
            Err(AgentError::Middleware { source, .. }) => assert!(source.passes(), "{source}"),
            other => panic!("{other:?}"),
        }
    }
    thread.cancel(&NoWatcher).await.unwrap();
    assert_eq!(setup.logged().await, ["one"], "what is there meanwhile is not that of the thread");
    *setup.store.restores.lock().unwrap() = None;
    thread.say("go", &NoWatcher).await.unwrap();
    assert_eq!(other.names(), ["one"]);
}

#[tokio::test]
async fn what_a_failed_restore_left_is_not_stored() {
    let setup = Setup::new();
    let first = Machine::new(&setup.store);
    let task = ("t", "task", r#"{"description": "Do it."}"#);
    let child = ("c", "note", r#"{"name": "by-child"}"#);
    let agent = setup.agent(
        &first,
        Says::new([calls(&[ONE]), calls(&[task])]),
        Says::new([calls(&[child]), calls(&[HANG])]),
    );
    setup.crash(agent, 1).await;

    // The files of the thread are restored, and then those of its sub-agent are not.
    *setup.store.restores.lock().unwrap() = Some(1);
    let other = Machine::new(&setup.store);
    let two = ("d", "note", r#"{"name": "two"}"#);
    let agent = setup.agent(&other, Says::new([calls(&[two]), text("top")]), silent());
    let mut thread = setup.open(&agent).await;
    let stopped = thread.go_on(&NoWatcher).await.unwrap_err();
    assert!(matches!(&stopped, AgentError::Middleware { source, .. } if source.passes()), "{stopped}");
    assert!(results(&thread)[1].starts_with("Error: the call was not made"), "{:?}", results(&thread));
    assert_eq!(other.names(), [""; 0], "a part is done");
    assert_eq!(setup.logged().await, ["one"]);

    *setup.store.restores.lock().unwrap() = None;
    thread.go_on(&NoWatcher).await.unwrap();
    assert_eq!(setup.logged().await, other.names());
    assert_eq!(other.names(), ["by-child", "one", "two"]);
}

/// Writes files before each model call, as a summary does.
#[derive(Clone, Debug)]
struct Historian {
    files: Backends,
    machine: Arc<Machine>,
    /// Whether each write worked.
    wrote: Arc<Mutex<Vec<bool>>>,
}

#[async_trait]
impl Middleware for Historian {
    fn name(&self) -> &str {
        "historian"
    }

    async fn before_model(
        &self,
        context: MiddlewareContext<'_>,
    ) -> Result<Vec<MiddlewareAction>, MiddlewareError> {
        for (path, name) in [("/elsewhere/a.md", "elsewhere"), ("/history/h.md", "history")] {
            self.machine.write(name);
            let before = self.machine.store.inventories.lock().unwrap().len();
            let appended =
                self.files.at(context).append(&VirtualPath::parse(path).unwrap(), "x".into()).await;
            let after = self.machine.store.inventories.lock().unwrap().len();
            assert_eq!(after > before, appended.is_ok() && name == "history", "{name}");
            self.wrote.lock().unwrap().push(appended.is_ok());
        }
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn what_is_written_outside_of_calls_is_stored_before_anything_relies_on_it() {
    for fails in [false, true] {
        let setup = Setup::new();
        let machine = Machine::new(&setup.store);
        setup.store.fails.store(fails, Ordering::Relaxed);
        let all: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
        let files = FollowingFiles::backends(all, VirtualPath::parse("/history").unwrap());
        let wrote = Arc::default();
        let historian = Historian { files, machine: machine.clone(), wrote: Arc::clone(&wrote) };
        let agent = Agent::builder(Says::new([text("said")]))
            .store(setup.threads.clone())
            .middleware(FollowingFiles::new(setup.id.clone(), machine.clone()))
            .middleware(historian);
        let mut thread = agent.build().unwrap().open(setup.id.clone()).await.unwrap();
        thread.say("go", &NoWatcher).await.unwrap();
        assert_eq!(*wrote.lock().unwrap(), [true, !fails], "whoever writes it knows");
        let events = setup.threads.events(&setup.id, 0, 100).await.unwrap();
        let at = |is: &dyn Fn(&Event) -> bool| events.iter().position(|stored| is(&stored.event));
        let captured = at(&|event| matches!(event, Event::StateChanged { .. }));
        let responded = at(&|event| matches!(event, Event::ModelResponded { .. }));
        assert_eq!(captured.is_some_and(|captured| Some(captured) < responded), !fails);
    }
}
