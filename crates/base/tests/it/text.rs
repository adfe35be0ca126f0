//! Tests of exact lines.

use proptest::prelude::*;
use prowess_base::text::{exact_line, is_unprintable};

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

    /// A line can be turned back into its text, so no other text has the same line.
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
