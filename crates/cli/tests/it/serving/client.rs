//! A client of the server, over plain sockets: what it sends and gets is exactly what a test says and sees.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

/// No answer of these tests takes as long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Somebody who makes requests.
#[derive(Clone)]
pub(super) struct Client {
    /// Host and port.
    pub(super) address: String,
    /// Headers of every request.
    pub(super) headers: Vec<String>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answered {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value and the flags of a cookie that it sets.
    #[cfg(feature = "oidc")]
    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        let mut set = self.headers.iter().filter(|(header, _)| header == "set-cookie");
        set.find_map(|(_, cookie)| cookie.strip_prefix(name)?.strip_prefix('='))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

impl Client {
    pub(super) fn with_token(address: &str, token: &str) -> Self {
        Self { address: address.to_owned(), headers: vec![format!("authorization: Bearer {token}")] }
    }

    pub(super) fn anonymous(address: &str) -> Self {
        Self { address: address.to_owned(), headers: Vec::new() }
    }

    /// The same with another header.
    pub(super) fn and(&self, header: &str) -> Self {
        let mut client = self.clone();
        client.headers.push(header.to_owned());
        client
    }

    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        more: &[&str],
    ) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        for header in self.headers.iter().map(String::as_str).chain(more.iter().copied()) {
            head.push_str(&format!("{header}\r\n"));
        }
        if let Some(body) = body {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        // A server may answer before it has read everything.
        let _ = stream.write_all(body.unwrap_or_default());
        BufReader::new(stream)
    }

    pub(super) fn request(&self, method: &str, path: &str, body: Option<&[u8]>, more: &[&str]) -> Answered {
        let more = [more, &["connection: close"]].concat();
        let mut reader = self.send(method, path, body, &more);
        let (status, headers) = head(&mut reader);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        let is_chunked =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if is_chunked { unchunked(&rest) } else { rest };
        Answered { status, headers, body }
    }

    /// A request below `/api/v1`.
    pub(super) fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Answered {
        let body = body.map(|body| body.to_string().into_bytes());
        self.request(method, &format!("/api/v1{path}"), body.as_deref(), &["content-type: application/json"])
    }

    pub(super) fn get(&self, path: &str) -> Value {
        let answered = self.ask("GET", path, None);
        assert_eq!(answered.status, 200, "{path}: {}", answered.text());
        answered.json()
    }

    pub(super) fn post(&self, path: &str, body: Value, status: u16) -> Value {
        let answered = self.ask("POST", path, Some(body));
        assert_eq!(answered.status, status, "{path}: {}", answered.text());
        if answered.body.is_empty() { Value::Null } else { answered.json() }
    }

    /// A new thread.
    pub(super) fn thread(&self) -> String {
        self.post("/threads", json!({}), 201)["id"].as_str().unwrap().to_owned()
    }

    /// Says something, and waits for the end of the turn.
    pub(super) fn say(&self, thread: &str, text: &str) -> Vec<Streamed> {
        let mut stream = self.events(thread, None);
        self.post(&format!("/threads/{thread}/turns"), json!({"text": text}), 202);
        stream.until("turn_ended")
    }

    /// The events of a thread from now on, or all after one.
    pub(super) fn events(&self, thread: &str, after: Option<u64>) -> Events {
        let last = after.map(|after| format!("last-event-id: {after}"));
        let more: Vec<&str> = last.iter().map(String::as_str).collect();
        let reader = self.send("GET", &format!("/api/v1/threads/{thread}/events"), None, &more);
        let mut events = Events::of(reader);
        if events.status == 200 {
            // What comes after this is new.
            if after.is_none() {
                events.until("live");
            }
        }
        events
    }
}

fn head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
            return (status, headers);
        }
        if let Some((name, value)) = line.trim_end().split_once(": ") {
            headers.push((name.to_lowercase(), value.to_owned()));
        }
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[(end + 4 + size).min(rest.len())..];
    }
    body
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Streamed {
    pub(super) id: Option<u64>,
    pub(super) name: String,
    pub(super) data: Value,
}

/// An open stream of events.
pub(super) struct Events {
    pub(super) status: u16,
    reader: BufReader<TcpStream>,
    /// The bytes that are left of a chunk.
    left: usize,
    text: String,
    /// All events so far.
    /// All events so far.
    pub(super) seen: Vec<Streamed>,
}

impl Events {
    /// Reads the answer to a request.
    pub(super) fn of(mut reader: BufReader<TcpStream>) -> Self {
        let (status, _) = head(&mut reader);
        Self { status, reader, left: 0, text: String::new(), seen: Vec::new() }
    }

    /// The next event; `None` if the stream has ended.
    pub(super) fn next(&mut self) -> Option<Streamed> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                if let Some(event) = parsed(&event) {
                    self.seen.push(event.clone());
                    return Some(event);
                }
                // A comment keeps the stream open, but nothing may be so silent here.
                panic!("nothing happens any more after: {:#?}", self.seen);
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Option<()> {
        if self.left == 0 {
            let mut line = String::new();
            self.reader.read_line(&mut line).ok()?;
            if line.trim().is_empty() {
                line.clear();
                self.reader.read_line(&mut line).ok()?;
            }
            self.left = usize::from_str_radix(line.trim(), 16).ok()?;
            if self.left == 0 {
                return None;
            }
        }
        let mut bytes = vec![0; self.left];
        self.reader.read_exact(&mut bytes).ok()?;
        self.left = 0;
        self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        Some(())
    }

    /// All events up to one of this name.
    pub(super) fn until(&mut self, name: &str) -> Vec<Streamed> {
        let (mut events, begun) = (Vec::new(), std::time::Instant::now());
        loop {
            let event = self.next().unwrap_or_else(|| panic!("the stream ended before {name}: {events:#?}"));
            let is_last = event.name == name;
            events.push(event);
            assert!(is_last || begun.elapsed() < PATIENCE, "no {name} came: {events:#?}");
            if is_last {
                return events;
            }
        }
    }

    /// All events until the stream ends.
    pub(super) fn rest(&mut self) -> Vec<Streamed> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

fn parsed(text: &str) -> Option<Streamed> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let data = field("data")?;
    Some(Streamed {
        id: field("id").map(|id| id.parse().unwrap()),
        name: field("event")?.to_owned(),
        data: serde_json::from_str(data).unwrap(),
    })
}
