//! What strangers may make the binary hold: bytes that come over a wire, and what they come to in memory.

mod half;
mod message;
mod model;
mod other_server;
mod waiting;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::World;

/// No answer of these tests takes as long.
const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "0123456789-abcdefghij";
const MIB: usize = 1 << 20;

/// Small values, of which a bomb is made.
const SMALL: [&str; 4] = [r#"{"a":1}"#, "{}", "0", "[[]]"];

/// A list of small values, about as long as this.
fn bomb(small: &str, bytes: usize) -> String {
    format!("[{}0]", format!("{small},").repeat(bytes / (small.len() + 1)))
}

/// What the system says of a process's memory, in bytes: the most that it ever had (`VmHWM`), or what it has (`VmRSS`).
fn memory(process: u32, of: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap();
    line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").trim().parse::<usize>().unwrap() * 1024
}

/// A server over HTTP, with a skill `tides`.
struct Served {
    child: Child,
    address: String,
    _world: World,
}

impl Served {
    fn start(configuration: &str) -> Self {
        Self::with(configuration, &[])
    }

    fn with(configuration: &str, variables: &[(&str, &str)]) -> Self {
        let world = World::new();
        world.skill("shelf", "tides", "Looks up tides.");
        world.file("home/.config/prowess/prowess.toml", configuration);
        let shelf = world.path("shelf");
        let mut command =
            world.command(&["mcp", "--only", "--root", shelf.to_str().unwrap(), "--http", "127.0.0.1:0"]);
        command.env("PROWESS_MCP_TOKEN", SECRET).envs(variables.iter().copied()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.find_map(|line| line.strip_prefix("serving at http://").map(ToOwned::to_owned));
        // What else it says is read, so that it never waits.
        std::thread::spawn(move || lines.for_each(drop));
        let address = url.unwrap().trim_end_matches("/mcp").to_owned();
        Self { child, address, _world: world }
    }

    fn memory(&self, of: &str) -> usize {
        memory(self.child.id(), of)
    }

    /// Sends a message on a connection of its own.
    fn send(&self, session: Option<&str>, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {SECRET}\r\nconnection: close\r\n{session}\
             accept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // What is refused may be answered before it is read to its end.
        let _ = stream.write_all(body.as_bytes());
        stream
    }

    /// The status, and all of the answer.
    fn post(&self, session: Option<&str>, body: &str) -> (u16, String) {
        let mut answer = Vec::new();
        let _ = self.send(session, body).read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        (answer.split(' ').nth(1).unwrap_or_else(|| panic!("{answer}")).parse().unwrap(), answer)
    }

    /// A session of one client of 2025-11-25 that shows forms.
    fn session(&self) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "t", "version": "1"},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let (status, answer) = self.post(None, &hello.to_string());
        assert_eq!(status, 200, "{answer}");
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(Some(&id), &told.to_string()).0, 202);
        id
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A call that loads the skill, with more parameters.
fn load(id: usize, more: &Value) -> Value {
    let mut params = json!({"name": "load_skill", "arguments": {"skill_name": "tides"}});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// Reads until one of these words has come; which, and all that was read.
fn until(stream: &mut TcpStream, words: &[&str]) -> (usize, String) {
    let mut read = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&read);
        if let Some(found) = words.iter().position(|word| text.contains(word)) {
            return (found, text.into_owned());
        }
        let bytes = stream.read(&mut piece).unwrap();
        assert!(bytes > 0, "it ended: {text}");
        read.extend_from_slice(&piece[..bytes]);
    }
}
