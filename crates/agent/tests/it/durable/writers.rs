//! Two processes that want the same run.

use std::future::pending;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use prowess_agent::thread::ThreadError;
use prowess_agent::{Agent, AgentError, AgentOptions, FunctionTool, NoWatcher, ToolAnswer};
use prowess_store::SqliteStore;
use tokio::time::Instant;

use super::checks::{Look, Tally};
use super::driver::{finish, opened, work};
use super::moments::Moments;
use super::process::{End, LONG, Process};
use super::script::{Place, agent, thread};
use crate::agent::Nothing;
use crate::says::{Says, calls};

/// Long enough for a process that the machine lets wait.
const LEASE: Duration = Duration::from_secs(2);

async fn here(place: &Place) -> (SqliteStore, Agent) {
    let store = SqliteStore::open(&place.database).await.unwrap();
    let agent = agent(place, Arc::new(store.clone()), &Moments::quiet());
    (store, agent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_81_two_processes_on_one_thread() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path(), LEASE);
    // It is in a call, and works on for as long as that takes.
    let first = Process::start(&place, Some("begun r3a"), None);
    first.says("stopped", LONG).unwrap();
    let (store, second) = here(&place).await;
    let until = Instant::now() + LEASE + LEASE / 2;
    while Instant::now() < until {
        let refused = second.open(thread()).await.unwrap_err();
        let AgentError::Thread(ThreadError::Leased { owner, .. }) = &refused else { panic!("{refused}") };
        assert!(owner.starts_with(&format!("process {} ", first.id())), "{owner}");
        assert!(refused.to_string().contains("wait until it is done, or fork the thread"), "{refused}");
        tokio::time::sleep(LEASE / 50).await;
    }
    let before = Look::of(&store, &place).await;
    before.check(None);

    assert_eq!(first.kill(None), End::Killed(None));
    let mut thread = opened(&second).await;
    finish(&mut thread).await.unwrap();
    thread.close().await.unwrap();
    let after = Look::of(&store, &place).await;
    after.check(Some(&before));
    assert_eq!(after.check_whole(), Tally { unknown: 1, repeated: 0 }, "the call that was in flight");
}

/// A machine that sleeps: its process comes back when another has taken over long since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_81_who_comes_back_late_stores_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path(), LEASE / 4);
    let mut first = Process::start(&place, None, Some("finished r1"));
    first.says("stopped", LONG).unwrap();
    let (store, second) = here(&place).await;
    let mut thread = opened(&second).await;
    work(&mut thread).await.unwrap();
    let before = Look::of(&store, &place).await;
    before.check(None);

    first.thaw();
    let refused = first.says("refused: ", LONG).unwrap();
    let is_taken_over =
        refused.contains("another writer took over the thread") && refused.contains("nothing was stored");
    let is_told = is_taken_over
        || refused.contains(&format!("process {} ", std::process::id()))
            && refused.contains("is using the thread");
    assert!(is_told, "{refused}");
    first.ends();
    finish(&mut thread).await.unwrap();
    thread.close().await.unwrap();
    let after = Look::of(&store, &place).await;
    after.check(Some(&before));
    assert_eq!(after.check_whole(), Tally { unknown: 1, repeated: 0 }, "the call that was in flight");
}

/// Who comes back late when the other has gone again is refused as well, and leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_81_who_comes_back_late_keeps_nobody_waiting() {
    let (begun, begins) = mpsc::channel();
    let (thaw, thaws) = mpsc::channel::<()>();
    let thaws = Arc::new(Mutex::new(thaws));
    let sleeps = FunctionTool::new("sleep", "Sleeps as a machine does.", move |_: Nothing| {
        let (begun, thaws) = (begun.clone(), Arc::clone(&thaws));
        async move {
            begun.send(()).unwrap();
            thaws.lock().unwrap().recv().unwrap();
            pending::<()>().await;
            Ok(ToolAnswer::text("never"))
        }
    });
    let mut options = AgentOptions::default();
    options.lease = LEASE / 4;
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let agent = Agent::builder(Says::new([calls(&[("s", "sleep", "{}")])]))
        .tool(Arc::new(sleeps))
        .options(options)
        .store(store)
        .build()
        .unwrap();
    let mut first = agent.open(thread()).await.unwrap();
    let first = tokio::spawn(async move { first.say("go", &NoWatcher).await });
    tokio::task::spawn_blocking(move || begins.recv_timeout(LONG).unwrap()).await.unwrap();
    opened(&agent).await.close().await.unwrap();
    thaw.send(()).unwrap();
    let refused = first.await.unwrap().unwrap_err();
    assert!(matches!(refused, AgentError::Thread(ThreadError::LeaseLost(_))), "{refused}");
    agent.open(thread()).await.unwrap();
}
