//! Messages of a client that are small as text and large as a tree.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use super::{MIB, SMALL, Served, bomb, load, memory};
use crate::world::World;

/// What one message may take for each of its bytes.
const TIMES: usize = 10;

/// A message with a bomb at each place that takes one.
fn messages(bomb: &str) -> [String; 5] {
    let call = r#""jsonrpc":"2.0","id":5,"method":"tools/call""#;
    let name = r#""name":"load_skill""#;
    [
        format!(r#"{{{call},"x":{bomb},"params":{{{name},"arguments":{{"skill_name":"tides"}}}}}}"#),
        format!(
            r#"{{{call},"params":{{{name},"arguments":{{"skill_name":"tides"}},"_meta":{{"x":{bomb}}}}}}}"#
        ),
        format!(r#"{{{call},"params":{{{name},"arguments":{{"skill_name":"tides","x":{bomb}}}}}}}"#),
        format!(r#"{{"params":{{{name},"arguments":{{"skill_name":"tides"}},"x":{bomb}}},{call}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":{bomb},"method":"ping"}}"#),
    ]
}

#[test]
fn case_103_a_message_of_small_objects_costs_at_most_ten_times_its_size_over_http() {
    let served = Served::start("");
    let session = served.session();
    let before = served.memory("VmHWM");
    for small in SMALL {
        for message in messages(&bomb(small, MIB)) {
            let (status, answer) = served.post(Some(&session), &message);
            let took = served.memory("VmHWM") - before;
            assert!(took <= TIMES * message.len(), "{small}: {} bytes took {took}: {answer}", message.len());
            assert!(matches!(status, 200 | 413), "{answer}");
        }
    }
    // The session goes on.
    assert_eq!(served.post(Some(&session), &load(6, &json!({})).to_string()).0, 200);
}

#[test]
fn case_103_what_is_taken_costs_no_more_either() {
    for (bytes, objects) in [(MIB, 700), (4 * MIB - 1000, 1_500)] {
        let served = Served::start("");
        let session = served.session();
        // What every first call takes is not the message's.
        assert_eq!(served.post(Some(&session), &load(4, &json!({})).to_string()).0, 200);
        let before = served.memory("VmHWM");
        // Text with an escape has to be copied, and fills the message up.
        let text = format!("\n{}", "x".repeat(bytes - 8 * objects - 200));
        let message = load(
            5,
            &json!({"arguments": {"skill_name": "tides", "args": text, "x": vec![json!({"a": 1}); objects]}}),
        );
        let message = message.to_string();
        let (status, answer) = served.post(Some(&session), &message);
        let took = served.memory("VmHWM") - before;
        assert!(took <= TIMES * message.len(), "{} bytes took {took}", message.len());
        assert_eq!(status, 200, "{answer}");
        assert!(answer.contains("there is no argument"), "{answer}");
    }
}

#[test]
fn case_103_the_same_on_standard_input() {
    let world = World::new();
    let mut child = world
        .command(&["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut ask = |message: &str| -> Value {
        writeln!(input, "{message}").unwrap();
        let answer =
            output.find(|line| ["\"result\"", "\"error\""].iter().any(|word| line.contains(word))).unwrap();
        serde_json::from_str(&answer).unwrap()
    };
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).to_string());
    ask(
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}",
    );
    let before = memory(child.id(), "VmHWM");
    for small in SMALL {
        for message in messages(&bomb(small, MIB)) {
            let answer = ask(&message);
            let took = memory(child.id(), "VmHWM") - before;
            assert!(took <= TIMES * message.len(), "{small}: {} bytes took {took}: {answer}", message.len());
            let why = answer["error"]["message"].as_str();
            let is_refused = why.is_some_and(|why| why.contains("too many small values"));
            assert!(is_refused || answer["result"]["content"].is_array(), "{answer}");
        }
    }
    assert_eq!(ask(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#)["result"], json!({}));
    child.kill().unwrap();
    child.wait().unwrap();
}
