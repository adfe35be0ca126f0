//! Serves one client on standard input and output.

use std::io;
use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::{Transport, stdio};
use rmcp::{RoleServer, ServiceExt as _};
use serde::de::IgnoredAny;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Mutex, Semaphore};

use crate::incoming;
use crate::json_fields::fields;
use crate::server::SkillServer;

/// The most bytes of one message, the same as over HTTP.
const MAX_MESSAGE: usize = 4 << 20;
/// The most bytes of an id that a refusal repeats.
const MAX_ID: usize = 1024;
/// How many refusals may wait to be written. A client that does not read gets no more.
const MAX_REFUSALS: usize = 64;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Why a server stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client did not begin as the protocol requires.
    #[error("the client did not begin an MCP session: {0}")]
    Begin(Box<ServerInitializeError>),
    /// The task that serves the client stopped.
    #[error("the server stopped: {0}")]
    Stopped(tokio::task::JoinError),
}

/// Serves one client until standard input ends. Your program must write nothing else to standard output meanwhile.
///
/// ```no_run
/// use prowess_catalog::{Catalog, Root, ScanOptions};
/// use prowess_mcp::{LiveSkills, SkillServer, serve_stdio};
/// use prowess_skills::SkillSession;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_mcp::ServeError> {
/// let catalog = Catalog::discover(&[Root::explicit("examples/skills")], &ScanOptions::default());
/// let session = SkillSession::builder(catalog.clone()).build().await;
/// serve_stdio(SkillServer::new(LiveSkills::new(catalog), session)).await
/// # }
/// ```
///
/// # Errors
///
/// The client did not begin as the protocol requires.
pub async fn serve_stdio(server: SkillServer) -> Result<(), ServeError> {
    let (input, output) = stdio();
    let lines = Lines::new(input, output, server.clone());
    let running = match server.serve(lines).await {
        Ok(running) => running,
        // The client only checked that a server is here.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Begin(Box::new(error))),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(ServeError::Stopped(error)),
        Ok(_) => Ok(()),
    }
}

/// Messages on two streams, one per line. A message that is too long or takes too much memory is refused before parsing.
struct Lines<R, W> {
    reader: BufReader<R>,
    /// The beginning of the current line: reading can be interrupted at any time.
    line: Vec<u8>,
    /// Whether the current line is too long, so that its rest is skipped.
    is_too_long: bool,
    writer: Arc<Mutex<Option<W>>>,
    refusals: Arc<Semaphore>,
    /// The server, which must know when the client will send nothing more.
    server: SkillServer,
}

/// The result of reading a line.
enum Line {
    Whole(Vec<u8>),
    TooLong,
    End,
}

/// What a line contains.
enum LineContent {
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing that can be answered.
    Nothing,
    Refused(ErrorData, Option<RequestId>),
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin + Send + 'static> Lines<R, W> {
    fn new(reader: R, writer: W, server: SkillServer) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            is_too_long: false,
            writer: Arc::new(Mutex::new(Some(writer))),
            refusals: Arc::new(Semaphore::new(MAX_REFUSALS)),
            server,
        }
    }

    /// The next line, without its line break.
    async fn next_line(&mut self) -> Line {
        loop {
            let available = match self.reader.fill_buf().await {
                Ok(available) if !available.is_empty() => available,
                Ok(_) | Err(_) => return Line::End,
            };
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = &available[..end.unwrap_or(available.len())];
            let used = end.map_or(available.len(), |end| end + 1);
            if self.is_too_long || self.line.len() + piece.len() > MAX_MESSAGE {
                (self.is_too_long, self.line) = (true, Vec::new());
            } else {
                self.line.extend_from_slice(piece);
            }
            self.reader.consume(used);
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                return if std::mem::take(&mut self.is_too_long) { Line::TooLong } else { Line::Whole(line) };
            }
        }
    }

    /// Tells the client that its message was refused. Reading does not wait for that.
    fn refuse(&self, error: ErrorData, id: Option<RequestId>) {
        let Ok(place) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        let writer = Arc::clone(&self.writer);
        tokio::spawn(async move {
            let _until_written = place;
            // The client may be gone.
            let _ = write(&writer, &ServerJsonRpcMessage::error(error, id)).await;
        });
    }
}

