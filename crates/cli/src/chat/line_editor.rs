//! The text that a person is typing, and the keys that change it.

use rustyline::line_buffer::{ChangeListener, DeleteListener, Direction, LineBuffer};
use rustyline::{At, Word};

use super::keys::Key;
use crate::terminal::size;

/// The longest message that can be typed, in bytes.
const MAX_MESSAGE: usize = 1 << 20;

/// Text with a cursor. It may have several lines.
pub(super) struct LineEditor {
    buffer: LineBuffer,
    /// The text that was cut out last.
    cut: String,
    /// Whether the last key had more text than fits.
    is_full: bool,
}

/// Keeps the text that is cut out.
struct CutText<'a>(&'a mut String);

impl DeleteListener for CutText<'_> {
    fn delete(&mut self, _: usize, text: &str, _: Direction) {
        text.clone_into(self.0);
    }
}

/// Ignores all changes.
struct IgnoreChanges;

impl DeleteListener for IgnoreChanges {
    fn delete(&mut self, _: usize, _: &str, _: Direction) {}
}

impl ChangeListener for IgnoreChanges {
    fn insert_char(&mut self, _: usize, _: char) {}
    fn insert_str(&mut self, _: usize, _: &str) {}
    fn replace(&mut self, _: usize, _: &str, _: &str) {}
}

impl LineEditor {
    pub(super) fn new() -> Self {
        Self { buffer: LineBuffer::with_capacity(MAX_MESSAGE), cut: String::new(), is_full: false }
    }

    pub(super) fn text(&self) -> &str {
        self.buffer.as_str()
    }

