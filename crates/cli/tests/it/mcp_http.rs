//! `mcp --http`: a server that runs on its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::world::World;

/// No answer of these tests takes as long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server on a port of its own, and what it tells.
struct Server {
    child: Child,
    told: Receiver<String>,
    /// All that was read of it.
    lines: Vec<String>,
    address: String,
}

impl Server {
    fn start(world: &World, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = world.command(&[args, &["mcp", "--http", ":0"]].concat());
        command.envs(variables.iter().copied());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, told) = channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut server = Self { child, told, lines: Vec::new(), address: String::new() };
        let url = server.line("serving at http://");
        server.address = url.trim_end_matches("/mcp").to_owned();
        server
    }

    /// What follows these words in the line that begins with them.
    fn line(&mut self, words: &str) -> String {
        loop {
            let line = self.told.recv_timeout(PATIENCE).unwrap();
            self.lines.push(line.clone());
            if let Some(rest) = line.strip_prefix(words) {
                return rest.to_owned();
            }
        }
    }

    /// What is answered to a message.
    fn post(&self, secret: &str, session: Option<&str>, message: &Value) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (address, body) = (&self.address, message.to_string());
        let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        let length = body.len();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {secret}\r\nconnection: close\r\n{session}\
             accept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }

    /// A session of one client.
    fn session(&self, secret: &str) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let (status, answer) = self.post(
            secret,
            None,
            &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
        );
        assert_eq!(status, 200, "{answer}");
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(secret, Some(&id), &told).0, 202);
        id
    }

    fn signal(&mut self, name: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args([name, &id]).status().unwrap().success());
        // Its end closes what it tells.
        loop {
            match self.told.recv_timeout(PATIENCE) {
                Ok(line) => self.lines.push(line),
                Err(error) => {
                    assert_eq!(error, RecvTimeoutError::Disconnected, "it goes on");
                    return self.child.wait().unwrap().code();
                }
            }
        }
    }
}

#[test]
fn a_token_is_made_once_and_for_the_user_alone() {
    let world = World::new();
    let mut server = Server::start(&world, &["-vvv"], &[]);
    let file = server.line("clients must send the token in ");
    let found = std::fs::metadata(&file).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    let secret = std::fs::read_to_string(&file).unwrap();
    let secret = secret.trim();
    assert_eq!(secret.len(), 64);
    let session = server.session(secret);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let (status, answer) = server.post(secret, Some(&session), &list);
    assert!(status == 200 && answer.contains("load_skill"), "{answer}");
    assert_eq!(server.post("", None, &list).0, 401);
    assert_eq!(server.signal("-INT"), Some(130));
    assert!(server.lines.len() > 2, "there is no log");
    assert!(server.lines.iter().all(|line| !line.contains(secret)), "the token is in the log");
    // The next one has the same.
    let mut next = Server::start(&world, &[], &[]);
    next.session(secret);
    assert_eq!(next.signal("-TERM"), Some(143));
}

#[test]
fn a_token_can_be_given() {
    let world = World::new();
    let secret = "0123456789-abcdefghij";
    let mut server = Server::start(&world, &[], &[("PROWESS_MCP_TOKEN", secret)]);
    assert_eq!(server.line("clients must send the token in "), "PROWESS_MCP_TOKEN");
    server.session(secret);
    server.signal("-TERM");
}

#[test]
fn what_is_not_safe_is_refused() {
    let world = World::new();
    let open = world.path("open-token");
    std::fs::write(&open, "0123456789-abcdefghij\n").unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o644)).unwrap();
    let short = world.path("short-token");
    std::fs::write(&short, "0123\n").unwrap();
    std::fs::set_permissions(&short, PermissionsExt::from_mode(0o600)).unwrap();
    let (open, short) = (open.to_string_lossy(), short.to_string_lossy());
    let mistakes: &[&[&str]] = &[
        &["--http", "8931"],
        &["--http", "example.com:80"],
        &["--http", "0.0.0.0:0"],
        &["--http", "192.0.2.7:8931"],
        &["--http", "[::]:0"],
        &["--allow-remote"],
        &["--token-file", "token"],
        &["--http", ":0", "--token-file", "nowhere"],
        &["--http", ":0", "--token-file", &open],
        &["--http", ":0", "--token-file", &short],
        &["--http", ":0", "--print-config", "zed"],
    ];
    let mut told = String::new();
    for args in mistakes {
        let output = world.output(&[&["mcp"], *args].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        told += &format!("{}\n    {error}", args.join(" "));
    }
    let scratch = world.path("").to_string_lossy().into_owned();
    assert_snapshot!(told.replace(&scratch, "[scratch]/"));
}

#[test]
fn the_client_configuration_has_the_address() {
    let world = World::new();
    let text = world.stdout(&["mcp", "--http", "localhost:8931", "--print-config", "claude-code"]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["mcpServers"]["prowess"]["url"], "http://127.0.0.1:8931/mcp");
}
