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
/// How many bytes one event has, about.
const BYTES: usize = 1000;
/// How many write at the same time, and how often each.
const WRITERS: usize = 64;
const EACH: usize = 20;
const LONG: Duration = Duration::from_secs(600);

fn event() -> Event {
    Event::TurnStarted { messages: vec![Message::user("x".repeat(BYTES))] }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
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
    let sum = |times: &[Duration]| times.iter().sum::<Duration>();
    let whole = sum(&stored).as_secs_f64() / sum(&raw).as_secs_f64();
    let (raw, stored) = (median(&mut raw), median(&mut stored));
    println!("write and flush {} bytes: {raw:?} (median of {ROUNDS})", bytes.len());
    println!("append them to a thread: {stored:?}");
    let ratio = stored.as_secs_f64() / raw.as_secs_f64();
    println!("ratio: {ratio:.2} of the medians, {whole:.2} of the sums; the bar is 2");

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
    let ratio = each.as_secs_f64() / raw.as_secs_f64();
    println!("{WRITERS} threads at once: {each:?} for each append, ratio {ratio:.2}");
    Ok(())
}
