//! The headings of a skill's instructions. They say what the instructions are about, in words that the description may lack.

use std::ops::Range;

/// How many bytes of headings are kept. A catalog keeps them in memory.
const MAX_HEADINGS: usize = 512;

/// The headings in the body, one per line. Only the part of the body that a scan has read anyway counts.
pub(crate) fn headings(source: &[u8], body: &Range<usize>) -> Box<str> {
    let mut headings = String::new();
    let mut fenced = false;
    let body = source.get(body.clone()).unwrap_or_default();
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', body).chain(std::iter::once(body.len())) {
        let line = &body[start..end];
        start = end + 1;
        match line {
            [b'`', b'`', b'`', ..] | [b'~', b'~', b'~', ..] => fenced = !fenced,
            [b'#', ..] if !fenced => {
                let text =
                    line.trim_ascii_start().iter().position(|byte| *byte != b'#').map(|at| &line[at..]);
                let text = text.filter(|text| text.first().is_some_and(u8::is_ascii_whitespace));
                let text = text.and_then(|text| std::str::from_utf8(text.trim_ascii()).ok());
                let Some(text) = text.filter(|text| !text.is_empty()) else { continue };
                if headings.len() + text.len() >= MAX_HEADINGS {
                    break;
                }
                if !headings.is_empty() {
                    headings.push('\n');
                }
                headings.push_str(text);
            }
            _ => {}
        }
    }
    headings.into()
}

#[cfg(test)]
mod tests {
    use super::{MAX_HEADINGS, headings};

    fn of(text: &str) -> String {
        headings(text.as_bytes(), &(0..text.len())).into()
    }

    #[test]
    fn headings_are_lines_with_a_hash_and_a_blank() {
        assert_eq!(of("# Tides\r\nText # no\n#tag\n\n## High water \n#\n"), "Tides\nHigh water");
        assert_eq!(of("```sh\n# a comment\n```\n# After"), "After");
        assert_eq!(of(""), "");
    }

    #[test]
    fn they_are_bounded_and_whole() {
        let many = "# a heading of some length\n".repeat(1000);
        assert!(of(&many).len() < MAX_HEADINGS);
        assert_eq!(of(&format!("# {}", "x".repeat(10_000))), "");
        assert_eq!(&*headings(b"# caf\xC3", &(0..6)), "", "a character that was cut");
        assert_eq!(&*headings(b"short", &(0..100)), "");
    }
}
