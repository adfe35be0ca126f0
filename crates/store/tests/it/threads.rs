//! Tests of threads: every store passes the suite, and several handles work like one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use prowess_agent::id::CallId;
use prowess_agent::testing::thread_store_suite;
use prowess_agent::thread::{Lease, StoredEvent, ThreadError, ThreadInfo};
use prowess_agent::{CallReply, Event, ThreadId, ThreadStore};
use prowess_permission::{Kind, Question};
use prowess_store::{PostgresStore, SqliteStore};

use crate::support::{LONG, postgres, postgres_url, said, texts, thread_of};

/// Several stores with one database, like several processes: each call goes to the next.
#[derive(Debug)]
struct InTurn(Vec<Arc<dyn ThreadStore>>, AtomicUsize);

impl InTurn {
    fn new(stores: Vec<Arc<dyn ThreadStore>>) -> Arc<Self> {
        Arc::new(Self(stores, AtomicUsize::new(0)))
    }

    fn next(&self) -> &dyn ThreadStore {
        &*self.0[self.1.fetch_add(1, Ordering::Relaxed) % self.0.len()]
    }
}

#[async_trait]
impl ThreadStore for InTurn {
    async fn lease(&self, thread: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError> {
        self.next().lease(thread, owner, lasts).await
    }
    async fn release(&self, lease: &Lease) -> Result<(), ThreadError> {
        self.next().release(lease).await
    }
    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError> {
        self.next().append(lease, after, events).await
    }
    async fn events(&self, id: &ThreadId, after: u64, most: usize) -> Result<Vec<StoredEvent>, ThreadError> {
        self.next().events(id, after, most).await
    }
    async fn list(&self, most: usize) -> Result<Vec<ThreadInfo>, ThreadError> {
        self.next().list(most).await
    }
    async fn fork(&self, from: &ThreadId, through: u64, to: &ThreadId) -> Result<(), ThreadError> {
        self.next().fork(from, through, to).await
    }
    async fn delete(&self, thread: &ThreadId) -> Result<(), ThreadError> {
        self.next().delete(thread).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_passes_the_suite() {
    let place = tempfile::tempdir().unwrap();
    thread_store_suite(Arc::new(SqliteStore::open(place.path().join("a.db")).await.unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_in_memory_passes_the_suite() {
    thread_store_suite(Arc::new(SqliteStore::in_memory().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_on_one_file_pass_the_suite() {
    let place = tempfile::tempdir().unwrap();
    let mut stores: Vec<Arc<dyn ThreadStore>> = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(SqliteStore::open(place.path().join("a.db")).await.unwrap()));
    }
    thread_store_suite(InTurn::new(stores)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_passes_the_suite() {
    thread_store_suite(Arc::new(postgres().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_on_one_server_pass_the_suite() {
    let url = postgres_url().await;
    let mut stores: Vec<Arc<dyn ThreadStore>> = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(PostgresStore::connect(&url).await.unwrap()));
    }
    thread_store_suite(InTurn::new(stores)).await;
}

/// Two stores with a new SQLite file, and two with a new PostgreSQL schema.
async fn pairs(place: &tempfile::TempDir) -> Vec<[Arc<dyn ThreadStore>; 2]> {
    let path = place.path().join("a.db");
    let sqlite = async || Arc::new(SqliteStore::open(&path).await.unwrap()) as Arc<dyn ThreadStore>;
    let url = postgres_url().await;
    let postgres = async || Arc::new(PostgresStore::connect(&url).await.unwrap()) as Arc<dyn ThreadStore>;
    vec![[sqlite().await, sqlite().await], [postgres().await, postgres().await]]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_81_two_writers_conflict() {
    let place = tempfile::tempdir().unwrap();
    for [one, other] in pairs(&place).await {
        // While one owner has the thread, no other gets it.
        let lease = thread_of(&*one, 3).await;
        let refused = other.lease(&lease.thread, "two", LONG).await.unwrap_err();
        assert!(matches!(&refused, ThreadError::Leased { owner, .. } if owner == "one"), "{refused}");

        // An owner that writes twice at the same time gets an error too.
        let writing: Vec<_> = (0..10)
            .map(|number| {
                let (store, lease) = (Arc::clone([&one, &other][number % 2]), lease.clone());
                tokio::spawn(
                    async move { store.append(&lease, 3, &[said(format!("writer {number}"))]).await },
                )
            })
            .collect();
        let mut stored = 0;
        for written in writing {
            match written.await.unwrap() {
                Ok(()) => stored += 1,
                Err(ThreadError::Conflict { has: 4, expected: 3, .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(stored, 1);

        // A slow owner that lost its lease stores nothing.
        let slow = one.lease(&ThreadId::new(), "slow", Duration::from_millis(1)).await.unwrap();
        one.append(&slow, 0, &[said("before")]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let quick = other.lease(&slow.thread, "quick", LONG).await.unwrap();
        assert!(quick.epoch > slow.epoch);
        let refused = one.append(&slow, 1, &[said("after")]).await;
        assert!(matches!(refused, Err(ThreadError::LeaseLost(_))), "{refused:?}");
        other.append(&quick, 1, &[said("quick")]).await.unwrap();
        assert_eq!(texts(&*one, &slow.thread).await, ["before", "quick"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_over_is_good_until_another_has_it() {
    let place = tempfile::tempdir().unwrap();
    for [one, other] in pairs(&place).await {
        let lease = one.lease(&ThreadId::new(), "slow", Duration::from_millis(1)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        one.append(&lease, 0, &[said("late, and in nobody's way")]).await.unwrap();
        let renewed = one.lease(&lease.thread, "slow", Duration::from_millis(1)).await.unwrap();
        assert_eq!(renewed, lease);
        tokio::time::sleep(Duration::from_millis(20)).await;
        other.delete(&lease.thread).await.unwrap();
        // A new thread with the same name is another thread.
        let new = other.lease(&lease.thread, "slow", LONG).await.unwrap();
        let refused = one.append(&lease, 0, &[said("ghost")]).await;
        assert!(matches!(refused, Err(ThreadError::LeaseLost(_))), "{refused:?}");
        other.release(&new).await.unwrap();
        let refused = one.append(&new, 0, &[said("given back")]).await;
        assert!(matches!(refused, Err(ThreadError::LeaseLost(_))), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_a_time_when_the_clock_was_wrong_is_over() {
    let place = tempfile::tempdir().unwrap();
    let (path, url) = (place.path().join("a.db"), postgres_url().await);
    let sqlite = SqliteStore::open(&path).await.unwrap();
    let postgres = PostgresStore::connect(&url).await.unwrap();
    let mut leases = Vec::new();
    for store in [&sqlite as &dyn ThreadStore, &postgres] {
        // No lease lasts longer than a day.
        leases.push([
            store.lease(&ThreadId::new(), "early", Duration::MAX).await.unwrap(),
            store.lease(&ThreadId::new(), "early", LONG).await.unwrap(),
        ]);
    }
    // As if the clock was three days ahead.
    let jump = "UPDATE prowess_threads SET until = until + 259200000000";
    rusqlite::Connection::open(&path).unwrap().execute(jump, []).unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(jump).await.unwrap();
    for (store, [one, other]) in [&sqlite as &dyn ThreadStore, &postgres].into_iter().zip(leases) {
        // The owner can still write, and another owner can take the lease.
        store.append(&one, 0, &[said("still there")]).await.unwrap();
        let held = store.lease(&one.thread, "late", LONG).await;
        assert!(matches!(held, Err(ThreadError::Leased { .. })), "an append begins it anew: {held:?}");
        store.lease(&other.thread, "late", LONG).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_waits_for_a_reply_from_elsewhere() {
    let place = tempfile::tempdir().unwrap();
    for [one, other] in pairs(&place).await {
        let lease = thread_of(&*one, 1).await;
        let call = CallId::from("call-1");
        let asked = Event::Asked {
            call: call.clone(),
            question: Box::new(Question::new(Kind::RUN, "rm \u{0}").into()),
            by_tool: false,
        };
        one.append(&lease, 1, std::slice::from_ref(&asked)).await.unwrap();
        one.release(&lease).await.unwrap();
        drop(one);

        let waiting = other.events(&lease.thread, 1, 10).await.unwrap();
        assert_eq!(waiting[0].event, asked);
        let lease = other.lease(&lease.thread, "somebody else", LONG).await.unwrap();
        other.append(&lease, 2, &[Event::Replied { call, reply: CallReply::Approve }]).await.unwrap();
        assert_eq!(other.list(1).await.unwrap()[0].events, 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_that_wait_together_are_answered_each_for_itself() {
    let place = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(place.path().join("a.db")).await.unwrap());
    let mut leases = Vec::new();
    for _ in 0..64 {
        leases.push(thread_of(&*store, 1).await);
    }
    let writing: Vec<_> = leases
        .iter()
        .enumerate()
        .map(|(number, lease)| {
            let (store, lease) = (Arc::clone(&store), lease.clone());
            // Every third caller expects too many events.
            let after = if number % 3 == 0 { 2 } else { 1 };
            tokio::spawn(async move { store.append(&lease, after, &[said("mine"), said("too")]).await })
        })
        .collect();
    for (number, written) in writing.into_iter().enumerate() {
        let is_conflict = matches!(written.await.unwrap(), Err(ThreadError::Conflict { has: 1, .. }));
        assert_eq!(is_conflict, number % 3 == 0);
        let expected: &[&str] = if is_conflict { &["1"] } else { &["1", "mine", "too"] };
        assert_eq!(texts(&*store, &leases[number].thread).await, expected);
    }
}
