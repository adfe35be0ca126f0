//! The test suite that every store of threads must pass.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Lease, ThreadError, ThreadStore};
use crate::id::ThreadId;
use crate::message::Message;
use crate::thread_state::{Event, StateChange, TurnOutcome};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);
/// Shorter than any test takes. A test that needs its end waits longer.
const SHORT: Duration = Duration::from_millis(30);

/// Runs the suite against a store, which may have other threads already. Panics at the first failure.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::testing::thread_store_suite;
/// use prowess_agent::MemoryThreads;
///
/// # #[tokio::main]
/// # async fn main() {
/// thread_store_suite(Arc::new(MemoryThreads::new())).await;
/// # }
/// ```
pub async fn thread_store_suite(store: Arc<dyn ThreadStore>) {
    events_come_back_as_they_were(&*store).await;
    a_thread_is_read_in_parts(&*store).await;
    what_is_stored_can_be_read(&*store).await;
    a_missing_thread_is_an_error(&*store).await;
    one_writer_at_a_time(&*store).await;
    a_lease_ends_with_its_time(&*store).await;
    appending_keeps_the_lease(&*store).await;
    a_lost_lease_writes_nothing(&*store).await;
    a_stale_writer_gets_an_error(&*store).await;
    an_append_is_whole(&*store).await;
    a_fork_goes_its_own_way(&*store).await;
    the_last_changed_is_listed_first(&*store).await;
    what_is_deleted_is_gone(&*store).await;
    many_writers_make_one_log(store).await;
}

fn said(text: &str) -> Event {
    Event::TurnStarted { messages: vec![Message::user(text)] }
}

fn ended() -> Event {
    Event::TurnEnded { outcome: TurnOutcome::Responded }
}

async fn held(store: &dyn ThreadStore, owner: &str) -> Lease {
    match store.lease(&ThreadId::new(), owner, LONG).await {
        Ok(lease) => lease,
        Err(error) => panic!("no lease: {error}"),
    }
}

async fn append(store: &dyn ThreadStore, lease: &Lease, after: u64, events: &[Event]) {
    if let Err(error) = store.append(lease, after, events).await {
        panic!("not appended: {error}");
    }
}

async fn read(store: &dyn ThreadStore, thread: &ThreadId) -> Vec<Event> {
    match store.events(thread, 0, usize::MAX).await {
        Ok(events) => {
            let numbers: Vec<u64> = events.iter().map(|stored| stored.number).collect();
            assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "numbers are without gaps");
            events.into_iter().map(|stored| stored.event).collect()
        }
        Err(error) => panic!("not read: {error}"),
    }
}

async fn events_come_back_as_they_were(store: &dyn ThreadStore) {
    let lease = held(store, "one").await;
    let events = vec![said("hello \u{0}\n\"' 🦀 \u{202e}"), ended()];
    append(store, &lease, 0, &events).await;
    append(store, &lease, 2, &[]).await;
    append(store, &lease, 2, &[said("again")]).await;
    let back = read(store, &lease.thread).await;
    assert_eq!(back[..2], events);
    assert_eq!(back.len(), 3);
}

async fn a_thread_is_read_in_parts(store: &dyn ThreadStore) {
    let lease = held(store, "one").await;
    let events: Vec<Event> = (0..10).map(|number| said(&number.to_string())).collect();
    append(store, &lease, 0, &events).await;
    let Ok(part) = store.events(&lease.thread, 4, 3).await else { panic!("not read") };
    assert_eq!(part.iter().map(|stored| stored.number).collect::<Vec<_>>(), [5, 6, 7]);
    let Ok(rest) = store.events(&lease.thread, 99, 3).await else { panic!("not read") };
    assert!(rest.is_empty());
}

