//! A disk that gets full in the middle of a run.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prowess_agent::thread::ThreadError;
use prowess_agent::{AgentError, Event, ThreadStore, ThreadUpdate, TurnStatus};
use prowess_store::{DatabaseError, SqliteStore};

use super::checks::Look;
use super::driver::{advance, finish, opened};
use super::moments::{Moments, What, When, say};
use super::process::again;
use super::script::{Place, agent, thread};

const DISK: &str = "PROWESS_TEST_DISK";
const LEDGERS: &str = "PROWESS_TEST_LEDGERS";
/// What cannot be given back while there is no room ends by itself.
const LEASE: Duration = Duration::from_millis(500);

/// When the disk gets full: in a call that must not be made twice, in one that may, in several at once, in one that a
/// person let pass, and in those of a sub-agent. Later the log has been read into the database, and there is room in it.
const MOMENTS: [&str; 8] = [
    "begun r1",
    "finished r2",
    "begun r3b",
    "finished r4",
    "begun t1",
    "finished t4a",
    "begun r6c",
    "finished r8a",
];

/// In a process of its own, whose disk is small.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_until_the_disk_is_full() {
    let (Some(disk), Some(ledgers)) = (std::env::var_os(DISK), std::env::var_os(LEDGERS)) else { return };
    for (number, moment) in MOMENTS.into_iter().enumerate() {
        let database = Path::new(&disk).join(format!("{number}.db"));
        // Not on this disk: what is done is done, whether there is room for it or not.
        let elsewhere = Path::new(&ledgers).join(number.to_string());
        std::fs::create_dir(&elsewhere).unwrap();
        let place = Place::on(database, &elsewhere, LEASE);
        full(&place, moment, number % 2 == 0).await;
    }
    say("it went on every time");
}

async fn full(place: &Place, moment: &str, reopens: bool) {
    let filler = place.database.with_extension("filler");
    let fills = {
        let filler = filler.clone();
        Box::new(move || fill(&filler))
    };
    let moments = Moments::new(When::In(vec![moment.to_owned()]), What::Do(fills));
    let store = SqliteStore::open(&place.database).await.unwrap();
    let agent = agent(place, Arc::new(store.clone()), &moments);
    let mut run = opened(&agent).await;
    let seen = Mutex::new(Vec::new());
    let watcher = |sight: ThreadUpdate<'_>| {
        if let ThreadUpdate::Stored(event) = sight {
            seen.lock().unwrap().push(event.clone());
        }
    };
    // It may find a little room when it is tried again.
    for _ in 0..3 {
        let refused = loop {
            match advance(&mut run, &watcher).await {
                Ok(TurnStatus::Idle) => panic!("{moment}: it was never refused"),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, AgentError::Thread(ThreadError::Store { .. })), "{refused:?}");
        assert!(matches!(DatabaseError::of(&refused), Some(DatabaseError::Full { .. })), "{refused:?}");
        let words = refused.to_string();
        let says_what_to_do =
            words.contains("nothing new was stored") && words.contains("Free some space and try again");
        assert!(says_what_to_do, "{words}");
    }

    // What was shown is stored, all of it and nothing else.
    let stored = store.events(&thread(), 0, usize::MAX).await.unwrap();
    let stored: Vec<Event> = stored.into_iter().map(|stored| stored.event).collect();
    assert_eq!(*seen.lock().unwrap(), stored, "{moment}");
    let before = Look::of(&store, place).await;
    before.check(None);

    std::fs::remove_file(&filler).unwrap();
    if reopens {
        run.close().await.unwrap();
        run = opened(&agent).await;
    }
    finish(&mut run).await.unwrap();
    run.close().await.unwrap();
    let after = Look::of(&store, place).await;
    after.check(Some(&before));
    let tally = after.check_whole();
    say(&format!("{moment}: {} events before, {} after, {tally:?}", before.events(), after.events()));
    store.check().await.unwrap();
    drop((agent, store));
    std::fs::remove_file(&place.database).unwrap();
}

/// Takes all room that there is.
fn fill(filler: &PathBuf) {
    let mut file: File = OpenOptions::new().create(true).append(true).open(filler).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        let bytes = vec![7; size];
        let refused = loop {
            if let Err(error) = file.write_all(&bytes) {
                break error;
            }
        };
        assert_eq!(refused.kind(), ErrorKind::StorageFull, "{refused}");
    }
}

#[test]
fn case_82_the_disk_fills_in_the_middle_of_a_run() {
    let (disk, ledgers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = disk.path().to_str().unwrap();
    // A file system of 16 MiB that only this process sees.
    let small = ["bwrap", "--dev-bind", "/", "/", "--size", "16777216", "--tmpfs", at];
    let mut command = again(&small, "durable::disk_full::works_until_the_disk_is_full");
    let ran = command.env(DISK, disk.path()).env(LEDGERS, ledgers.path()).output().unwrap();
    let out = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && out.contains("it went on every time"), "{out}");
    println!("{out}");
}
