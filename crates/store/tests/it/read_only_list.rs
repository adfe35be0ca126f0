//! Tests of the list that changes nothing.

use std::collections::BTreeMap;
use std::path::Path;

use prowess_agent::ThreadStore;
use prowess_agent::thread::ThreadInfo;
use prowess_store::SqliteStore;

use crate::support::{again, thread_of};

/// Every file of a directory, with its contents and its time.
fn files(place: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    let entries = std::fs::read_dir(place).unwrap().map(Result::unwrap);
    let file = |entry: std::fs::DirEntry| {
        let changed = entry.metadata().unwrap().modified().unwrap();
        (entry.file_name().into_string().unwrap(), (std::fs::read(entry.path()).unwrap(), changed))
    };
    entries.map(file).collect()
}

/// The numbers of events, as another process sees them. All handles in one process share the index of the file.
fn event_counts(path: &Path) -> Vec<u64> {
    let before = files(path.parent().unwrap());
    let output =
        again(&[], "read_only_list::another_process_looks").env("PROWESS_TEST_LOOK", path).output().unwrap();
    assert!(before == files(path.parent().unwrap()), "something was written");
    let told = String::from_utf8(output.stdout).unwrap();
    let seen = told.lines().find_map(|line| line.strip_prefix("seen:")).unwrap_or_else(|| panic!("{told}"));
    seen.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn another_process_looks() {
    let Some(path) = std::env::var_os("PROWESS_TEST_LOOK") else { return };
    let seen: Vec<ThreadInfo> = SqliteStore::list_read_only(Path::new(&path), 10).unwrap();
    let events: Vec<String> = seen.iter().map(|info| info.events.to_string()).collect();
    println!("\nseen: {}", events.join(" "));
}

#[tokio::test]
async fn a_look_sees_what_is_stored_and_writes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("odd name?#%.db");
    assert!(event_counts(&path).is_empty(), "no file is no threads");
    let store = SqliteStore::open(&path).await.unwrap();
    thread_of(&store, 2).await;
    thread_of(&store, 5).await;
    assert_eq!(event_counts(&path), [5, 2], "while another has it open");
    let listed = store.list(10).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(event_counts(&path), [5, 2], "and when nobody has");
    assert_eq!(SqliteStore::list_read_only(&path, 10).unwrap(), listed);
    std::fs::write(&path, "no database").unwrap();
    SqliteStore::list_read_only(&path, 10).unwrap_err();
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
    let mut child = again(&[], "read_only_list::what_a_killed_process_left_is_seen_as_well");
    assert!(!child.env("PROWESS_TEST_GLANCE", &path).output().unwrap().status.success());
    assert_eq!(event_counts(&path), [3]);
}
