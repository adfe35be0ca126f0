//! A server on standard input and output.

use rmcp::ServiceExt as _;
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::stdio;

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
/// # Errors
///
/// The client did not begin as the protocol wants it.
pub async fn serve_stdio(server: SkillServer) -> Result<(), ServeError> {
    let running = match server.serve(stdio()).await {
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