    /// The position of the cursor, in bytes.
    pub(super) fn position(&self) -> usize {
        self.buffer.pos()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Replaces the text, with the cursor at its end.
    pub(super) fn set(&mut self, text: &str) {
        let mut end = text.len().min(MAX_MESSAGE);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.is_full = end < text.len();
        self.buffer.update(&text[..end], end, &mut IgnoreChanges);
    }

    /// Replaces the text before the cursor.
    pub(super) fn set_before(&mut self, text: &str) {
        let rest = self.text()[self.position()..].to_owned();
        self.set(&format!("{text}{rest}"));
        self.buffer.set_pos(text.len().min(self.buffer.len()));
    }

    /// Takes the text out.
    pub(super) fn take(&mut self) -> String {
        let text = self.text().to_owned();
        self.set("");
        text
    }

    /// If the line ends with a single backslash, replaces it with a line break. Returns whether it did.
    pub(super) fn goes_on(&mut self) -> bool {
        let backslashes = self.text().bytes().rev().take_while(|byte| *byte == b'\\').count();
        if backslashes % 2 == 0 {
            return false;
        }
        let text = self.text().strip_suffix('\\').map(|text| format!("{text}\n"));
        text.inspect(|text| self.set(text)).is_some()
    }

    /// Inserts text at the cursor. Text that does not fit is left out completely.
    fn insert(&mut self, text: &str) {
        self.is_full = self.buffer.yank(text, 1, &mut IgnoreChanges).is_none() && !text.is_empty();
    }

    /// A notice if the text of the last key did not fit.
    pub(super) fn size_notice(&self) -> Option<String> {
        let text = || format!("this does not fit: a message has at most {}", size(MAX_MESSAGE as u64));
        self.is_full.then(text)
    }

    /// Applies a key to the text; `false` if the key does not edit text.
    pub(super) fn edit(&mut self, key: &Key) -> bool {
        self.is_full = false;
        let Self { buffer, cut, .. } = self;
        match key {
            Key::Text(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            Key::Pasted(text) => self.insert(text),
            Key::LineBreak => self.insert("\n"),
            Key::Backspace => _ = buffer.backspace(1, &mut IgnoreChanges),
            Key::Delete | Key::Control('d') => _ = buffer.delete(1, &mut IgnoreChanges),
            Key::Left | Key::Control('b') => _ = buffer.move_backward(1),
            Key::Right | Key::Control('f') => _ = buffer.move_forward(1),
            Key::Home | Key::Control('a') => _ = buffer.move_home(),
            Key::End | Key::Control('e') => _ = buffer.move_end(),
            Key::Meta('b') => _ = buffer.move_to_prev_word(Word::Emacs, 1),
            Key::Meta('f') => _ = buffer.move_to_next_word(At::AfterEnd, Word::Emacs, 1),
            Key::Control('k') => _ = buffer.kill_line(&mut CutText(cut)),
            Key::Control('u') => _ = buffer.discard_line(&mut CutText(cut)),
            Key::Control('w') => _ = buffer.delete_prev_word(Word::Big, 1, &mut CutText(cut)),
            Key::Meta('\u{7f}') => _ = buffer.delete_prev_word(Word::Emacs, 1, &mut CutText(cut)),
            Key::Meta('d') => _ = buffer.delete_word(At::AfterEnd, Word::Emacs, 1, &mut CutText(cut)),
            Key::Control('t') => _ = buffer.transpose_chars(&mut IgnoreChanges),
            Key::Control('y') => {
                let text = cut.clone();
                self.insert(&text);
            }
            // Escape was pressed before, and has no meaning.
            Key::Meta(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            _ => return false,
        }
        true
    }

    /// Moves to the line above; `false` on the first line.
    pub(super) fn up(&mut self) -> bool {
        let before = &self.text()[..self.position()];
        let Some(end) = before.rfind('\n') else { return false };
        let column = before[end + 1..].chars().count();
        let start = before[..end].rfind('\n').map_or(0, |at| at + 1);
        let position = start + bytes_of(&before[start..end], column);
        self.buffer.set_pos(position);
        true
    }

    /// Moves to the line below; `false` on the last line.
    pub(super) fn down(&mut self) -> bool {
        let (before, after) = self.text().split_at(self.position());
        let Some(end) = after.find('\n') else { return false };
        let column = before[before.rfind('\n').map_or(0, |at| at + 1)..].chars().count();
        let below = after[end + 1..].lines().next().unwrap_or_default();
        let position = before.len() + end + 1 + bytes_of(below, column);
        self.buffer.set_pos(position);
        true
    }
}

/// The bytes of the first characters of a text.
fn bytes_of(text: &str, characters: usize) -> usize {
    text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[Key]) -> LineEditor {
        let mut line = LineEditor::new();
        for key in keys {
            assert!(line.edit(key), "{key:?}");
        }
        line
    }

    fn of(text: &str) -> LineEditor {
        typed(&[Key::Pasted(text.to_owned())])
    }

    #[test]
    fn keys_change_the_text() {
        let mut line = of("one two three");
        for key in [
            Key::Control('w'),
            Key::Meta('b'),
            Key::Control('k'),
            Key::Control('a'),
            Key::Control('y'),
            Key::Meta(' '),
            Key::Meta('f'),
            Key::Backspace,
        ] {
            assert!(line.edit(&key), "{key:?}");
        }
        assert_eq!((line.text(), line.position()), ("two  on ", 7));
        assert!(!line.edit(&Key::Up) && !line.edit(&Key::Enter));
        assert_eq!(line.take(), "two  on ");
        assert!(line.is_empty());
    }

    #[test]
    fn up_and_down_keep_the_column() {
        let mut line = of("short\n潮汐日志 and more\nend");
        assert!(line.up());
        assert_eq!(&line.text()[line.position()..], "志 and more\nend");
        assert!(line.up() && !line.up());
        assert_eq!(line.position(), 3);
        assert!(line.edit(&Key::End) && line.down());
        assert_eq!(&line.text()[line.position()..], "and more\nend");
        assert!(line.down() && !line.down());
        assert_eq!(line.position(), line.text().len());
    }

    #[test]
    fn a_backslash_at_the_end_goes_on() {
        let mut line = of("one \\");
        assert!(line.goes_on());
        assert_eq!(line.text(), "one \n");
        assert!(!of("C:\\\\").goes_on() && !of("one").goes_on() && of("\\\\\\").goes_on());
    }

    #[test]
    fn a_message_has_a_longest() {
        let mut line = of(&"潮".repeat(MAX_MESSAGE / 3));
        let length = line.text().len();
        line.edit(&Key::Pasted("xyz".to_owned()));
        assert_eq!(line.text().len(), length);
        assert_eq!(line.size_notice().unwrap(), "this does not fit: a message has at most 1.0 MiB");
        line.edit(&Key::Left);
        assert_eq!(line.size_notice(), None);
        line.set(&"潮".repeat(MAX_MESSAGE));
        assert_eq!(line.text().len(), length);
    }
}
