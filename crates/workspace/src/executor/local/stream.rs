//! Reads an output stream of a command from its pipe.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use secrecy::SecretString;
use tokio::sync::mpsc::{Sender, error::TrySendError};

use crate::command::Captured;
use crate::executor::Stream;
use crate::executor::stream::{Output, Piece};

/// How many bytes are read at once.
const PIECE: usize = 64 * 1024;

/// An output stream with its pipe.
pub(super) struct StreamReader<'a> {
    /// `None` once it has ended.
    source: Option<OwnedFd>,
    output: Output<'a>,
    watcher: &'a Sender<Piece>,
    /// A piece that the watcher had no space for. Meanwhile nothing is read, so the command waits.
    waiting: Option<Piece>,
}

impl<'a> StreamReader<'a> {
    pub(super) fn new(
        stream: Stream,
        source: OwnedFd,
        secrets: &'a [SecretString],
        room: usize,
        watcher: &'a Sender<Piece>,
    ) -> Self {
        let output = Output::new(stream, secrets, room);
        Self { source: Some(source), output, watcher, waiting: None }
    }

    /// The pipe to wait for, unless it has ended or the watcher is busy.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        if self.waiting.is_some() { None } else { self.source.as_ref().map(AsFd::as_fd) }
    }

    /// Whether a piece waits for the watcher.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    pub(super) fn total(&self) -> u64 {
        self.output.total()
    }

    /// Offers the waiting piece again.
    pub(super) fn offer_again(&mut self) {
        if let Some(piece) = self.waiting.take() {
            self.offer(piece);
        }
    }

    /// Reads once. Returns whether there were bytes.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>) -> bool {
        let Some(source) = &self.source else { return false };
        buffer.resize(PIECE, 0);
        match rustix::io::read(source, &mut buffer[..]) {
            Ok(0) => {
                self.source = None;
                false
            }
            Ok(length) => {
                if let Some(piece) = self.output.push(&buffer[..length]) {
                    self.offer(piece);
                }
                true
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => false,
            Err(_) => {
                self.source = None;
                false
            }
        }
    }

    /// Whether the stream has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.source.is_none()
    }

    /// Passes on the rest, waiting for the watcher. Returns the captured output.
    pub(super) fn finish(mut self) -> Captured {
        for piece in self.waiting.take().into_iter().chain(self.output.last()) {
            let _ = self.watcher.blocking_send(piece);
        }
        self.output.finish()
    }

    fn offer(&mut self, piece: Piece) {
        // Reading goes on even if the watcher is gone.
        if let Err(TrySendError::Full(piece)) = self.watcher.try_send(piece) {
            self.waiting = Some(piece);
        }
    }
}
