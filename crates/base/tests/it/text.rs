//! Text from strangers, escaped, cut or exact.

use proptest::prelude::*;
use prowess_base::text::{
    MAX_START_CHARS, cut, escape_unprintable, escaped_start, exact_line, is_unprintable,
};

#[test]
fn texts_that_a_counted_blank_confused_look_different() {
    // These pairs had the same line when the number of blanks followed the code.
    for (one, other) in [(" ×2b", "  b"), ("a  2b", "a                      b"), (r"\u{20}b", " b")] {
        assert_ne!(exact_line(one), exact_line(other), "{one:?} and {other:?}");
    }
}

#[test]
fn ordinary_text_stays_as_it_is() {
    for text in ["", "make check", r"C:\users\me", "Größe 3×4.txt", r"grep '\.rs$'"] {
        assert_eq!(exact_line(text), text);
    }
}

proptest! {
    /// Two different texts never give the same line, and every result is one line.
    #[test]
    fn lines_are_exact(
        one in r"[ab ×2\\u{}\n\u{A0}]{0,8}",
        other in r"[ab ×2\\u{}\n\u{A0}]{0,8}",
        any in any::<String>(),
    ) {
        prop_assert_eq!(exact_line(&one) == exact_line(&other), one == other);
        let line = exact_line(&any).into_owned();
        let is_odd = |c: char| is_unprintable(c) || (c.is_whitespace() && c != ' ');
        prop_assert!(!line.contains(is_odd) && !line.contains("  "), "{line:?}");
    }

    /// No unprintable character is left, and the others are as they were.
    #[test]
    fn unprintable_characters_are_escaped_and_no_others(
        text in r"[a\\u{}0\n\t\r\x1b\u{7f}\u{9b}\u{A0}\u{200b}\u{202e}\u{2028}\u{3164}\u{feff}\u{e0041}é潮]{0,16}",
        any in any::<String>(),
    ) {
        for text in [text, any] {
            let escaped = escape_unprintable(&text);
            prop_assert!(!escaped.contains(is_unprintable), "{escaped:?}");
            let expected: String = text
                .chars()
                .map(|c| if is_unprintable(c) { format!(r"\u{{{:x}}}", u32::from(c)) } else { c.to_string() })
                .collect();
            prop_assert_eq!(escaped, expected);
        }
    }

    /// A cut text is a beginning of the text, and says that something is missing.
    #[test]
    fn a_cut_text_has_whole_characters(text in any::<String>(), max_chars in 0_usize..40) {
        let shown = cut(&text, max_chars);
        if text.chars().count() <= max_chars {
            prop_assert_eq!(shown, text.as_str());
        } else {
            let start = shown.strip_suffix('…').unwrap();
            prop_assert!(text.starts_with(start));
            prop_assert_eq!(start.chars().count(), max_chars);
        }
    }

    /// However long a text is and whatever it contains, its beginning is short and safe.
    #[test]
    fn a_beginning_is_short_and_safe(text in r"[a\n\x1b\u{202e}é]{150,260}") {
        let start = escaped_start(&text);
        prop_assert!(!start.contains(is_unprintable));
        prop_assert_eq!(start.ends_with('…'), text.chars().count() > MAX_START_CHARS);
        let first: String = text.chars().take(MAX_START_CHARS).collect();
        prop_assert!(start.starts_with(&escape_unprintable(&first)));
    }

    /// A line can be turned back into its text, which proves that no other text has it.
    #[test]
    fn a_line_tells_its_text(text in r"[ab ×2\\u{}\n\t\u{A0}é]{0,24}") {
        prop_assert_eq!(told_by(&exact_line(&text)), text);
    }
}

fn told_by(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, code)) = rest.split_once(r"\u{") {
        let (code, after) = code.split_once('}').unwrap();
        let (code, times) = code.split_once('×').unwrap_or((code, "1"));
        let c = char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap();
        text.push_str(before);
        text.extend(std::iter::repeat_n(c, times.parse().unwrap()));
        rest = after;
    }
    text + rest
}
