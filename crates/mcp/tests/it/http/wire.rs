//! HTTP as it is on the wire.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::client::PATIENCE;

/// A connection, and what was read of it.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
    /// What came of a stream of events, and is not yet an event.
    text: String,
}

/// The beginning of an answer.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it takes too long")
}

impl Wire {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = in_time(TcpStream::connect(address)).await.unwrap();
        Self { stream: BufReader::new(stream), text: String::new() }
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).await.unwrap();
    }

    /// The same where the other side may have closed already.
    pub(crate) async fn try_write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.get_mut().write_all(bytes.as_ref()).await.is_ok()
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = in_time(self.stream.read_line(&mut line)).await.ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The beginning of the next answer, or nothing where the connection was closed.
    pub(crate) async fn head(&mut self) -> Option<Head> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = HashMap::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else { return Some(Head { status, headers }) };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }

    /// The next piece of a body that comes in pieces.
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line().await?, 16).unwrap();
        let mut bytes = vec![0; size + 2];
        in_time(self.stream.read_exact(&mut bytes)).await.ok()?;
        bytes.truncate(size);
        (size > 0).then_some(bytes)
    }

    /// The next answer, whole.
    pub(crate) async fn whole(&mut self) -> Option<Whole> {
        let Head { status, headers } = self.head().await?;
        let mut body = Vec::new();
        if let Some(length) = headers.get("content-length") {
            body = vec![0; length.parse().unwrap()];
            in_time(self.stream.read_exact(&mut body)).await.unwrap();
        } else if headers.contains_key("transfer-encoding") {
            while let Some(chunk) = self.chunk().await {
                body.extend(chunk);
            }
        }
        Some(Whole { status, headers, body: String::from_utf8(body).unwrap() })
    }

    /// The next message of a stream of events; nothing, when it has ended.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let message = data(event);
                self.text = rest.to_owned();
                if let Some(message) = message {
                    return Some(message);
                }
            }
            let chunk = self.chunk().await?;
            self.text.push_str(&String::from_utf8(chunk).unwrap());
        }
    }

    /// Whether the other side closes it.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        !matches!(in_time(self.stream.read(&mut byte)).await, Ok(1))
    }
}

/// The message of an event, if it has one.
fn data(event: &str) -> Option<Value> {
    let lines = event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start);
    let data = lines.collect::<Vec<_>>().join("\n");
    serde_json::from_str(&data).ok()
}

impl Whole {
    /// The answer to a request: the last message of a stream, or the body.
    pub(crate) fn message(&self) -> Value {
        if self.headers.get("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return self.body.split("\n\n").filter_map(data).last().unwrap();
        }
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}