async fn what_is_stored_can_be_read(store: &dyn ThreadStore) {
    let lease = held(store, "one").await;
    let delta = (0..1000).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
    let deep = Event::StateChanged { changes: vec![StateChange { owner: "deep".to_owned(), delta }] };
    // A store that could not return the event must refuse it, and continue without it.
    let taken = u64::from(store.append(&lease, 0, std::slice::from_ref(&deep)).await.is_ok());
    let next = said("a");
    append(store, &lease, taken, std::slice::from_ref(&next)).await;
    let expected = if taken == 1 { vec![deep, next] } else { vec![next] };
    assert!(read(store, &lease.thread).await == expected, "the store took the event and does not return it");
}

async fn a_missing_thread_is_an_error(store: &dyn ThreadStore) {
    let nowhere = ThreadId::new();
    assert!(matches!(store.events(&nowhere, 0, 1).await, Err(ThreadError::NotFound(_))));
    assert!(matches!(store.fork(&nowhere, 0, &ThreadId::new()).await, Err(ThreadError::NotFound(_))));
    assert!(store.delete(&nowhere).await.is_ok());
}

async fn one_writer_at_a_time(store: &dyn ThreadStore) {
    let lease = held(store, "one").await;
    let refused = store.lease(&lease.thread, "two", LONG).await;
    assert!(matches!(&refused, Err(ThreadError::Leased { owner, .. }) if owner == "one"), "{refused:?}");
    let Ok(again) = store.lease(&lease.thread, "one", LONG).await else {
        panic!("the owner's own lease is refused")
    };
    append(store, &lease, 0, &[said("a")]).await;
    append(store, &again, 1, &[ended()]).await;
    assert!(store.release(&again).await.is_ok());
    assert!(store.lease(&lease.thread, "two", LONG).await.is_ok());
    assert!(store.release(&again).await.is_ok(), "releasing twice is no error");
    assert!(store.lease(&lease.thread, "three", LONG).await.is_err(), "and ends no other lease");
}

async fn a_lease_ends_with_its_time(store: &dyn ThreadStore) {
    let thread = ThreadId::new();
    assert!(store.lease(&thread, "one", SHORT).await.is_ok());
    tokio::time::sleep(SHORT * 4).await;
    assert!(store.lease(&thread, "two", LONG).await.is_ok());
}

async fn appending_keeps_the_lease(store: &dyn ThreadStore) {
    let thread = ThreadId::new();
    let Ok(lease) = store.lease(&thread, "busy", SHORT).await else { panic!("no lease") };
    assert_eq!(lease.lasts, SHORT);
    // Each append extends the lease, even if it had ended and nobody took it.
    tokio::time::sleep(SHORT * 4).await;
    append(store, &Lease { lasts: LONG, ..lease.clone() }, 0, &[said("a")]).await;
    // An append never shortens the lease.
    append(store, &lease, 1, &[ended()]).await;
    tokio::time::sleep(SHORT * 4).await;
    let refused = store.lease(&thread, "two", LONG).await;
    assert!(matches!(&refused, Err(ThreadError::Leased { owner, .. }) if owner == "busy"), "{refused:?}");
}

async fn a_lost_lease_writes_nothing(store: &dyn ThreadStore) {
    let thread = ThreadId::new();
    let Ok(lost) = store.lease(&thread, "one", SHORT).await else { panic!("no lease") };
    append(store, &lost, 0, &[said("mine")]).await;
    tokio::time::sleep(SHORT * 4).await;
    let Ok(taken) = store.lease(&thread, "two", LONG).await else { panic!("no lease") };
    let refused = store.append(&lost, 1, &[said("late")]).await;
    assert!(matches!(refused, Err(ThreadError::LeaseLost(_))), "{refused:?}");
    append(store, &taken, 1, &[ended()]).await;
    assert_eq!(read(store, &thread).await.len(), 2);
}

async fn a_stale_writer_gets_an_error(store: &dyn ThreadStore) {
    let lease = held(store, "one").await;
    append(store, &lease, 0, &[said("a"), ended()]).await;
    for wrong in [0, 1, 3] {
        let refused = store.append(&lease, wrong, &[said("b")]).await;
        assert!(matches!(refused, Err(ThreadError::Conflict { has: 2, .. })), "{refused:?}");
    }
    assert_eq!(read(store, &lease.thread).await.len(), 2);
}

