//! Untrusted text on one line.

use std::fmt::Write as _;

/// The longest text in a message, in characters; the rest is cut off.
const MAX_PRINTED_CHARS: usize = 200;

/// `text` on one line, shortened if it is long. Characters that move the cursor or reverse text are escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut line = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == MAX_PRINTED_CHARS {
            line.push('…');
            break;
        }
        if is_invisible(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// The whole `text` on one line. No two texts look the same.
pub(crate) fn exact_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let is_lone = c == ' ' && !line.is_empty() && !line.ends_with(' ');
        match c {
            ' ' if is_lone && characters.peek().is_some_and(|next| *next != ' ') => line.push(' '),
            c if c.is_whitespace() || is_invisible(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// `text` on one line: each sequence of white space becomes one space.
pub(crate) fn one_line(text: &str) -> String {
    let visible: String = text.chars().map(|c| if is_invisible(c) { ' ' } else { c }).collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text` as a TOML string, quotes included, on one line.
pub(crate) fn toml_string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if is_invisible(c) => {
                let code = u32::from(c);
                let _ = if code > 0xFFFF {
                    write!(quoted, "\\U{code:08X}")
                } else {
                    write!(quoted, "\\u{code:04X}")
                };
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// `text` as a TOML key, bare if TOML allows that.
pub(crate) fn toml_key(text: &str) -> String {
    let bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if bare { text.to_owned() } else { toml_string(text) }
}

/// Whether a character is a control character, invisible, or reverses the text beside it. Names of skills may not have
/// these characters.
pub(crate) fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0E}' | '\u{FEFF}'
            | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFC}' | '\u{13430}'..='\u{1345F}'
            | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_line() {
        assert_eq!(printable("a\nb\u{202e}c"), "a\\nb\\u{202e}c");
        assert_eq!(printable(&"x".repeat(300)).chars().count(), MAX_PRINTED_CHARS + 1);
        assert_eq!(one_line("  no,\r\n use\u{1b}[31m `make`\t"), "no, use [31m `make`");
    }

    /// This crate does not depend on the catalog, but both must agree.
    #[test]
    fn the_catalog_sees_the_same_characters() {
        for c in (0..=0x10_FFFF).filter_map(char::from_u32) {
            assert_eq!(
                is_invisible(c),
                prowess_catalog::untrusted::is_unprintable(c),
                "U+{:04X}",
                u32::from(c)
            );
        }
    }

    #[test]
    fn quoted_text_is_toml() {
        assert_eq!(toml_string("a\"b\\c\n\u{7}"), r#""a\"b\\c\n\u0007""#);
        assert_eq!(toml_key("git-status_2"), "git-status_2");
        assert_eq!(toml_key("a.b"), "\"a.b\"");
        assert_eq!(toml_key(""), "\"\"");
    }
}
