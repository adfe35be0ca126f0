//! Decodes keys from the bytes that a terminal sends.

/// The sequence that ends pasted text.
const PASTE_END: &[u8] = b"\x1b[201~";
/// The longest paste, in bytes, so that a paste without an end cannot block the keyboard.
const MAX_PASTE: usize = 1 << 20;
/// The longest sequence of one key, in bytes.
const MAX_SEQUENCE: usize = 32;

/// A pressed key, or pasted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Text(char),
    /// Line breaks are `\n`, whatever the terminal sent.
    Pasted(String),
    Enter,
    /// Alt-Enter, or Shift-Enter if the terminal distinguishes it.
    LineBreak,
    Tab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    /// A letter with Ctrl.
    Control(char),
    /// A letter with Alt, or after Escape.
    Meta(char),
}

/// Decodes keys from bytes that come in any pieces. It does not use time: Escape belongs to what follows it.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
    pasted: Option<Vec<u8>>,
}

/// What the bytes start with.
enum Decoded {
    Key(Key),
    PasteBegin,
    /// A key without a meaning here.
    Nothing,
}

impl Decoder {
    /// Returns the keys that are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(bytes);
        let (mut keys, mut at) = (Vec::new(), 0);
        loop {
            if self.pasted.is_some() {
                let Some(used) = self.paste(at, &mut keys) else {
                    at = self.bytes.len();
                    break;
                };
                at += used;
                continue;
            }
            let Some((found, used)) = first(&self.bytes[at..]) else { break };
            at += used;
            match found {
                Decoded::Key(key) => keys.push(key),
                Decoded::PasteBegin => self.pasted = Some(Vec::new()),
                Decoded::Nothing => {}
            }
        }
        // The end of a paste may have come only partly.
        let part = if self.pasted.is_some() { unfinished_end(&self.bytes) } else { 0 };
        if let Some(pasted) = &mut self.pasted {
            pasted.truncate(pasted.len().saturating_sub(part));
        }
        self.bytes.drain(..at - part.min(at));
        keys
    }

    /// Takes pasted text up to its end, and returns how many bytes that was; `None` if the end has not come yet.
    fn paste(&mut self, at: usize, keys: &mut Vec<Key>) -> Option<usize> {
        let pasted = self.pasted.as_mut()?;
        let rest = &self.bytes[at..];
        let end = rest.windows(PASTE_END.len()).position(|window| window == PASTE_END);
        pasted.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
        if end.is_none() && pasted.len() <= MAX_PASTE {
            return None;
        }
        let text = String::from_utf8_lossy(pasted).replace("\r\n", "\n").replace('\r', "\n");
        keys.push(Key::Pasted(text));
        self.pasted = None;
        Some(end.map_or(rest.len(), |end| end + PASTE_END.len()))
    }
}

/// How many bytes at the end may be the start of the sequence that ends a paste.
fn unfinished_end(bytes: &[u8]) -> usize {
    (1..PASTE_END.len()).rev().find(|length| bytes.ends_with(&PASTE_END[..*length])).unwrap_or(0)
}

/// The first key, and how many bytes it has; `None` if more bytes must come.
fn first(bytes: &[u8]) -> Option<(Decoded, usize)> {
    let first = *bytes.first()?;
    let key = match first {
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x08 | 0x7f => Key::Backspace,
        0x1b => return escape(bytes),
        0x01..=0x1a => Key::Control(char::from(first - 1 + b'a')),
        0x00 | 0x1c..=0x1f => Key::Control(char::from(first | 0x40)),
        _ => return text(bytes),
    };
    Some((Decoded::Key(key), 1))
}

