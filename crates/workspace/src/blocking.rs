//! Blocking work, away from the threads of the async runtime.

use std::io;

/// Runs `work` on a thread that may block, in the span of the caller.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.map_err(io::Error::other)
}
