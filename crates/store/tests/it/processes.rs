//! Tests of several processes with one database.

use std::collections::BTreeSet;
use std::time::Duration;

use prowess_agent::ThreadId;
use prowess_agent::thread::ThreadError;
use prowess_store::Database;

use crate::support::{LONG, again, postgres_url, said, texts};

const PLACE: &str = "PROWESS_TEST_PROCESSES_PLACE";
const PROCESSES: usize = 4;
const EACH: usize = 15;

fn shared() -> ThreadId {
    "shared".parse().unwrap()
}

/// One of the processes: it repeatedly leases the thread, writes and releases it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_in_turn() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let store = Database::open(&place).await.unwrap().threads();
    let name = format!("process {}", std::process::id());
    for number in 0..EACH {
        let lease = loop {
            match store.lease(&shared(), &name, LONG).await {
                Ok(lease) => break lease,
                Err(ThreadError::Leased { owner, .. }) => assert_ne!(owner, name),
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        let has = store.events(&shared(), 0, usize::MAX).await.unwrap().len() as u64;
        store.append(&lease, has, &[said(format!("{name}, {number}"))]).await.unwrap();
        store.release(&lease).await.unwrap();
    }
}

async fn take_turns(place: &str) {
    let running: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let mut process = again(&[], "processes::writes_in_turn");
            process.env(PLACE, place);
            tokio::task::spawn_blocking(move || process.output().unwrap())
        })
        .collect();
    for process in running {
        let ran = process.await.unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    let store = Database::open(place).await.unwrap().threads();
    let said = texts(&*store, &shared()).await;
    let distinct: BTreeSet<&String> = said.iter().collect();
    assert_eq!((said.len(), distinct.len()), (PROCESSES * EACH, PROCESSES * EACH));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_81_processes_take_turns_on_a_file() {
    let place = tempfile::tempdir().unwrap();
    take_turns(place.path().join("a.db").to_str().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_81_processes_take_turns_on_a_server() {
    take_turns(&postgres_url().await).await;
}