async fn an_append_is_whole(store: &dyn ThreadStore) {
    let lease = held(store, "one").await;
    let events: Vec<Event> = (0..500).map(|number| said(&number.to_string().repeat(50))).collect();
    append(store, &lease, 0, &events).await;
    assert_eq!(read(store, &lease.thread).await, events);
}

async fn a_fork_goes_its_own_way(store: &dyn ThreadStore) {
    let lease = held(store, "one").await;
    append(store, &lease, 0, &[said("a"), ended(), said("b")]).await;
    let fork = ThreadId::new();
    assert!(store.fork(&lease.thread, 2, &fork).await.is_ok(), "even while someone writes to the other");
    assert!(matches!(store.fork(&lease.thread, 2, &fork).await, Err(ThreadError::Exists(_))));
    assert!(matches!(store.fork(&lease.thread, 9, &ThreadId::new()).await, Err(ThreadError::NotFound(_))));
    let Ok(other) = store.lease(&fork, "two", LONG).await else { panic!("no lease") };
    append(store, &other, 2, &[said("c")]).await;
    assert_eq!((read(store, &lease.thread).await.len(), read(store, &fork).await.len()), (3, 3));
    assert_eq!(read(store, &fork).await[..2], read(store, &lease.thread).await[..2]);
    assert_ne!(read(store, &fork).await[2], read(store, &lease.thread).await[2]);
}

async fn the_last_changed_is_listed_first(store: &dyn ThreadStore) {
    let (one, other) = (held(store, "one").await, held(store, "one").await);
    append(store, &other, 0, &[said("a")]).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    append(store, &one, 0, &[said("b"), ended()]).await;
    let Ok(list) = store.list(2).await else { panic!("no list") };
    let found: Vec<_> = list.iter().map(|info| (&info.id, info.events)).collect();
    assert_eq!(found, [(&one.thread, 2), (&other.thread, 1)]);
    assert!(list.iter().all(|info| info.created <= info.changed));
}

async fn what_is_deleted_is_gone(store: &dyn ThreadStore) {
    let lease = held(store, "one").await;
    append(store, &lease, 0, &[said("a")]).await;
    assert!(matches!(store.delete(&lease.thread).await, Err(ThreadError::Leased { .. })));
    assert!(store.release(&lease).await.is_ok() && store.delete(&lease.thread).await.is_ok());
    assert!(matches!(store.events(&lease.thread, 0, 1).await, Err(ThreadError::NotFound(_))));
    assert!(store.append(&lease, 1, &[ended()]).await.is_err());
    let Ok(new) = store.lease(&lease.thread, "one", LONG).await else { panic!("no lease") };
    append(store, &new, 0, &[said("anew")]).await;
}

async fn many_writers_make_one_log(store: Arc<dyn ThreadStore>) {
    const WRITERS: usize = 8;
    let thread = ThreadId::new();
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let (store, thread) = (Arc::clone(&store), thread.clone());
            tokio::spawn(async move {
                for turn in 0..5 {
                    let lease = loop {
                        match store.lease(&thread, &format!("writer {number}"), LONG).await {
                            Ok(lease) => break lease,
                            Err(ThreadError::Leased { .. }) => {
                                tokio::time::sleep(Duration::from_millis(1)).await
                            }
                            Err(error) => panic!("no lease: {error}"),
                        }
                    };
                    let has = read(&*store, &thread).await.len() as u64;
                    append(&*store, &lease, has, &[said(&format!("{number} {turn}")), ended()]).await;
                    assert!(store.release(&lease).await.is_ok());
                }
            })
        })
        .collect();
    for writer in writers {
        assert!(writer.await.is_ok());
    }
    let events = read(&*store, &thread).await;
    let texts: BTreeSet<String> = events
        .iter()
        .filter_map(|event| match event {
            Event::TurnStarted { messages } => messages.first().map(Message::text),
            _ => None,
        })
        .collect();
    assert_eq!((events.len(), texts.len()), (WRITERS * 5 * 2, WRITERS * 5));
}
