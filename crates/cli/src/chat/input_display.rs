//! The input below the conversation: the typed text with its cursor, and waiting lines.

use prowess_catalog::untrusted::is_unprintable;

use crate::rows::cut;
use crate::screen::Cursor;
use crate::terminal::{Style, columns, printable, printable_lines, styled};

/// How many waiting lines are shown.
const MAX_WAITING: usize = 5;
/// The indent of further lines of a message.
const INDENT: &str = "  ";
/// What a tab looks like.
const TAB: &str = "    ";
/// What a person can do about waiting lines.
const ADVICE: &str = "  Up edits the last one · Ctrl-C stops the turn and edits all";

/// A change of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputDisplay {
    /// The input has changed.
    Typing(InputRows),
    /// A line is finished and stays on the screen.
    Finished { prompt: String, text: String },
    /// Clear the screen.
    Clear,
    /// The size of the screen may have changed.
    Resized,
    /// Another program used the screen.
    Resumed,
}

/// The input, below everything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputRows {
    /// The prompt, the text, and the position of the cursor in bytes; `None` if there is nothing to type.
    pub(crate) line: Option<(String, String, usize)>,
    /// Lines that wait until the turn ends.
    pub(crate) waiting: Vec<String>,
    /// A notice about the input.
    pub(crate) notice: Option<String>,
    /// Whether a turn is running.
    pub(crate) is_busy: bool,
}

impl InputRows {
    /// The rows on a screen of this size, and the cursor in them.
    pub(crate) fn rows(&self, (width, height): (usize, usize)) -> (Vec<String>, Option<Cursor>) {
        let mut rows = Vec::new();
        let mut faint = |text: &str| rows.push(styled(cut(text, width), Style::Faint));
        for text in self.waiting.iter().take(MAX_WAITING) {
            faint(&format!("  waiting: {}", printable(text)));
        }
        if self.waiting.len() > MAX_WAITING {
            faint(&format!("  … and {} more", self.waiting.len() - MAX_WAITING));
        }
        if self.is_busy && !self.waiting.is_empty() {
            faint(ADVICE);
        }
        if let Some(notice) = &self.notice {
            faint(&format!("  {notice}"));
        }
        let Some((prompt, text, position)) = &self.line else { return (rows, None) };
        let (typed, cursor) = layout(prompt, text, *position, width.max(TAB.len() + 1));
        // Of a long text, the rows around the cursor are shown.
        let room = height.saturating_sub(rows.len() + 2).max(1);
        let first = (cursor.line + 1).saturating_sub(room);
        let line = rows.len() + cursor.line - first;
        rows.extend(typed.into_iter().skip(first).take(room));
        (rows, Some(Cursor { line, column: cursor.column }))
    }
}

/// The lines of a finished text. The terminal wraps them, so that they can be copied as typed.
pub(crate) fn finished(prompt: &str, text: &str) -> Vec<String> {
    let text = printable_lines(text).replace('\t', TAB);
    let lines = text.split('\n').enumerate();
    lines.map(|(at, line)| format!("{}{line}", if at == 0 { prompt } else { INDENT })).collect()
}

/// The rows of the text being typed, and the cursor in them.
fn layout(prompt: &str, text: &str, position: usize, width: usize) -> (Vec<String>, Cursor) {
    let (mut rows, mut row, mut used) = (Vec::new(), prompt.to_owned(), columns(prompt));
    let mut cursor = None;
    for (at, c) in text.char_indices() {
        let piece = match c {
            '\t' => TAB.to_owned(),
            '\n' => String::new(),
            c if is_unprintable(c) => c.escape_unicode().to_string(),
            c => c.to_string(),
        };
        if used + columns(&piece) > width {
            rows.push(std::mem::take(&mut row));
            used = 0;
        }
        if at == position {
            cursor = Some(Cursor { line: rows.len(), column: used.min(width - 1) });
        }
        if c == '\n' {
            rows.push(std::mem::replace(&mut row, INDENT.to_owned()));
            used = columns(INDENT);
        }
        row.push_str(&piece);
        used += columns(&piece);
    }
    // The cursor never stands beyond the last column.
    if cursor.is_none() && used >= width {
        rows.push(std::mem::take(&mut row));
        used = 0;
    }
    let end = Cursor { line: rows.len(), column: used };
    rows.push(row);
    (rows, cursor.unwrap_or(end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(line: usize, column: usize) -> Cursor {
        Cursor { line, column }
    }

    #[test]
    fn text_goes_on_below_and_the_cursor_with_it() {
        let rows = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
        assert_eq!(layout("> ", "", 0, 10), (rows(&["> "]), at(0, 2)));
        assert_eq!(layout("> ", "12345678", 8, 10), (rows(&["> 12345678", ""]), at(1, 0)));
        assert_eq!(layout("> ", "123456789", 8, 10), (rows(&["> 12345678", "9"]), at(1, 0)));
        assert_eq!(layout("> ", "one\n潮汐", 3, 10), (rows(&["> one", "  潮汐"]), at(0, 5)));
        assert_eq!(layout("> ", "one\n潮汐", 4, 10), (rows(&["> one", "  潮汐"]), at(1, 2)));
        assert_eq!(layout("> ", "a\u{1b}", 2, 20), (rows(&["> a\\u{1b}"]), at(0, 9)));
    }

    #[test]
    fn a_text_that_is_too_long_is_shown_around_the_cursor() {
        let text = (1..=50).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        let typing =
            InputRows { line: Some(("> ".to_owned(), text.clone(), text.len())), ..InputRows::default() };
        let (rows, cursor) = typing.rows((20, 8));
        assert_eq!((rows.len(), rows.last().unwrap().as_str(), cursor), (6, "  50", Some(at(5, 4))));
        let typing = InputRows { line: Some(("> ".to_owned(), text, 0)), ..InputRows::default() };
        let (rows, cursor) = typing.rows((20, 8));
        assert_eq!((rows[0].as_str(), rows.len(), cursor), ("> 1", 6, Some(at(0, 2))));
    }

    #[test]
    fn lines_that_wait_take_a_few_rows() {
        let waiting = (0..9).map(|number| format!("line {number}\nand more of it")).collect();
        let typing = InputRows { waiting, is_busy: true, ..InputRows::default() };
        let (rows, cursor) = typing.rows((24, 20));
        let rows: Vec<String> =
            rows.iter().map(|row| anstream::adapter::strip_str(row).to_string()).collect();
        assert_eq!((rows.len(), cursor), (7, None));
        assert_eq!((rows[0].as_str(), rows[5].as_str()), ("  waiting: line 0 and m…", "  … and 4 more"));
    }

    proptest! {
        #[test]
        fn no_row_is_too_wide_and_the_cursor_is_in_one(
            text in "[a-c 潮\n\t\u{1b}\u{301}]{0,60}", width in 5_usize..20, place in 0_usize..60,
        ) {
            let position = text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
            let (rows, cursor) = layout("> ", &text, position, width);
            prop_assert!(rows.iter().all(|row| columns(row) <= width.max(6)), "{rows:?}");
            prop_assert!(cursor.line < rows.len() && cursor.column < width.max(6), "{cursor:?} {rows:?}");
        }
    }
}
