//! Input for interactive runs.

use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

use super::run::{LiveRun, SETTLED};
use super::{LiveError, LiveRuns};

/// How long a command has to read its input.
const TAKEN_BY: Duration = Duration::from_secs(5);
/// The longest line that a terminal accepts, in bytes. The system cuts longer lines without an error.
pub(super) const MAX_LINE: usize = 4095;

/// Our end of a command's input.
#[derive(Debug)]
pub(super) struct InputPipe {
    /// `None` once it is closed.
    pub(super) sender: Option<pipe::Sender>,
    /// How many bytes the unfinished line has.
    pub(super) open_line: usize,
}

impl LiveRuns {
    /// Writes to a command. If `end` is true, its input is closed afterwards.
    ///
    /// # Errors
    ///
    /// The command has ended, its input is closed, or it did not take all bytes in time.
    pub async fn write(&self, id: &str, bytes: &[u8], end: bool) -> Result<(), LiveError> {
        let live = self.get(id)?;
        let mut input = live.input.lock().await;
        if live.ended.get().is_some() {
            return Err(LiveError::Ended(id.to_owned()));
        }
        let InputPipe { sender: Some(sender), open_line } = &*input else {
            return Err(LiveError::Closed(id.to_owned()));
        };
        let open_line = line_after(*open_line, bytes, live.terminal);
        let open_line = open_line.ok_or_else(|| LiveError::LineTooLong(id.to_owned()))?;
        // Output that comes from here on may ask a new question.
        let answered_to = live.log().transcript.end();
        let taken = live.send(sender, bytes).await;
        {
            let mut log = live.log();
            (log.last_write, log.answered_to) = (Instant::now(), answered_to);
        }
        if taken < bytes.len() {
            let (id, all) = (id.to_owned(), bytes.len());
            let has_ended = live.ended.get().is_some();
            return Err(if has_ended {
                LiveError::Ended(id)
            } else {
                LiveError::NotReading { id, taken, all }
            });
        }
        input.open_line = open_line;
        if end {
            input.sender = None;
        }
        Ok(())
    }
}

impl LiveRun {
    /// Writes bytes until all are taken, the command ends, or it stops reading. Returns how many were taken.
    async fn send(&self, to: &pipe::Sender, bytes: &[u8]) -> usize {
        let mut taken = 0;
        let mut until = Instant::now() + TAKEN_BY;
        while taken < bytes.len() && self.ended.get().is_none() {
            match to.try_write(&bytes[taken..]) {
                Ok(length) => {
                    taken += length;
                    until = Instant::now() + TAKEN_BY;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    let soon = (Instant::now() + SETTLED).min(until);
                    if timeout_at(soon, to.writable()).await.is_err() && Instant::now() >= until {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        taken
    }
}

/// Returns the length of the last line after these bytes; `None` if a line is too long for a terminal.
fn line_after(open: usize, bytes: &[u8], terminal: bool) -> Option<usize> {
    let mut line = open;
    for byte in bytes {
        line = if *byte == b'\n' { 0 } else { line + 1 };
        if terminal && line > MAX_LINE {
            return None;
        }
    }
    Some(line)
}
