//! Calls that wait for a person.

use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{MIB, Served, load, until};

const ASKS: &str = "[permission.skill]\n\"tides\" = \"ask\"\n";
/// How many calls of one client wait, and how many may.
const CALLS: usize = 60;
const MOST: usize = 64;
/// What one of them may hold.
const HELD: usize = 64 * 1024;

#[test]
fn case_104_a_call_that_waits_holds_at_most_64_kib() {
    // Large blocks go back to the system at once, so that what is seen is what is held.
    let served = Served::with(ASKS, &[("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_ARENA_MAX", "1")]);
    let session = served.session();
    let much = [json!({"x": "y".repeat(MIB)}), json!({"x": vec![json!({"a": 1}); 1000]})];
    let waits = |id: usize| -> TcpStream {
        let message = load(id, &json!({"_meta": much[id % 2]})).to_string();
        let mut stream = served.send(Some(&session), &message);
        until(&mut stream, &["elicitation/create"]);
        stream
    };
    // The first ones have the allocator make room that it keeps.
    let first: Vec<TcpStream> = (0..4).map(|number| waits(100 + number)).collect();
    let before = served.memory("VmRSS");
    let others: Vec<TcpStream> = (0..CALLS).map(|number| waits(200 + number)).collect();
    let held = served.memory("VmRSS").saturating_sub(before) / CALLS;
    assert!(held <= HELD, "each of {CALLS} calls holds {held} bytes");
    drop((first, others));
}

#[test]
fn case_104_a_call_whose_client_is_gone_is_dropped() {
    let served = Served::start(ASKS);
    let session = served.session();
    let call = |id: usize| served.send(Some(&session), &load(id, &json!({})).to_string());
    let waiting: Vec<TcpStream> = (0..MOST)
        .map(|number| {
            let mut stream = call(100 + number);
            until(&mut stream, &["elicitation/create"]);
            stream
        })
        .collect();
    let is_let_in = |id: usize| until(&mut call(id), &["elicitation/create", "-32000"]).0 == 0;
    assert!(!is_let_in(10), "there is room for more than {MOST}");
    drop(waiting);
    // Whoever is gone is seen to be gone some seconds later: it might have come back.
    let begun = Instant::now();
    let (_never, nothing) = channel::<()>();
    let mut id = 1000;
    while !is_let_in(id) {
        assert!(begun.elapsed() < Duration::from_secs(60), "calls of a client that is gone wait on");
        id += 1;
        let _ = nothing.recv_timeout(Duration::from_millis(200));
    }
}
