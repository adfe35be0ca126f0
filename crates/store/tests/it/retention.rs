//! Tests of retention.

use std::time::{Duration, Instant};

use prowess_agent::thread::ThreadError;
use prowess_agent::{ThreadId, ThreadStore};
use prowess_store::Retention;

use crate::support::{LONG, databases, thread_of};

async fn left(store: &dyn ThreadStore) -> Vec<ThreadId> {
    store.list(usize::MAX).await.unwrap().into_iter().map(|info| info.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_stay_and_what_somebody_has() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let store = database.threads();
        let mut threads = Vec::new();
        for number in 0..230 {
            let lease = thread_of(&*store, 2).await;
            // Somebody is writing one of the oldest.
            if number != 1 {
                store.release(&lease).await.unwrap();
            }
            threads.push(lease.thread);
        }
        assert_eq!(database.prune(Retention::default()).await.unwrap(), 0, "by default all stay");
        let keep = |threads| Retention::default().keep_last(threads);
        assert_eq!(database.prune(keep(1000)).await.unwrap(), 0);
        assert_eq!(database.prune(keep(3)).await.unwrap(), 226);
        let mut stay: Vec<_> = [1, 227, 228, 229].map(|number: usize| threads[number].clone()).into();
        stay.reverse();
        assert_eq!(left(&*store).await, stay);
        let gone = store.events(&threads[0], 0, 1).await;
        assert!(matches!(gone, Err(ThreadError::NotFound(_))), "{gone:?}");
        assert_eq!(store.events(&threads[1], 0, 9).await.unwrap().len(), 2);
        assert_eq!(database.prune(keep(0)).await.unwrap(), 3);
        assert_eq!(left(&*store).await, [threads[1].clone()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_go() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let store = database.threads();
        let old = thread_of(&*store, 1).await;
        let awake = thread_of(&*store, 1).await;
        for lease in [&old, &awake] {
            store.release(lease).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let between = Instant::now();
        tokio::time::sleep(Duration::from_millis(700)).await;
        let again = store.lease(&awake.thread, "one", LONG).await.unwrap();
        store.append(&again, 1, &[crate::support::said("still here")]).await.unwrap();
        store.release(&again).await.unwrap();
        // A fork of an old thread is new.
        let fork = ThreadId::new();
        store.fork(&old.thread, 1, &fork).await.unwrap();
        let older = |age| Retention::default().older_than(age);
        assert_eq!(database.prune(older(LONG)).await.unwrap(), 0);
        assert_eq!(database.prune(older(Duration::MAX)).await.unwrap(), 0);
        assert_eq!(database.prune(older(between.elapsed())).await.unwrap(), 1);
        assert_eq!(left(&*store).await, [fork, awake.thread]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_with_work_to_do_stays() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let (store, queue) = (database.threads(), database.queue());
        let lease = thread_of(&*store, 1).await;
        store.release(&lease).await.unwrap();
        queue.wake(&lease.thread).await.unwrap();
        assert_eq!(database.prune(Retention::default().keep_last(0)).await.unwrap(), 0);
        queue.forget(&lease.thread).await.unwrap();
        assert_eq!(database.prune(Retention::default().keep_last(0)).await.unwrap(), 1);
    }
}
