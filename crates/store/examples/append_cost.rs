//! What durability costs: appends to SQLite against the same bytes written to a file and flushed, in the same run and
//! on the same file system.
//!
//! `cargo run --release -p prowess-store --example append_cost [DIRECTORY]`

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prowess_agent::{Event, Message, ThreadId, ThreadStore};
use prowess_store::SqliteStore;

/// How often each is measured.
const ROUNDS: usize = 1500;
/// How many of them before the log is written from its beginning again.
const FIRST: usize = 200;
/// How many bytes one event has, about.
const BYTES: usize = 1000;
/// How many write at the same time, and how often each.
const WRITERS: usize = 64;
const EACH: usize = 20;
const LONG: Duration = Duration::from_secs(600);

fn event() -> Event {
    Event::TurnStarted { messages: vec![Message::user("x".repeat(BYTES))] }
}

/// In microseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn sum(times: &[Duration]) -> f64 {
    times.iter().sum::<Duration>().as_secs_f64()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let place = match std::env::args().nth(1) {
        Some(directory) => tempfile::tempdir_in(directory)?,
        None => tempfile::tempdir()?,
    };
    let store = Arc::new(SqliteStore::open(place.path().join("threads.db")).await?);
    let lease = store.lease(&ThreadId::new(), "bench", LONG).await?;
    let mut file = std::fs::File::create(place.path().join("raw"))?;
    let mut bytes = serde_json::to_vec(&event())?;
    bytes.push(b'\n');

    // In turn, so that both meet the same disk.
    let (mut raw, mut stored) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS as u64 {
        let start = Instant::now();
        file.write_all(&bytes)?;
        file.sync_all()?;
        raw.push(start.elapsed());
        let start = Instant::now();
        store.append(&lease, round, &[event()]).await?;
        stored.push(start.elapsed());
    }
    // A log that grows is dearer to flush than one that is written again; a short run sees only the first.
    for (name, rounds) in [("all", 0..ROUNDS), ("the first", 0..FIRST), ("the others", FIRST..ROUNDS)] {
        let (mut raw, mut stored) = (raw[rounds.clone()].to_vec(), stored[rounds].to_vec());
        let sums = sum(&stored) / sum(&raw);
        let medians = median(&mut stored) / median(&mut raw);
        println!(
            "{name} {}: ratio {medians:.2} of the medians, {sums:.2} of the sums; the bar is 2",
            raw.len()
        );
    }
    let raw = median(&mut raw);
    println!(
        "write and flush {} bytes: {:.0} µs; append them: {:.0} µs",
        bytes.len(),
        raw,
        median(&mut stored)
    );

    // Many at once share flushes.
    let start = Instant::now();
    let writing: Vec<_> = (0..WRITERS)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let lease = store.lease(&ThreadId::new(), "bench", LONG).await?;
                for number in 0..EACH as u64 {
                    store.append(&lease, number, &[event()]).await?;
                }
                Ok::<(), prowess_agent::ThreadError>(())
            })
        })
        .collect();
    for written in writing {
        written.await??;
    }
    let each = start.elapsed() / u32::try_from(WRITERS * EACH)?;
    let ratio = each.as_secs_f64() * 1e6 / raw;
    println!("{WRITERS} threads at once: {each:?} for each append, ratio {ratio:.2}");
    Ok(())
}
