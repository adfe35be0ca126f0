//! Makes text from servers safe and short for our messages.

use prowess_catalog::untrusted::one_line;

/// How many characters of a text are shown.
const MAX_SHOWN: usize = 300;

/// The beginning of `text` on one line, without unprintable characters.
pub(crate) fn printable(text: &str) -> String {
    cut(&one_line(cut_bytes(text, MAX_SHOWN * 8)), MAX_SHOWN)
}

/// At most `most` characters of `text`, with `…` if something is missing.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// At most `most` bytes of `text`, in whole characters.
pub(crate) fn cut_bytes(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_is_one_short_line() {
        assert_eq!(printable("a\u{1b}[2J\n\u{202e}b"), "a[2J b");
        let long = printable(&"é\n".repeat(1_000_000));
        assert_eq!(long.chars().count(), MAX_SHOWN + 1);
        assert!(long.ends_with('…'));
        assert_eq!(cut_bytes("é", 1), "");
    }
}
