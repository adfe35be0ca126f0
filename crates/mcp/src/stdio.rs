//! A server on standard input and output.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rmcp::ServiceExt as _;
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::stdio;
use tokio::io::{AsyncRead, ReadBuf};

use crate::server::SkillServer;

/// Why a server cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client did not begin as the protocol wants it.
    #[error("the client did not begin a session: {0}")]
    Begin(Box<ServerInitializeError>),
    /// What serves it stopped.
    #[error("the server stopped: {0}")]
    Stopped(tokio::task::JoinError),
}

/// Serves one client until standard input ends. Nothing else may be written to standard output meanwhile.
///
/// ```no_run
/// use prowess_catalog::{Catalog, Root, ScanOptions};
/// use prowess_mcp::{LiveSkills, SkillServer, serve_stdio};
/// use prowess_skills::SkillSession;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_mcp::ServeError> {
/// let catalog = Catalog::discover(&[Root::explicit("examples/skills")], &ScanOptions::default());
/// let session = SkillSession::builder(catalog.clone()).start().await;
/// serve_stdio(SkillServer::new(LiveSkills::new(catalog), session)).await
/// # }
/// ```
///
/// # Errors
///
/// The client did not begin as the protocol wants it.
pub async fn serve_stdio(server: SkillServer) -> Result<(), ServeError> {
    let (input, output) = stdio();
    let input = UntilEnd { input, server: server.clone() };
    let running = match server.serve((input, output)).await {
        Ok(running) => running,
        // Somebody looked whether there is a server, and went.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Begin(Box::new(error))),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(ServeError::Stopped(error)),
        Ok(_) => Ok(()),
    }
}

/// Input whose end the server is told of.
struct UntilEnd<R> {
    input: R,
    server: SkillServer,
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilEnd<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.input).poll_read(context, buffer));
        if read.is_err() || (buffer.filled().len() == before && buffer.remaining() > 0) {
            self.server.end();
        }
        Poll::Ready(read)
    }
}