async fn write<W: AsyncWrite + Unpin>(
    writer: &Mutex<Option<W>>,
    message: &ServerJsonRpcMessage,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut writer = writer.lock().await;
    let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    writer.write_all(&line).await?;
    writer.flush().await
}

fn read(line: &[u8]) -> LineContent {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    // Text that is not JSON has no id to answer, and answering could provoke more of it.
    if serde_json::from_slice::<IgnoredAny>(line).is_err() {
        return LineContent::Nothing;
    }
    let field = |wanted: &str| fields(line)?.get(wanted);
    // Ignore a long id: it could be an attack.
    let id = || serde_json::from_slice::<RequestId>(field("id").filter(|id| id.len() <= MAX_ID)?).ok();
    let lean = match incoming::lean(line) {
        Ok(lean) => lean,
        Err(unfit) => return LineContent::Refused(ErrorData::invalid_request(unfit.to_string(), None), id()),
    };
    match serde_json::from_slice(&lean) {
        Ok(message) => LineContent::Message(Box::new(message)),
        // Ignore an unknown notification.
        Err(_) if field("method").is_some() && field("id").is_none() => LineContent::Nothing,
        Err(_) => LineContent::Refused(ErrorData::invalid_request("Invalid request", None), id()),
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(&mut self, item: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        async move { write(&writer, &item).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = match self.next_line().await {
                Line::Whole(line) => line,
                Line::TooLong => {
                    let why = format!("The message has more than {MAX_MESSAGE} bytes");
                    self.refuse(ErrorData::invalid_request(why, None), None);
                    continue;
                }
                Line::End => {
                    self.server.end();
                    return None;
                }
            };
            match read(&line) {
                LineContent::Message(message) => return Some(*message),
                LineContent::Nothing => {}
                LineContent::Refused(error, id) => self.refuse(error, id),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.lock().await.take();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prowess_catalog::Catalog;
    use prowess_skills::SkillSession;

    use super::*;
    use crate::live::LiveSkills;

    async fn lines(text: &[u8]) -> Lines<&[u8], tokio::io::DuplexStream> {
        let session = SkillSession::builder(Catalog::empty()).build().await;
        let server = SkillServer::new(LiveSkills::new(Catalog::empty()), session);
        Lines::new(text, tokio::io::duplex(64).0, server)
    }

    #[tokio::test]
    async fn messages_are_lines_and_what_is_too_long_is_passed_over() {
        let long = "x".repeat(MAX_MESSAGE + 1);
        let text = format!(
            "no JSON\n\n\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}\r\n{long}\n\
             {{\"jsonrpc\":\"2.0\",\"method\":\"odd\"}}\n[]\n{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}}\n{{\"jsonrpc\""
        );
        let mut lines = lines(text.as_bytes()).await;
        for id in [1, 2] {
            loop {
                match lines.receive().await {
                    Some(ClientJsonRpcMessage::Request(request)) => {
                        assert_eq!(request.id, RequestId::Number(id));
                        break;
                    }
                    Some(ClientJsonRpcMessage::Notification(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(lines.receive().await.is_none());
        assert!(lines.line.capacity() < MAX_MESSAGE);
    }

    #[test]
    fn who_asks_too_much_is_told_by_its_id() {
        let many = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":[{}1]}}",
            "{},".repeat(100_000)
        );
        let LineContent::Refused(error, id) = read(many.as_bytes()) else { panic!("it was taken") };
        assert_eq!(id, Some(RequestId::Number(7)));
        assert!(error.message.contains("too many small values"), "{error:?}");
        assert!(matches!(read(b"{\"jsonrpc\":\"2.0\",\"id\":7}"), LineContent::Refused(_, Some(_))));
        assert!(matches!(read(b"{"), LineContent::Nothing));
    }
}
