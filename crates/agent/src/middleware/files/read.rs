//! `read_file`: numbered lines of a text file of any length.

use std::fmt::Write as _;

use prowess_backend::{Backend, BackendError, ReadRange, VirtualPath};

use super::{MAX_SHOWN, count};

/// How much of a file is read at once, in bytes.
const WINDOW: u64 = 1024 * 1024;
/// The longest piece of a line, in characters. A longer line is shown in pieces: `12.1`, `12.2`.
const MAX_PIECE: usize = 2000;

/// The position of a piece: the line, and the number of the piece in the line. Both count from 0.
type Position = (usize, usize);

/// Up to `limit` lines of a file from a position on, within [`MAX_SHOWN`].
pub(super) async fn lines(
    backend: &dyn Backend,
    path: &VirtualPath,
    from: Position,
    limit: usize,
) -> Result<String, BackendError> {
    let mut page = Page::new(from, limit);
    let (mut at, mut torn) = (0, Vec::new());
    loop {
        let contents = backend.read(path, ReadRange::first(WINDOW).at(at)).await?;
        at += contents.bytes.len() as u64;
        torn.extend_from_slice(&contents.bytes);
        let whole = match std::str::from_utf8(&torn) {
            Ok(text) => text.len(),
            // A character continues in the next window.
            Err(error) if error.error_len().is_none() && contents.more => error.valid_up_to(),
            Err(_) => return Err(BackendError::NotText { path: path.clone() }),
        };
        page.push(std::str::from_utf8(&torn[..whole]).unwrap_or_default());
        torn.drain(..whole);
        if !contents.more || contents.bytes.is_empty() {
            return Ok(page.finished());
        }
        if page.next.is_some() {
            return Ok(page.cut_short());
        }
    }
}

/// The lines that are shown, collected while the text is read from its beginning.
struct Page {
    from: Position,
    /// The first line after the page.
    end: usize,
    /// The current position in the text.
    at: Position,
    /// Whether the current line has begun.
    is_open: bool,
    /// The current piece, and its number of characters.
    held: String,
    characters: usize,
    shown: String,
    /// Where to continue, once the page is full.
    next: Option<Position>,
}

impl Page {
    fn new(from: Position, limit: usize) -> Self {
        Self {
            from,
            end: from.0.saturating_add(limit),
            at: (0, 0),
            is_open: false,
            held: String::new(),
            characters: 0,
            shown: String::new(),
            next: None,
        }
    }

    fn push(&mut self, text: &str) {
        for segment in text.split_inclusive('\n') {
            let line = segment.strip_suffix('\n');
            self.add(line.unwrap_or(segment));
            if line.is_some() {
                self.end_line();
            }
        }
    }

    /// Adds text to the current line.
    fn add(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.is_open = true;
        if !self.is_inside() {
            self.stop_after_the_end();
            return;
        }
        for character in text.chars() {
            if self.characters == MAX_PIECE {
                self.end_piece(true);
            }
            self.held.push(character);
            self.characters += 1;
        }
    }

    fn end_line(&mut self) {
        if self.is_inside() {
            if self.held.ends_with('\r') {
                self.held.pop();
            }
            if self.at.1 == 0 || !self.held.is_empty() {
                self.end_piece(false);
            }
        } else {
            self.stop_after_the_end();
        }
        (self.at, self.is_open, self.characters) = ((self.at.0 + 1, 0), false, 0);
        self.held.clear();
    }

    fn stop_after_the_end(&mut self) {
        if self.at.0 >= self.end {
            self.next.get_or_insert((self.at.0, 0));
        }
    }

    /// Whether the current line is on the page.
    fn is_inside(&self) -> bool {
        self.next.is_none() && (self.from.0..self.end).contains(&self.at.0)
    }

    fn end_piece(&mut self, line_goes_on: bool) {
        let (line, piece) = self.at;
        if self.at >= self.from && self.next.is_none() {
            let number = line + 1;
            let label = if line_goes_on || piece > 0 {
                format!("{number}.{}", piece + 1)
            } else {
                number.to_string()
            };
            let row = format!("{label:>6}\t{}\n", self.held);
            if !self.shown.is_empty() && self.shown.len() + row.len() > MAX_SHOWN {
                self.next = Some(self.at);
            } else {
                self.shown.push_str(&row);
            }
        }
        self.at.1 += 1;
        self.characters = 0;
        self.held.clear();
    }

    /// The page of a text that continues after it.
    fn cut_short(mut self) -> String {
        match self.next {
            Some((line, 0)) => {
                let _ = write!(self.shown, "[there are more lines: read on with offset {line}]");
            }
            Some((line, piece)) => {
                let number = line + 1;
                let _ = write!(
                    self.shown,
                    "[line {number} goes on: read on with offset {line} and piece {piece}]"
                );
            }
            None => {}
        }
        self.shown
    }

