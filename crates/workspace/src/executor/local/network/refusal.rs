//! A refused request: what the proxy answers.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// How many bytes of a refused request are still read, so that the client gets the answer.
const MAX_IGNORED_BYTES: u64 = 64 * 1024;
/// How long they are read.
const IGNORED_FOR: Duration = Duration::from_millis(500);

/// The answer to a refused request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: &'static str,
    pub(super) sentence: String,
}

impl Refusal {
    /// Sends the answer, and reads the rest of the request for a moment.
    pub(super) async fn send(self, mut client: UnixStream) {
        let Self { status, sentence } = self;
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{sentence}\n",
            sentence.len() + 1
        );
        let sent = async {
            client.write_all(answer.as_bytes()).await?;
            client.shutdown().await?;
            tokio::io::copy(&mut client.take(MAX_IGNORED_BYTES), &mut tokio::io::sink()).await
        };
        let _ = timeout(IGNORED_FOR, sent).await;
    }
}
