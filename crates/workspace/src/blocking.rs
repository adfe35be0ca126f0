//! Work on the disk, off the runtime's own threads.

use std::io;

/// Does `work` where it may block, in the span of whoever asks.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.map_err(io::Error::other)
}