    /// The page of a text that ends here.
    fn finished(mut self) -> String {
        if self.is_open {
            self.end_line();
        }
        let lines = self.at.0;
        match self.next {
            Some((line, 0)) => {
                let more = count(lines - line, "more line");
                let _ = write!(self.shown, "[{more}: read on with offset {line}]");
                self.shown
            }
            Some(_) => self.cut_short(),
            None if lines == 0 => "(the file is empty)".to_owned(),
            None if self.shown.is_empty() => {
                let from = self.from.0.saturating_add(1);
                format!("(the file has {}: there is nothing from line {from} on)", count(lines, "line"))
            }
            None => self.shown,
        }
    }
}

#[cfg(test)]
mod tests {
    use prowess_backend::{MemoryBackend, WriteMode};

    use super::*;

    async fn file(bytes: impl Into<bytes::Bytes> + Send) -> (MemoryBackend, VirtualPath) {
        let (backend, path) = (MemoryBackend::new(), VirtualPath::parse("/file").unwrap());
        backend.write(&path, bytes.into(), WriteMode::CreateNew).await.unwrap();
        (backend, path)
    }

    /// Reads all of a file as the answers say. Returns its text without line ends, and the number of answers.
    async fn all(backend: &MemoryBackend, path: &VirtualPath, limit: usize) -> (String, usize) {
        let (mut from, mut whole, mut answers) = ((0, 0), String::new(), 0);
        loop {
            let page = lines(backend, path, from, limit).await.unwrap();
            assert!(page.len() <= MAX_SHOWN + 100, "{} bytes", page.len());
            answers += 1;
            let rows = page.lines().filter_map(|row| row.split_once('\t'));
            rows.for_each(|(_, text)| whole.push_str(text));
            let Some((_, next)) = page.rsplit_once("read on with offset ") else { return (whole, answers) };
            let mut numbers =
                next.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<usize>().ok());
            from = (numbers.next().unwrap(), numbers.next().unwrap_or(0));
        }
    }

    #[tokio::test]
    async fn one_long_line_can_be_read_to_its_end() {
        let line: String = ('a'..='z').cycle().take(100_000).collect();
        let (backend, path) = file(line.clone()).await;
        assert_eq!(all(&backend, &path, 2000).await, (line, 2));
    }

    #[tokio::test]
    async fn a_file_of_many_windows_can_be_read_to_its_end() {
        // Characters of three bytes: some are split between two windows.
        let text: String = (0..40_000).map(|number| format!("{number}: {}\r\n", "€".repeat(20))).collect();
        assert!(text.len() as u64 > 2 * WINDOW);
        let (backend, path) = file(text.clone()).await;
        let (whole, answers) = all(&backend, &path, usize::MAX).await;
        assert_eq!(whole, text.replace("\r\n", ""));
        assert!(answers < 80, "{answers} answers");
        let last = lines(&backend, &path, (39_999, 0), 1).await.unwrap();
        assert!(last.starts_with(" 40000\t39999: €"), "{last}");
    }

    #[tokio::test]
    async fn no_number_is_too_large() {
        let (backend, path) = file("one\ntwo\n").await;
        let from = |line, piece, limit| lines(&backend, &path, (line, piece), limit);
        assert_eq!(from(1, 0, usize::MAX).await.unwrap(), "     2\ttwo\n");
        let nothing = "(the file has 2 lines: there is nothing from line 18446744073709551615 on)";
        assert_eq!(from(usize::MAX, 0, usize::MAX).await.unwrap(), nothing);
        assert_eq!(from(0, usize::MAX, 1).await.unwrap(), "[1 more line: read on with offset 1]");
    }

    #[tokio::test]
    async fn pieces_and_lines_are_where_they_should_be() {
        let long = "x".repeat(MAX_PIECE);
        let (backend, path) = file(format!("a\n\n{long}\r\n{long}y\nz")).await;
        let shown = lines(&backend, &path, (0, 0), 9).await.unwrap();
        let labels: Vec<&str> =
            shown.lines().filter_map(|row| row.split_once('\t')).map(|row| row.0.trim()).collect();
        assert_eq!(labels, ["1", "2", "3.1", "4.1", "4.2", "5"]);
        assert_eq!(
            lines(&backend, &path, (3, 1), 1).await.unwrap(),
            "   4.2\ty\n[1 more line: read on with offset 4]"
        );
    }

    #[tokio::test]
    async fn what_is_not_text_is_said_to_be_so() {
        for bytes in [&[b'a', 0xff, b'b'][..], "€".as_bytes().split_at(2).0] {
            let (backend, path) = file(bytes.to_vec()).await;
            assert_eq!(lines(&backend, &path, (0, 0), 9).await.unwrap_err().code(), "not_text");
        }
    }
}
