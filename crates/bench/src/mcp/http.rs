//! A client over HTTP with one persistent connection.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::server::SECRET;
use super::{WITH_SESSIONS, WITHOUT_SESSIONS, hello, initialized, request};

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    address: String,
    session: Option<String>,
    body: Vec<u8>,
    line: String,
    next: u64,
}

impl Client {
    /// Connects and starts a session.
    pub(crate) async fn with_session(address: &str) -> Result<Self> {
        let mut client = Self::without_session(address).await?;
        let begun = client.next_request("initialize", &hello());
        client.session = client.post("", &begun.to_string()).await?;
        let headers = client.headers("", &Value::Null);
        client.post(&headers, &initialized().to_string()).await?;
        Ok(client)
    }

    /// Connects without a session.
    pub(crate) async fn without_session(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (stream, address) = (BufReader::new(stream), address.to_owned());
        Ok(Self { stream, address, session: None, body: Vec::new(), line: String::new(), next: 0 })
    }

    fn next_request(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        request(self.next, method, params)
    }

    fn headers(&self, method: &str, params: &Value) -> String {
        if let Some(session) = &self.session {
            return format!("mcp-protocol-version: {WITH_SESSIONS}\r\nmcp-session-id: {session}\r\n");
        }
        let name = params["name"].as_str().or(params["uri"].as_str());
        let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
        format!("mcp-protocol-version: {WITHOUT_SESSIONS}\r\nmcp-method: {method}\r\n{name}")
    }

    /// Sends a request and returns the raw answer.
    pub(crate) async fn request(&mut self, method: &str, params: &Value) -> Result<&str> {
        let headers = self.headers(method, params);
        let mut message = self.next_request(method, params);
        if self.session.is_none() {
            message["params"]["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": WITHOUT_SESSIONS,
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        self.post(&headers, &message.to_string()).await?;
        let answer = std::str::from_utf8(&self.body)?;
        ensure!(answer.contains("\"result\""), "{method}: {answer}");
        Ok(answer)
    }

    /// Sends a message and reads the whole answer. Returns the id of the session, if the answer has one.
    async fn post(&mut self, headers: &str, message: &str) -> Result<Option<String>> {
        let (address, length) = (&self.address, message.len());
        let text = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {SECRET}\r\n{headers}\
             accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{message}"
        );
        self.stream.get_mut().write_all(text.as_bytes()).await?;
        let status = self.line().await?;
        let is_good = status.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
        let (mut length, mut session) = (None, None);
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(": ") else { break };
            match name {
                "content-length" => length = Some(value.parse()?),
                "mcp-session-id" => session = Some(value.to_owned()),
                _ => {}
            }
        }
        self.body.clear();
        if let Some(length) = length {
            self.read(length).await?;
        } else {
            loop {
                let size = usize::from_str_radix(&self.line().await?, 16)?;
                self.read(size).await?;
                self.line().await?;
                if size == 0 {
                    break;
                }
            }
        }
        ensure!(is_good, "{status}: {}", String::from_utf8_lossy(&self.body));
        Ok(session)
    }

    async fn line(&mut self) -> Result<String> {
        self.line.clear();
        let read = self.stream.read_line(&mut self.line).await?;
        ensure!(read > 0, "the server closed the connection");
        Ok(self.line.trim_end().to_owned())
    }

    async fn read(&mut self, length: usize) -> Result<()> {
        let before = self.body.len();
        self.body.resize(before + length, 0);
        let read = self.stream.read_exact(&mut self.body[before..]).await;
        read.map(drop).context("the answer was cut off")
    }
}
