//! A look that changes nothing.

use std::collections::BTreeMap;
use std::path::Path;

use prowess_agent::{ThreadInfo, ThreadStore};
use prowess_store::SqliteStore;

use crate::support::{again, thread_of};

/// Every file of a directory, with what is in it and when it changed.
fn files(place: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    let entries = std::fs::read_dir(place).unwrap().map(Result::unwrap);
    let file = |entry: std::fs::DirEntry| {
        let changed = entry.metadata().unwrap().modified().unwrap();
        (entry.file_name().into_string().unwrap(), (std::fs::read(entry.path()).unwrap(), changed))
    };
    entries.map(file).collect()
}

fn looked(path: &Path) -> Vec<ThreadInfo> {
    let before = files(path.parent().unwrap());
    let seen = SqliteStore::glance(path, 10).unwrap();
    assert!(before == files(path.parent().unwrap()), "something was written");
    seen
}

#[tokio::test]
async fn a_look_sees_what_is_stored_and_writes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("odd name?#%.db");
    assert!(looked(&path).is_empty(), "no file is no threads");
    let store = SqliteStore::open(&path).await.unwrap();
    let lease = thread_of(&store, 2).await;
    let seen = looked(&path);
    assert_eq!(seen, store.list(10).await.unwrap(), "while another has it open");
    assert_eq!((&seen[0].id, seen[0].events), (&lease.thread, 2));
    store.close().await.unwrap();
    assert_eq!(looked(&path), seen, "and when nobody has");
    std::fs::write(&path, "no database").unwrap();
    SqliteStore::glance(&path, 10).unwrap_err();
}

#[tokio::test]
async fn what_a_killed_process_left_is_seen_as_well() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    if let Ok(path) = std::env::var("PROWESS_TEST_GLANCE") {
        let store = SqliteStore::open(&path).await.unwrap();
        thread_of(&store, 3).await;
        std::process::abort();
    }
    let mut child = again(&[], "glance::what_a_killed_process_left_is_seen_as_well");
    assert!(!child.env("PROWESS_TEST_GLANCE", &path).output().unwrap().status.success());
    assert_eq!(looked(&path)[0].events, 3);
}
