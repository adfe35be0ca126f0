//! The source of a session's lines.

use std::collections::VecDeque;
use std::io::{self, BufRead, IsTerminal as _, Read as _};

/// The longest line, in bytes. A longer line is dropped.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;

/// A source of lines.
#[derive(Debug)]
pub(crate) enum Input {
    /// Options of the command line. They contain no replies.
    Given(VecDeque<String>),
    /// Standard input, where a person types.
    Keyboard,
    /// Standard input, from a pipe or a file.
    Script,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine {
    Text(String),
    TooLong,
}

impl Input {
    /// The commands in `given`, or standard input if there are none.
    pub(crate) fn new(given: &[String]) -> Self {
        match given {
            [] if io::stdin().is_terminal() => Self::Keyboard,
            [] => Self::Script,
            given => Self::Given(given.iter().cloned().collect()),
        }
    }

    /// Whether a person types the lines.
    pub(crate) fn is_keyboard(&self) -> bool {
        matches!(self, Self::Keyboard)
    }

    /// Whether a question can get a reply.
    pub(crate) fn can_reply(&self) -> bool {
        !matches!(self, Self::Given(_))
    }

    /// Waits for the next line; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<InputLine>> {
        match self {
            Self::Given(lines) => Ok(lines.pop_front().map(InputLine::Text)),
            Self::Keyboard | Self::Script => read_line(&mut io::stdin().lock(), MAX_LINE_BYTES),
        }
    }
}

/// Reads one line of at most `most` bytes, without its end. Invalid UTF-8 is replaced.
fn read_line(from: &mut impl BufRead, most: usize) -> io::Result<Option<InputLine>> {
    let mut bytes = Vec::new();
    let room = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    from.by_ref().take(room).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    } else if bytes.len() > most {
        from.skip_until(b'\n')?;
        return Ok(Some(InputLine::TooLong));
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    Ok(Some(InputLine::Text(String::from_utf8_lossy(&bytes).into_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_their_file_and_are_not_boundless() {
        let mut input = &b"four\r\n\nfives\nsixsix\nfo\xff\n1234"[..];
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input, 5).unwrap() {
            lines.push(line);
        }
        let text = |text: &str| InputLine::Text(text.to_owned());
        assert_eq!(
            lines,
            [text("four"), text(""), text("fives"), InputLine::TooLong, text("fo\u{FFFD}"), text("1234")]
        );
    }
}
