//! One output stream of a container: redacted, kept, and shown.

use secrecy::SecretString;

use super::Piece;
use crate::command::Captured;
use crate::executor::Stream;
use crate::executor::output::Keep;
use crate::executor::redact::Redactor;

/// One output stream.
pub(super) struct Output<'a> {
    stream: Stream,
    redactor: Redactor<'a>,
    keep: Keep,
    /// Bytes that came, before redaction.
    total: u64,
}

impl<'a> Output<'a> {
    pub(super) fn new(stream: Stream, secrets: &'a [SecretString], room: usize) -> Self {
        Self { stream, redactor: Redactor::new(secrets), keep: Keep::new(room), total: 0 }
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
        self.keep.finish()
    }

    fn keep(&mut self, shown: Vec<u8>) -> Option<Piece> {
        self.keep.push(&shown);
        (!shown.is_empty()).then_some((self.stream, shown))
    }
}
