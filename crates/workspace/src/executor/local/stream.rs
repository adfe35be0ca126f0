//! One output stream of a command: read, redacted, kept, and shown.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use secrecy::SecretString;
use tokio::sync::mpsc::{Sender, error::TrySendError};

use super::output::Keep;
use super::redact::Redactor;
use crate::command::Captured;
use crate::executor::Stream;

/// A piece of output on its way to whoever watches.
pub(super) type Piece = (Stream, Vec<u8>);

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// One output stream.
pub(super) struct Output<'a> {
    stream: Stream,
    /// None once it has ended.
    source: Option<OwnedFd>,
    redactor: Redactor<'a>,
    keep: Keep,
    watcher: &'a Sender<Piece>,
    /// What the watcher had no room for. Nothing is read meanwhile, so the command waits.
    waiting: Option<Piece>,
    /// Bytes read, before redaction.
    read: u64,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        stream: Stream,
        source: OwnedFd,
        secrets: &'a [SecretString],
        room: usize,
        watcher: &'a Sender<Piece>,
    ) -> Self {
        let (redactor, keep) = (Redactor::new(secrets), Keep::new(room));
        Self { stream, source: Some(source), redactor, keep, watcher, waiting: None, read: 0 }
    }

    /// What to wait for, unless it has ended or the watcher is behind.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        if self.waiting.is_some() { None } else { self.source.as_ref().map(AsFd::as_fd) }
    }

    /// Whether the watcher is behind.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    pub(super) fn total(&self) -> u64 {
        self.read
    }

    /// Offers again what the watcher had no room for.
    pub(super) fn offer_again(&mut self) {
        if let Some(piece) = self.waiting.take() {
            self.offer(piece);
        }
    }

    /// Reads what is there, once. Says whether there was something.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>) -> bool {
        let Some(source) = &self.source else { return false };
        buffer.resize(PIECE, 0);
        match rustix::io::read(source, &mut buffer[..]) {
            Ok(0) => {
                self.source = None;
                false
            }
            Ok(length) => {
                self.read += length as u64;
                let shown = self.redactor.push(&buffer[..length]);
                self.show(shown);
                true
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => false,
            Err(_) => {
                self.source = None;
                false
            }
        }
    }

    /// Whether all of it was read.
    pub(super) fn has_ended(&self) -> bool {
        self.source.is_none()
    }

    /// Shows what is left, waiting for the watcher, and gives what was kept.
    pub(super) fn finish(mut self) -> Captured {
        if let Some(piece) = self.waiting.take() {
            let _ = self.watcher.blocking_send(piece);
        }
        let shown = self.redactor.finish();
        if !shown.is_empty() {
            self.keep.push(&shown);
            let _ = self.watcher.blocking_send((self.stream, shown));
        }
        self.keep.finish()
    }

    fn show(&mut self, shown: Vec<u8>) {
        if !shown.is_empty() {
            self.keep.push(&shown);
            self.offer((self.stream, shown));
        }
    }

    fn offer(&mut self, piece: Piece) {
        // A watcher that has gone away is no reason to stop reading.
        if let Err(TrySendError::Full(piece)) = self.watcher.try_send(piece) {
            self.waiting = Some(piece);
        }
    }
}
