//! What a command says: redacted, kept, and shown.

use secrecy::SecretString;
use tokio::sync::mpsc::Receiver;

use super::capture::Capture;
use super::redact::Redactor;
use super::{OutputSink, Stream};
use crate::command::{Captured, Stop};

/// A piece of output on its way to whoever watches.
pub(super) type Piece = (Stream, Vec<u8>);

/// Pieces of output that may wait for their watcher.
pub(super) const PIECES: usize = 64;

/// Shows what comes until nothing more can, and cancels the command if it is to stop.
pub(super) async fn show(
    pieces: &mut Receiver<Piece>,
    output: &dyn OutputSink,
    stop: &Stop,
    cancel: impl FnOnce(),
) {
    let mut cancel = Some(cancel);
    let stopping = stop.wanted();
    tokio::pin!(stopping);
    loop {
        tokio::select! {
            piece = pieces.recv() => match piece {
                Some((stream, piece)) => output.piece(stream, &piece),
                None => break,
            },
            () = &mut stopping, if cancel.is_some() => {
                if let Some(cancel) = cancel.take() {
                    cancel();
                }
            }
        }
    }
}

/// One output stream.
pub(super) struct Output<'a> {
    stream: Stream,
    redactor: Redactor<'a>,
    capture: Capture,
    /// Bytes that came, before redaction.
    total: u64,
}

impl<'a> Output<'a> {
    pub(super) fn new(stream: Stream, secrets: &'a [SecretString], room: usize) -> Self {
        Self { stream, redactor: Redactor::new(secrets), capture: Capture::new(room), total: 0 }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Takes in what came; gives what can be shown of it.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<Piece> {
        self.total += bytes.len() as u64;
        let shown = self.redactor.push(bytes);
        self.keep(shown)
    }

    /// What can be shown now that nothing follows.
    pub(super) fn last(&mut self) -> Option<Piece> {
        let shown = self.redactor.finish();
        self.keep(shown)
    }

    pub(super) fn finish(self) -> Captured {
        self.capture.finish()
    }

    fn keep(&mut self, shown: Vec<u8>) -> Option<Piece> {
        self.capture.push(&shown);
        (!shown.is_empty()).then_some((self.stream, shown))
    }
}
