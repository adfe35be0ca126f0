//! Answers of a model.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::json;

use super::{MIB, bomb, memory};
use crate::pty::Pty;
use crate::world::World;

/// What one answer may take for each of its bytes.
const TIMES: usize = 10;

/// A model that answers the first request with these events, and later ones with a word.
fn model(first: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let fine = vec![
        json!({"choices": [{"index": 0, "delta": {"content": "Fine."}, "finish_reason": "stop"}]})
            .to_string(),
    ];
    std::thread::spawn(move || {
        let answers = std::iter::once(first).chain(std::iter::repeat(fine));
        for (stream, events) in listener.incoming().map_while(Result::ok).zip(answers) {
            // A client that has had enough goes.
            let _ = answer(stream, &events);
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream, events: &[String]) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = bytes.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    for event in events {
        stream.write_all(format!("data: {event}\n\n").as_bytes())?;
    }
    stream.write_all(b"data: [DONE]\n\n")
}

/// What a conversation takes beyond what it had, and its last screen.
fn took(first: Vec<String>, until: &str) -> usize {
    let world = World::new();
    let url = model(first);
    let configuration = format!(
        "[model]\nname = \"fake:m\"\ncontext_window = 100000000\n[provider.fake]\napi = \"openai\"\nbase_url = \"{url}\"\n"
    );
    world.file("home/.config/prowess/prowess.toml", &configuration);
    world.skill("home/.prowess/skills", "tides", "Looks up tides.");
    let pty = Pty::start(&world, &["chat"], 100, 30);
    pty.wait_until("the prompt", |screen| screen.lines().last() == Some(">"));
    let before = memory(pty.id(), "VmHWM");
    pty.type_line("hello");
    pty.wait_for(until);
    memory(pty.id(), "VmHWM") - before
}

#[test]
fn case_103_an_event_of_a_model_costs_at_most_ten_times_its_size() {
    let bytes = 16 * MIB - 4000;
    let event = format!(
        r#"{{"choices":[{{"index":0,"delta":{{"content":"x"}}}}],"x":{}}}"#,
        bomb(r#"{"a":1}"#, bytes)
    );
    let took = took(vec![event], "takes too much memory");
    assert!(took <= TIMES * bytes, "{bytes} bytes took {took}");
}

#[test]
fn case_103_so_do_arguments_that_a_model_writes() {
    let bytes = 8 * MIB;
    let arguments = format!(r#"{{"skill":{}}}"#, bomb(r#"{"a":1}"#, bytes));
    let calls = |function, reason: Option<&str>| {
        let call = json!({"index": 0, "id": "c1", "function": function});
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": reason}]})
            .to_string()
    };
    let mut events: Vec<String> = arguments
        .as_bytes()
        .chunks(MIB)
        .map(|piece| {
            calls(json!({"name": "skill_load", "arguments": std::str::from_utf8(piece).unwrap()}), None)
        })
        .collect();
    events.push(calls(json!({"arguments": ""}), Some("tool_calls")));
    let took = took(events, "Fine.");
    assert!(took <= TIMES * bytes, "{bytes} bytes took {took}");
}
