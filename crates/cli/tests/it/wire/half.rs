//! Requests that are never completed.

use std::io::Write as _;
use std::net::TcpStream;

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;

use super::{Served, until};

/// More than there may be connections.
const HALF: usize = 2_100;

#[test]
fn case_107_half_requests_without_a_token_do_not_starve_clients() {
    // Each of them is an open file here, too.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum.or(limit.current);
    let _ = setrlimit(Resource::Nofile, limit);
    let served = Served::start("");
    let session = served.session();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    // One that was there before keeps its connection.
    let mut before = TcpStream::connect(&served.address).unwrap();
    before.set_read_timeout(Some(super::PATIENCE)).unwrap();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nmcp-session-id: {session}\r\n\
         accept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{list}",
        served.address,
        super::SECRET,
        list.len()
    );
    before.write_all(request.as_bytes()).unwrap();
    until(&mut before, &["0\r\n\r\n"]);
    let mut half = Vec::new();
    for _ in 0..HALF {
        let mut stream = TcpStream::connect(&served.address).unwrap();
        // It may have been ended for another one.
        let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: ");
        half.push(stream);
    }
    // A client that comes now, and does not wait long for an answer.
    let mut new = served.send(Some(&session), &list);
    new.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    assert!(until(&mut new, &["load_skill"]).1.starts_with("HTTP/1.1 200"));
    before.write_all(request.as_bytes()).unwrap();
    until(&mut before, &["load_skill"]);
    // They were open at this end all the while.
    drop(half);
}
