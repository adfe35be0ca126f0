//! Exchanges messages with a program on its standard input and output, one per line.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

use super::command::StderrTail;
use super::custom_answer;

/// How many requests of a server may wait for our answer. The client ignores more: a server that sends requests and reads no
/// answers would make it keep them all.
const MAX_UNANSWERED: usize = 64;

/// The standard streams of a program. A line that is too long ends the connection, so that callers hear of it at once.
pub(crate) struct ProgramStdio<R, W> {
    reader: BufReader<R>,
    /// The beginning of the current line: reading can be interrupted at any time.
    line: Vec<u8>,
    most: usize,
    stderr_tail: StderrTail,
    writer: Arc<Mutex<Option<W>>>,
    /// The requests whose answers are wrapped.
    wrapped: HashSet<RequestId>,
    unanswered: Arc<AtomicUsize>,
}

impl<R: AsyncRead + Unpin, W> ProgramStdio<R, W> {
    pub(crate) fn new(reader: R, writer: W, most: usize, stderr_tail: StderrTail) -> Self {
        let (reader, writer) = (BufReader::new(reader), Arc::new(Mutex::new(Some(writer))));
        Self {
            reader,
            line: Vec::new(),
            most,
            stderr_tail,
            writer,
            wrapped: HashSet::new(),
            unanswered: Arc::default(),
        }
    }

    /// The next line, without its line break.
    async fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let available = self.reader.fill_buf().await.ok().filter(|available| !available.is_empty())?;
            let end = available.iter().position(|byte| *byte == b'\n');
            let (piece, used) = match end {
                Some(end) => (&available[..end], end + 1),
                None => (available, available.len()),
            };
            if self.line.len() + piece.len() > self.most {
                self.stderr_tail.message_too_long();
                return None;
            }
            self.line.extend_from_slice(piece);
            self.reader.consume(used);
            if end.is_some() {
                return Some(std::mem::take(&mut self.line));
            }
        }
    }
}

impl<R, W> Transport<RoleClient> for ProgramStdio<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.wrapped.extend(custom_answer::wrapped_request(&item));
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let answered = is_answer.then(|| OurAnswer(Arc::clone(&self.unanswered)));
        let writer = Arc::clone(&self.writer);
        async move {
            let _until_written = answered;
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut writer = writer.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            writer.write_all(&line).await?;
            writer.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let line = self.next_line().await?;
            // Ignore text that is not JSON: programs print anything.
            let Some(message) = custom_answer::message(&line, |id| self.wrapped.remove(id)) else { continue };
            drop(line);
            if matches!(message, JsonRpcMessage::Request(_)) {
                if self.unanswered.load(Ordering::Relaxed) >= MAX_UNANSWERED {
                    continue;
                }
                self.unanswered.fetch_add(1, Ordering::Relaxed);
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.lock().await.take();
        Ok(())
    }
}

/// An answer of ours, until it is written or dropped.
struct OurAnswer(Arc<AtomicUsize>);

impl Drop for OurAnswer {
    fn drop(&mut self) {
        // Do not count below zero for an answer without a request.
        let less = |unanswered: usize| unanswered.checked_sub(1);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipes(text: &'static str) -> ProgramStdio<&'static [u8], Vec<u8>> {
        ProgramStdio::new(text.as_bytes(), Vec::new(), 60, StderrTail::default())
    }

    #[tokio::test]
    async fn messages_are_lines_and_the_rest_is_passed_over() {
        let mut pipes =
            pipes("starting up\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n{}\n{\"jsonr");
        assert!(matches!(pipes.receive().await, Some(ServerJsonRpcMessage::Request(_))));
        assert!(pipes.receive().await.is_none());
        assert_eq!(pipes.stderr_tail.describe(), "");
    }

    #[tokio::test]
    async fn a_server_that_asks_and_does_not_read_is_not_kept_up_with() {
        let asked = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n".repeat(200);
        let (writer, _nobody_reads) = tokio::io::duplex(1);
        let mut pipes = ProgramStdio::new(asked.as_bytes(), writer, 60, StderrTail::default());
        let answer = || {
            let result = rmcp::model::ClientResult::empty(());
            ClientJsonRpcMessage::response(result, RequestId::Number(1))
        };
        assert!(pipes.receive().await.is_some());
        let answering = pipes.send(answer());
        assert!(tokio::time::timeout(std::time::Duration::from_millis(10), answering).await.is_err());
        for _ in 0..MAX_UNANSWERED {
            assert!(pipes.receive().await.is_some());
        }
        assert!(pipes.receive().await.is_none(), "the rest is passed over");
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_the_last() {
        let mut pipes = pipes(concat!(
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"more\":\"much more than that\"}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"
        ));
        assert!(pipes.receive().await.is_none());
        assert_eq!(pipes.stderr_tail.describe(), ": one of its messages is too long");
    }
}
