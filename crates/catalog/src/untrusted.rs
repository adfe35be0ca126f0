//! Makes text from strangers safe for prompts, messages and terminals.

use std::borrow::Cow;

pub(crate) use prowess_base::text::escaped_start;
pub use prowess_base::text::{exact_line, exact_quoted_line, is_unprintable};

/// `text` on one line: white space becomes one blank, and unprintable characters are removed.
///
/// ```
/// assert_eq!(prowess_catalog::untrusted::one_line("a\n\n- **b**\u{202E}: c"), "a - **b**: c");
/// ```
pub fn one_line(text: &str) -> Cow<'_, str> {
    if is_one_line(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    let mut pending_blank = false;
    for c in text.chars() {
        if c.is_whitespace() || matches!(c, '\u{2028}' | '\u{2029}') {
            pending_blank = !line.is_empty();
        } else if !is_unprintable(c) {
            if pending_blank {
                line.push(' ');
                pending_blank = false;
            }
            line.push(c);
        }
    }
    Cow::Owned(line)
}

/// Whether `text` is printable ASCII with single blanks between its words, as nearly all text is.
fn is_one_line(text: &[u8]) -> bool {
    // A loop without an early exit is vectorised.
    let strange = text.iter().fold(false, |strange, byte| strange | !(b' '..=b'~').contains(byte));
    !strange
        && !text.starts_with(b" ")
        && !text.ends_with(b" ")
        && memchr::memmem::find(text, b"  ").is_none()
}

/// [`one_line`] with escaped angle brackets, so that they cannot form a tag.
pub(crate) fn prompt_line(text: &str, out: &mut String) {
    let line = one_line(text);
    let mut copied = 0;
    for at in memchr::memchr2_iter(b'<', b'>', line.as_bytes()) {
        out.push_str(&line[copied..at]);
        out.push_str(if line.as_bytes()[at] == b'<' { "&lt;" } else { "&gt;" });
        copied = at + 1;
    }
    out.push_str(&line[copied..]);
}

/// A name for use inside Markdown emphasis, which it cannot close.
pub(crate) fn emphasised(text: &str, out: &mut String) {
    escape(&one_line(text), out, |c| match c {
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '*' => Some("\\*"),
        '`' => Some("\\`"),
        '[' => Some("\\["),
        ']' => Some("\\]"),
        _ => None,
    });
}

/// `text` as the content of an XML element or a double-quoted attribute, on one line.
pub(crate) fn xml(text: &str, out: &mut String) {
    escape(&one_line(text), out, |c| match c {
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '&' => Some("&amp;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#x27;"),
        _ => None,
    });
}

/// Appends `text` with some characters replaced.
fn escape(text: &str, out: &mut String, replacement: impl Fn(char) -> Option<&'static str>) {
    let mut copied = 0;
    for (at, c) in text.char_indices() {
        if let Some(replacement) = replacement(c) {
            out.push_str(&text[copied..at]);
            out.push_str(replacement);
            copied = at + c.len_utf8();
        }
    }
    out.push_str(&text[copied..]);
}

/// `text` for use inside a Markdown code span, which it cannot close.
///
/// ```
/// assert_eq!(prowess_catalog::untrusted::code_text("a`b<c>\n"), "a'b&lt;c&gt;");
/// ```
pub fn code_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(&one_line(text), &mut out, |c| match c {
        '`' => Some("'"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        _ => None,
    });
    out
}

/// `text` inside double quotes inside a Markdown code span: `load_skill("…")`.
pub(crate) fn quoted(text: &str, out: &mut String) {
    escape(&one_line(text), out, |c| match c {
        '"' => Some("\\\""),
        '\\' => Some("\\\\"),
        '`' => Some("'"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        _ => None,
    });
}

/// The first invisible character of `text`. A variation selector or a joiner after an emoji does not count.
pub(crate) fn invisible_character(text: &str) -> Option<char> {
    let mut before = ' ';
    for c in text.chars() {
        let joins_emoji = matches!(c, '\u{200D}' | '\u{FE0E}') && !before.is_ascii();
        if is_unprintable(c) && !c.is_control() && !joins_emoji {
            return Some(c);
        }
        before = c;
    }
    None
}

/// Whether a word of `text` mixes Latin letters with Cyrillic or Greek ones, which look alike.
pub(crate) fn mixes_scripts(text: &str) -> bool {
    text.split(|c: char| !c.is_alphabetic()).any(|word| {
        let latin = word.chars().any(|c| c.is_ascii_alphabetic() || ('\u{C0}'..='\u{24F}').contains(&c));
        let alike = word
            .chars()
            .any(|c| ('\u{370}'..='\u{3FF}').contains(&c) || ('\u{400}'..='\u{52F}').contains(&c));
        latin && alike
    })
}

/// Whether `text` imitates the markup that agents use for their own messages.
pub(crate) fn imitates_markup(text: &str) -> bool {
    const MARKS: [&str; 12] = [
        "<system",
        "</system",
        "<skill",
        "</skill",
        "<assistant",
        "</assistant",
        "<tool",
        "</tool",
        "<available_skills",
        "</available_skills",
        "<|",
        "[INST]",
    ];
    memchr::memchr2(b'<', b'[', text.as_bytes()).is_some() && {
        let lower = text.to_lowercase();
        MARKS.iter().any(|mark| lower.contains(&mark.to_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines() {
        assert_eq!(one_line("plain words"), "plain words");
        assert!(matches!(one_line("plain words"), Cow::Borrowed(_)));
        assert_eq!(one_line("  a \u{2028} b\r\n\tc \u{7}\u{1b}[31m "), "a b c [31m");
        assert_eq!(one_line("日本\u{3000}語"), "日本 語");
    }

    #[test]
    fn look_alikes_are_seen_and_honest_scripts_are_not() {
        assert!(mixes_scripts("p\u{430}ypal"));
        assert!(!mixes_scripts("навык"));
        assert!(!mixes_scripts("git-навык"));
        assert!(!mixes_scripts("潮汐-log"));
    }

    #[test]
    fn emoji_are_not_suspicious() {
        assert_eq!(invisible_character("👩\u{200D}🔬 notes ❤\u{FE0F}"), None);
        assert_eq!(invisible_character("a\u{200D}b"), Some('\u{200D}'));
        assert_eq!(invisible_character("a\u{202E}b"), Some('\u{202E}'));
    }
}