fn text(bytes: &[u8]) -> Option<(Decoded, usize)> {
    let length = match bytes.first()? {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let (c, used) = match std::str::from_utf8(&bytes[..length.min(bytes.len())]) {
        Ok(text) => (text.chars().next()?, length),
        Err(error) if error.error_len().is_none() => return None,
        Err(_) => (char::REPLACEMENT_CHARACTER, 1),
    };
    Some((Decoded::Key(Key::Text(c)), used))
}

/// A sequence that starts with Escape.
fn escape(bytes: &[u8]) -> Option<(Decoded, usize)> {
    let key = match *bytes.get(1)? {
        b'[' => return sequence(bytes),
        b'O' => return Some((letter_key(char::from(*bytes.get(2)?)), 3)),
        b'\r' | b'\n' => Key::LineBreak,
        0x08 | 0x7f => Key::Meta('\u{7f}'),
        c @ b' '..=b'~' => Key::Meta(char::from(c)),
        // Escape alone means nothing; the rest is decoded normally.
        _ => return Some((Decoded::Nothing, 1)),
    };
    Some((Decoded::Key(key), 2))
}

/// `ESC [`, numbers, and a letter that says what it is.
fn sequence(bytes: &[u8]) -> Option<(Decoded, usize)> {
    // Function keys of the Linux console have one more bracket and a letter.
    if bytes.get(2) == Some(&b'[') {
        return bytes.get(3).map(|_| (Decoded::Nothing, 4));
    }
    let mut known = bytes.iter().take(MAX_SEQUENCE).skip(2);
    let Some(length) = known.position(|byte| !(b' '..=b'?').contains(byte)) else {
        return (bytes.len() >= MAX_SEQUENCE).then_some((Decoded::Nothing, MAX_SEQUENCE));
    };
    let (numbers, last) = (&bytes[2..2 + length], bytes[2 + length]);
    // The sequence was interrupted.
    if !(b'@'..=b'~').contains(&last) {
        return Some((Decoded::Nothing, 2 + length));
    }
    let numbers = String::from_utf8_lossy(numbers);
    let number = |at: usize| numbers.split(';').nth(at).and_then(|number| number.parse::<u32>().ok());
    let is_modified = number(1).is_some_and(|modifiers| modifiers > 1);
    let found = match (last, number(0)) {
        (b'C', _) if is_modified => Decoded::Key(Key::Meta('f')),
        (b'D', _) if is_modified => Decoded::Key(Key::Meta('b')),
        (b'~', Some(1 | 7)) => Decoded::Key(Key::Home),
        (b'~', Some(4 | 8)) => Decoded::Key(Key::End),
        (b'~', Some(3)) => Decoded::Key(Key::Delete),
        (b'~', Some(200)) => Decoded::PasteBegin,
        // Enter with a modifier, as some terminals send it.
        (b'~', Some(27)) if number(2) == Some(13) => Decoded::Key(Key::LineBreak),
        (b'u', Some(13)) if is_modified => Decoded::Key(Key::LineBreak),
        (b'u', Some(13)) => Decoded::Key(Key::Enter),
        (b'~' | b'u', _) => Decoded::Nothing,
        (last, _) => letter_key(char::from(last)),
    };
    Some((found, 3 + length))
}

/// Keys that are a letter after `ESC [` or `ESC O`.
fn letter_key(letter: char) -> Decoded {
    Decoded::Key(match letter {
        'A' => Key::Up,
        'B' => Key::Down,
        'C' => Key::Right,
        'D' => Key::Left,
        'H' => Key::Home,
        'F' => Key::End,
        'M' => Key::Enter,
        _ => return Decoded::Nothing,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &str) -> Vec<Key> {
        Decoder::default().push(bytes.as_bytes())
    }

    #[test]
    fn keys_are_told_apart() {
        use Key::*;
        assert_eq!(keys("aé潮"), [Text('a'), Text('é'), Text('潮')]);
        assert_eq!(
            keys("\r\n\t\x7f\x08\x03\x1f"),
            [Enter, Enter, Tab, Backspace, Backspace, Control('c'), Control('_')]
        );
        assert_eq!(
            keys("\x1b[A\x1bOB\x1b[1;5C\x1b[3~\x1b[1~\x1b[F"),
            [Up, Down, Meta('f'), Delete, Home, End]
        );
        assert_eq!(keys("\x1b\r\x1b[13;2u\x1b[27;2;13~"), [LineBreak, LineBreak, LineBreak]);
        assert_eq!(keys("\x1bb\x1b\x7f\x1b\x1b[Da"), [Meta('b'), Meta('\u{7f}'), Left, Text('a')]);
        // What is not known is passed over, and what follows it is not.
        assert_eq!(
            keys("\x1b[[Ax\x1b[99;1Zy\x1b[1\x03\x1bPz"),
            [Text('x'), Text('y'), Control('c'), Meta('P'), Text('z')]
        );
    }

    #[test]
    fn a_paste_is_one_text_however_it_comes() {
        let bytes = b"a\x1b[200~one\r\ntwo\r\x1b[20 three\x1b[201~b";
        let expected = [Key::Text('a'), Key::Pasted("one\ntwo\n\x1b[20 three".to_owned()), Key::Text('b')];
        for size in 1..bytes.len() {
            let mut decoder = Decoder::default();
            let keys: Vec<Key> = bytes.chunks(size).flat_map(|piece| decoder.push(piece)).collect();
            assert_eq!(keys, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_paste_without_an_end_does_not_keep_the_keyboard() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"\x1b[200~"), []);
        let keys: Vec<Key> = (0..=MAX_PASTE / 1_000).flat_map(|_| decoder.push(&[b'x'; 1_000])).collect();
        assert!(matches!(&keys[..], [Key::Pasted(text), ..] if text.len() > MAX_PASTE), "{}", keys.len());
        assert_eq!(decoder.push(b"\x03"), [Key::Control('c')]);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(bytes in prop::collection::vec(prop_oneof![
            any::<u8>(),
            prop::sample::select(b"\x1b[0123~200201;AC\r".to_vec()),
        ], 0..60), at in 0_usize..60) {
            let whole = Decoder::default().push(&bytes);
            let (start, end) = bytes.split_at(at.min(bytes.len()));
            let mut decoder = Decoder::default();
            let mut parts = decoder.push(start);
            parts.extend(decoder.push(end));
            prop_assert_eq!(parts, whole);
        }

        #[test]
        fn text_is_never_lost(text in "[ -~é潮\u{301}]{0,40}") {
            let typed: String = keys(&text).into_iter().filter_map(|key| match key {
                Key::Text(c) => Some(c),
                _ => None,
            }).collect();
            prop_assert_eq!(typed, text);
        }
    }
}
