//! Tests of a process that is killed while it writes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use prowess_agent::ThreadId;
use prowess_store::Database;

use crate::support::{LONG, again, postgres_url, said, texts};

const PLACE: &str = "PROWESS_TEST_KILL_PLACE";
const THREAD: &str = "killed";

/// The process that is killed: it appends numbered events, one to three at a time, and prints each number after it is
/// stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_until_it_is_killed() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let store = Database::open(&place).await.unwrap().threads();
    let thread: ThreadId = THREAD.parse().unwrap();
    let lease = store.lease(&thread, "the killed", LONG).await.unwrap();
    let mut has = store.events(&thread, 0, usize::MAX).await.unwrap().len() as u64;
    loop {
        let next = has + 1 + has % 3;
        let events: Vec<_> = (has + 1..=next).map(|number| said(number.to_string())).collect();
        store.append(&lease, has, &events).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nstored {next}").unwrap();
        out.flush().unwrap();
        has = next;
    }
}

/// Runs the process and kills it after a while. Returns the last number that it printed.
fn killed_after(place: &str, wait: Duration) -> Option<usize> {
    let mut child = again(&[], "kill::appends_until_it_is_killed")
        .env(PLACE, place)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let (sender, lines) = channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    let reading = std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let until = Instant::now() + wait;
    let mut last = None;
    let mut note = |line: String| {
        if let Some(number) = line.strip_prefix("stored ") {
            last = Some(number.parse().unwrap());
        }
    };
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => note(line),
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => panic!("the process ended by itself"),
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Everything that it printed before its death was stored.
    reading.join().unwrap();
    lines.try_iter().for_each(note);
    last
}

async fn nothing_is_lost(place: &str, times: usize) {
    let thread: ThreadId = THREAD.parse().unwrap();
    let mut told = 0;
    let mut rounds_that_stored = 0;
    for round in 0..times {
        let wait = Duration::from_millis(20 + u64::from(getrandom::u32().unwrap() % 300));
        let (at, longer) = (place.to_owned(), wait);
        let last = tokio::task::spawn_blocking(move || killed_after(&at, longer)).await.unwrap();
        rounds_that_stored += usize::from(last.is_some());
        told = told.max(last.unwrap_or_default());
        // Opened again each time, as after a crash.
        let store = Database::open(place).await.unwrap().threads();
        let found = match store.events(&thread, 0, 1).await {
            Ok(_) => texts(&*store, &thread).await,
            Err(_) if told == 0 => continue,
            Err(error) => panic!("round {round}: {error}"),
        };
        assert!(found.len() >= told, "round {round}: {told} were stored, {} are there", found.len());
        let expected: Vec<String> = (1..=found.len()).map(|number| number.to_string()).collect();
        assert_eq!(found, expected, "round {round}: no gap, and none twice");
    }
    assert!(rounds_that_stored > times / 3, "{rounds_that_stored} of {times} came to store anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_80_a_kill_loses_nothing_of_a_file() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    nothing_is_lost(path.to_str().unwrap(), 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_80_a_kill_loses_nothing_on_a_server() {
    nothing_is_lost(&postgres_url().await, 12).await;
}
