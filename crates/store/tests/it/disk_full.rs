//! Tests with a full disk.

use std::path::Path;

use prowess_agent::thread::ThreadError;
use prowess_agent::{ThreadId, ThreadStore};
use prowess_store::{DatabaseError, SqliteStore};

use crate::support::{LONG, again, said};

const PLACE: &str = "PROWESS_TEST_FULL_PLACE";
const ROOM: &str = "PROWESS_TEST_FULL_ROOM";

/// Appends events until an append fails, in its own process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_until_it_is_full() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let path = Path::new(&place).join("a.db");
    // Another file on the same disk, which can be removed.
    let filler = std::env::var(ROOM).ok().map(|_| Path::new(&place).join("filler"));
    if let Some(filler) = &filler {
        std::fs::write(filler, vec![7; 200 << 10]).unwrap();
    }
    let store = SqliteStore::open(&path).await.unwrap();
    let thread: ThreadId = "full".parse().unwrap();
    let lease = store.lease(&thread, "one", LONG).await.unwrap();
    let mut stored = 0;
    let mut refused = None;
    // A second try may find a little space.
    for _ in 0..3 {
        refused = Some(loop {
            match store.append(&lease, stored, &[said("x".repeat(3000)), said("y".repeat(3000))]).await {
                Ok(()) => stored += 2,
                Err(error) => break error,
            }
            assert!(stored < 10_000, "it never gets full");
        });
    }
    let refused = refused.unwrap();
    assert!(stored > 0, "{refused}");
    assert!(matches!(refused, ThreadError::Store { .. }));
    let words = refused.to_string();
    assert!(words.contains("nothing new was stored") && words.contains("try again"), "{words}");
    match DatabaseError::of(&refused).unwrap() {
        DatabaseError::Full { .. } => assert!(words.contains("has no space left"), "{words}"),
        DatabaseError::Unwritable { .. } => assert!(words.contains("limit of file sizes"), "{words}"),
        other => panic!("{other}"),
    }
    // This store and another one can read all stored events.
    assert_eq!(store.events(&thread, 0, usize::MAX).await.unwrap().len() as u64, stored);
    store.check().await.unwrap();
    drop(store);
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(store.events(&thread, 0, usize::MAX).await.unwrap().len() as u64, stored);
    assert_eq!(store.list(1).await.unwrap()[0].events, stored);
    // After space was freed, appends succeed.
    if let Some(filler) = filler {
        std::fs::remove_file(filler).unwrap();
        store.append(&lease, stored, &[said("there is room again")]).await.unwrap();
        assert_eq!(store.events(&thread, 0, usize::MAX).await.unwrap().len() as u64, stored + 1);
    }
    println!("\nit was full after {stored} events");
}

fn run(wrapper: &[&str], place: &Path, room: bool) {
    let mut command = again(wrapper, "disk_full::writes_until_it_is_full");
    command.env(PLACE, place);
    if room {
        command.env(ROOM, "yes");
    }
    let ran = command.output().unwrap();
    let out = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && out.contains("it was full after"), "{out}");
}

#[test]
fn case_82_disk_full() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path().to_str().unwrap();
    // A file system of 2 MiB that only this process sees.
    run(&["bwrap", "--dev-bind", "/", "/", "--size", "2097152", "--tmpfs", at], place.path(), true);
}

#[test]
fn case_82_no_file_may_grow() {
    let place = tempfile::tempdir().unwrap();
    // The signal that would end the process is ignored, as in servers.
    let limited = "trap '' XFSZ; ulimit -f 1000; exec \"$0\" \"$@\"";
    run(&["sh", "-c", limited], place.path(), false);
}
