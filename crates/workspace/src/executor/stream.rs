//! The output of a command: redacted, captured and passed on.

use secrecy::SecretString;
use tokio::sync::mpsc::Receiver;

use super::capture::Capture;
use super::redact::Redactor;
use super::{OutputSink, Stream};
use crate::command::{Captured, Stop};

/// A piece of output for the watcher.
pub(super) type Piece = (Stream, Vec<u8>);

/// How many pieces of output can wait for the watcher.
pub(super) const PIECES: usize = 64;

/// Passes output on until there is no more, and cancels the command if its [`Stop`] is used.
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

/// An output stream.
pub(super) struct Output<'a> {
    stream: Stream,
    redactor: Redactor<'a>,
    capture: Capture,
    /// How many bytes came, before redaction.
    total: u64,
}

impl<'a> Output<'a> {
    pub(super) fn new(stream: Stream, secrets: &'a [SecretString], room: usize) -> Self {
        Self { stream, redactor: Redactor::new(secrets), capture: Capture::new(room), total: 0 }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Takes bytes from the command. Returns what can be passed on.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<Piece> {
        self.total += bytes.len() as u64;
        let shown = self.redactor.push(bytes);
        self.keep(shown)
    }

    /// The last piece, when no more bytes come.
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
