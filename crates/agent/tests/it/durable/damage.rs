//! A run whose database is not what was written.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prowess_agent::thread::ThreadError;
use prowess_agent::{AgentError, NoWatcher, Thread, ThreadState, ThreadStore, TurnStatus};
use prowess_store::{DatabaseError, SqliteStore};

use super::checks::{Look, Tally};
use super::driver::{advance, finish, opened};
use super::moments::Moments;
use super::script::{Place, agent, thread};

const PAGE: usize = 4096;

fn place(directory: &Path) -> Place {
    Place::at(directory, Duration::from_secs(20))
}

async fn open(place: &Place) -> Result<Thread, Box<dyn std::error::Error>> {
    let store = SqliteStore::open(&place.database).await?;
    Ok(agent(place, Arc::new(store), &Moments::quiet()).open(thread()).await?)
}

/// A run after its first turn, and the bytes of its database.
async fn half_a_run(place: &Place) -> (Vec<u8>, ThreadState) {
    let mut thread = open(place).await.unwrap();
    while !matches!(advance(&mut thread, &NoWatcher).await.unwrap(), TurnStatus::Ended(_)) {}
    let run = thread.state().clone();
    thread.close().await.unwrap();
    (std::fs::read(&place.database).unwrap(), run)
}

/// Whether an error says that something is damaged, and what to do.
fn is_damage(error: &(dyn std::error::Error + 'static)) -> bool {
    let words = error.to_string();
    let of_thread =
        matches!(error.downcast_ref::<AgentError>(), Some(AgentError::Thread(ThreadError::Damaged { .. })));
    match DatabaseError::of(error) {
        Some(DatabaseError::Damaged { .. }) => words.contains("bring a copy back, or set it aside"),
        None if of_thread => words.contains("restore a backup, or fork the thread before this event"),
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_a_damaged_run_is_refused_and_never_shorter() {
    let directory = tempfile::tempdir().unwrap();
    let whole = place(directory.path());
    let (bytes, run) = half_a_run(&whole).await;
    assert!(!directory.path().join("a.db-wal").exists(), "a store that is closed leaves one file");
    let (mut refused, mut unharmed) = (0, 0);
    for page in 1..bytes.len() / PAGE {
        let copies = tempfile::tempdir().unwrap();
        let copy = place(copies.path());
        let mut damaged = bytes.clone();
        damaged[page * PAGE..(page + 1) * PAGE].fill(if page % 2 == 0 { 0 } else { 0xa5 });
        std::fs::write(&copy.database, damaged).unwrap();
        match open(&copy).await {
            // The damage is elsewhere.
            Ok(thread) => {
                assert_eq!(*thread.state(), run, "page {page}: less is there, and nobody says so");
                unharmed += 1;
            }
            Err(error) => {
                assert!(is_damage(&*error), "page {page}: {error}");
                refused += 1;
            }
        }
    }
    println!("{refused} pages are missed by the run, {unharmed} are others'");
    assert!(refused > 0);

    // The copy that was brought back goes on.
    std::fs::write(&whole.database, &bytes).unwrap();
    let mut thread = open(&whole).await.unwrap();
    assert_eq!(*thread.state(), run);
    finish(&mut thread).await.unwrap();
    thread.close().await.unwrap();
    assert_eq!(Look::at(&whole).await.check_whole(), Tally::default());
}

/// Events that are in the wrong thread, or twice: every checksum is right, and no run comes of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_events_that_make_no_run_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let place = place(directory.path());
    drop(half_a_run(&place).await);
    let store = SqliteStore::open(&place.database).await.unwrap();
    let events = store.events(&thread(), 0, usize::MAX).await.unwrap();
    let lease = store.lease(&thread(), "who should not", Duration::from_secs(20)).await.unwrap();
    store.append(&lease, events.len() as u64, &[events[2].event.clone()]).await.unwrap();
    store.release(&lease).await.unwrap();
    let agent = agent(&place, Arc::new(store.clone()), &Moments::quiet());
    let refused = agent.open(thread()).await.unwrap_err();
    assert!(is_damage(&refused), "{refused}");
    assert!(refused.to_string().contains(&format!("event {} of the thread `run`", events.len() + 1)));
    assert_eq!(
        store.events(&thread(), 0, usize::MAX).await.unwrap().len(),
        events.len() + 1,
        "it is left as it is"
    );

    // Before the event that cannot be, there is a run.
    store.fork(&thread(), events.len() as u64, &"fork".parse().unwrap()).await.unwrap();
    let fork = agent.open("fork".parse().unwrap()).await.unwrap();
    assert_eq!(fork.state().next(), prowess_agent::thread_state::NextStep::Wait);
    fork.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_a_damaged_database_is_set_aside_and_a_run_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let place = place(directory.path());
    let (mut bytes, _) = half_a_run(&place).await;
    bytes.truncate(bytes.len() / 2);
    std::fs::write(&place.database, &bytes).unwrap();
    let refused = open(&place).await.unwrap_err();
    assert!(is_damage(&*refused), "{refused}");
    assert_eq!(std::fs::read(&place.database).unwrap(), bytes, "it is left as it is");

    let aside = SqliteStore::set_aside(&place.database).await.unwrap();
    assert_eq!(std::fs::read(&aside.to).unwrap(), bytes);
    std::fs::remove_file(&place.ledger).unwrap();
    std::fs::remove_dir_all(&place.files).unwrap();
    let store = SqliteStore::open(&place.database).await.unwrap();
    let mut thread = opened(&agent(&place, Arc::new(store), &Moments::quiet())).await;
    finish(&mut thread).await.unwrap();
    thread.close().await.unwrap();
    assert_eq!(Look::at(&place).await.check_whole(), Tally::default());
}
