//! Prints the output of a command while it runs.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Mutex, PoisonError};

use prowess_workspace::executor::{OutputSink, Stream};
use tokio::sync::Notify;

use crate::terminal::printable_lines;

/// Prints output: unchanged to a pipe or file, made safe on a screen.
pub(crate) struct OutputPrinter {
    out: Mutex<Side>,
    err: Mutex<Side>,
    closed: Notify,
    /// Whether nothing is printed.
    is_quiet: bool,
    /// Files that were collected completely.
    files: Mutex<BTreeMap<String, Vec<u8>>>,
}

#[derive(Default)]
struct Side {
    screen: Option<Harmless>,
    is_within_line: bool,
}

impl OutputPrinter {
    pub(crate) fn new(is_quiet: bool) -> Self {
        let side = |is_screen: bool| {
            Mutex::new(Side { screen: is_screen.then(Harmless::default), is_within_line: false })
        };
        Self {
            out: side(io::stdout().is_terminal()),
            err: side(io::stderr().is_terminal()),
            closed: Notify::new(),
            is_quiet,
            files: Mutex::default(),
        }
    }

    /// Takes the files that were collected completely, by name.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        std::mem::take(&mut *self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the reader of the output closes it.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Prints what was held back, and says whether the next text on the error stream would continue a line.
    pub(crate) fn finish(&self) -> bool {
        let out = self.out.lock().unwrap_or_else(PoisonError::into_inner).finish(&mut io::stdout());
        let err = self.err.lock().unwrap_or_else(PoisonError::into_inner).finish(&mut io::stderr());
        err || (out && (io::stdout().is_terminal() || is_one_place()))
    }
}

impl Side {
    fn finish(&mut self, to: &mut dyn Write) -> bool {
        let rest = self.screen.as_mut().map(Harmless::finish).unwrap_or_default();
        self.is_within_line |= !rest.is_empty();
        // A closed screen is not an error here.
        let _ = to.write_all(rest.as_bytes()).and_then(|()| to.flush());
        self.is_within_line
    }

    fn write(&mut self, to: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
        let harmless = self.screen.as_mut().map(|screen| screen.push(bytes).into_bytes());
        let bytes = harmless.as_deref().unwrap_or(bytes);
        if let Some(last) = bytes.last() {
            self.is_within_line = *last != b'\n';
        }
        to.write_all(bytes)?;
        to.flush()
    }
}

impl OutputSink for OutputPrinter {
    fn file(&self, name: &str, bytes: &[u8], is_whole: bool) {
        if is_whole {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.insert(name.to_owned(), bytes.to_vec());
        }
    }

    fn piece(&self, stream: Stream, bytes: &[u8]) {
        if self.is_quiet {
            return;
        }
        let (side, to): (_, &mut dyn Write) = match stream {
            Stream::Stdout => (&self.out, &mut io::stdout()),
            Stream::Stderr => (&self.err, &mut io::stderr()),
        };
        let written = side.lock().unwrap_or_else(PoisonError::into_inner).write(to, bytes);
        if written.is_err() {
            self.closed.notify_one();
        }
    }
}

/// Whether both streams go to the same file or pipe.
fn is_one_place() -> bool {
    let place = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    match (rustix::fs::fstat(io::stdout()), rustix::fs::fstat(io::stderr())) {
        (Ok(out), Ok(err)) => place(out) == place(err),
        _ => false,
    }
}

/// Makes text safe for a screen, although it arrives in pieces.
#[derive(Default)]
struct Harmless {
    /// The start of a character, or a carriage return that may end a line.
    held: Vec<u8>,
}

impl Harmless {
    fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let rest = self.held.split_off(whole(&self.held));
        let whole = std::mem::replace(&mut self.held, rest);
        printable_lines(&String::from_utf8_lossy(&whole))
    }

    fn finish(&mut self) -> String {
        printable_lines(&String::from_utf8_lossy(&std::mem::take(&mut self.held)))
    }
}

/// How many bytes are complete, whatever comes next.
fn whole(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') {
        return bytes.len() - 1;
    }
    for back in 1..=bytes.len().min(3) {
        let needed = match bytes[bytes.len() - back] {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if needed > back { bytes.len() - back } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a screen gets when `bytes` come in pieces of `size`.
    fn shown_in_pieces(bytes: &[u8], size: usize) -> String {
        let mut screen = Harmless::default();
        let mut shown: String = bytes.chunks(size).map(|piece| screen.push(piece)).collect();
        shown.push_str(&screen.finish());
        shown
    }

    #[test]
    fn a_screen_gets_no_sequences_however_output_is_cut() {
        let hostile = "a\r\nb\x1b]0;title\x07\x1b[2J 潮汐 \u{202e}\u{9b}2J é\rc\r";
        let expected = "a\nb\\u{1b}]0;title\\u{7}\\u{1b}[2J 潮汐 \\u{202e}\\u{9b}2J é\\u{d}c\\u{d}";
        for size in 1..=hostile.len() {
            assert_eq!(shown_in_pieces(hostile.as_bytes(), size), expected, "{size}");
        }
    }

    #[test]
    fn what_is_no_text_is_replaced() {
        for size in 1..5 {
            let shown = shown_in_pieces(b"a\xff\x9b2J\xe6\xbd", size);
            assert!(shown.starts_with('a') && shown.contains("2J"), "{shown:?}");
            assert!(!shown.chars().any(char::is_control), "{shown:?}");
        }
    }
}
