//! Makes text from servers safe and short for our messages.

use prowess_base::text::cut;
use prowess_catalog::untrusted::one_line;

/// How many characters of a text are shown.
const MAX_SHOWN: usize = 300;

/// The beginning of `text` on one line, without unprintable characters.
pub(crate) fn short_line(text: &str) -> String {
    cut(&one_line(cut_bytes(text, MAX_SHOWN * 8)), MAX_SHOWN).into_owned()
}

/// At most `most` bytes of `text`, in whole characters.
pub(crate) fn cut_bytes(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_server_is_one_short_line() {
        assert_eq!(short_line("a\u{1b}[2J\n\u{202e}b"), "a[2J b");
        let long = short_line(&"é\n".repeat(1_000_000));
        assert_eq!(long.chars().count(), MAX_SHOWN + 1);
        assert!(long.ends_with('…'));
        assert_eq!(cut_bytes("é", 1), "");
    }
}
