//! A server that plays bytes, one reply a connection, and keeps what it was sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What the server does with one request.
pub(crate) struct Reply {
    head: String,
    body: Vec<u8>,
    /// How many bytes go out at once.
    piece: usize,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// As HTTP has it.
    Whole,
    /// The connection closes in the middle.
    Broken,
    /// Nothing more comes until the client goes.
    Held,
    /// Nothing but signs of life comes until the client goes.
    Pinging,
}

impl Reply {
    /// A stream of events.
    pub(crate) fn events(body: impl Into<Vec<u8>>) -> Self {
        Self::with("200 OK", "Content-Type: text/event-stream\r\n", body)
    }

    /// Any status, with headers that each end their line.
    pub(crate) fn with(status: &str, headers: &str, body: impl Into<Vec<u8>>) -> Self {
        let head =
            format!("HTTP/1.1 {status}\r\n{headers}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n");
        Self { head, body: body.into(), piece: usize::MAX, end: End::Whole }
    }

    /// An error in JSON.
    pub(crate) fn error(status: &str, body: &str) -> Self {
        Self::with(status, "Content-Type: application/json\r\n", body)
    }

    pub(crate) fn in_pieces_of(mut self, bytes: usize) -> Self {
        self.piece = bytes;
        self
    }

    pub(crate) fn broken(mut self) -> Self {
        self.end = End::Broken;
        self
    }

    pub(crate) fn held(mut self) -> Self {
        self.end = End::Held;
        self
    }

    pub(crate) fn pinging(mut self) -> Self {
        self.end = End::Pinging;
        self
    }

    async fn play(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        stream.write_all(self.head.as_bytes()).await?;
        for piece in self.body.chunks(self.piece.min(self.body.len().max(1))) {
            let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
            stream.write_all(&framed).await?;
            stream.flush().await?;
            tokio::task::yield_now().await;
        }
        if self.end == End::Pinging {
            loop {
                stream.write_all(b"8\r\n: ping\n\n\r\n").await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        if self.end == End::Whole {
            stream.write_all(b"0\r\n\r\n").await?;
        }
        stream.flush().await
    }
}

/// What the server was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The request's line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: Value,
}

pub(crate) struct Server {
    address: std::net::SocketAddr,
    sent: Arc<Mutex<Vec<Sent>>>,
    gone: Arc<Notify>,
}

impl Server {
    /// Plays these replies, one after the other; whoever asks more often gets status 599.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), replies)
    }

    /// The same, where somebody listens already.
    pub(crate) fn on(listener: TcpListener, replies: impl IntoIterator<Item = Reply>) -> Self {
        let address = listener.local_addr().unwrap();
        let (sent, gone) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        let mut replies: Vec<Reply> = replies.into_iter().collect();
        replies.reverse();
        let (kept, left) = (Arc::clone(&sent), Arc::clone(&gone));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let request = receive(&mut stream).await;
                kept.lock().unwrap().push(request);
                let reply = replies.pop().unwrap_or_else(|| Reply::with("599 Too Often", "", ""));
                let left = Arc::clone(&left);
                tokio::spawn(async move {
                    let _ = reply.play(&mut stream).await;
                    if reply.end == End::Held {
                        // Reads until the client has closed its side.
                        while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
                        left.notify_one();
                    }
                });
            }
        });
        Self { address, sent, gone }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.sent.lock().unwrap().len()
    }

    /// Waits until the client has left a reply that was held.
    pub(crate) async fn client_gone(&self) {
        tokio::time::timeout(Duration::from_secs(10), self.gone.notified())
            .await
            .expect("the client keeps the connection");
    }
}

async fn receive(stream: &mut TcpStream) -> Sent {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the request ends in its head");
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.expect("a length").trim().parse().unwrap();
    while bytes.len() < end + length {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the request ends in its body");
    }
    Sent { head, body: serde_json::from_slice(&bytes[end..]).unwrap() }
}
