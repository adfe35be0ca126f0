//! Shows text from strangers without letting it control a terminal or pass for something else.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether `c` is invisible, changes direction or controls a terminal.
///
/// Names may not have such characters, and rendered text never does.
///
/// ```
/// use prowess_base::text::is_unprintable;
///
/// assert!(is_unprintable('\u{202E}'), "changes the direction of the following text");
/// assert!(is_unprintable('\u{1B}') && !is_unprintable('é'));
/// ```
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0E}' | '\u{FEFF}'
            | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFC}' | '\u{13430}'..='\u{1345F}'
            | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// The most characters of a text that [`escaped_start`] shows.
pub const MAX_START_CHARS: usize = 200;

/// Returns `text` with every unprintable character escaped. White space that is printable stays.
///
/// ```
/// use prowess_base::text::escape_unprintable;
///
/// assert_eq!(escape_unprintable("a\n\u{202E}b é"), r"a\u{a}\u{202e}b é");
/// ```
#[must_use]
pub fn escape_unprintable(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) { escaped.extend(c.escape_unicode()) } else { escaped.push(c) }
    }
    escaped
}

/// Returns the beginning of `text` for a message: at most [`MAX_START_CHARS`] characters, with unprintable ones escaped.
///
/// ```
/// use prowess_base::text::escaped_start;
///
/// assert_eq!(escaped_start("a\u{1b}[2J"), r"a\u{1b}[2J");
/// assert!(escaped_start(&"x".repeat(1000)).ends_with("xx…"));
/// ```
#[must_use]
pub fn escaped_start(text: &str) -> String {
    escape_unprintable(&cut(text, MAX_START_CHARS))
}

/// Returns at most `max_chars` characters of `text`, and `…` if there are more. It escapes nothing.
///
/// ```
/// use prowess_base::text::cut;
///
/// assert_eq!(cut("low tide", 3), "low…");
/// assert_eq!(cut("low tide", 8), "low tide");
/// ```
#[must_use]
pub fn cut(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Returns the whole `text` on one line. Two different texts never give the same line.
///
/// A single blank between two other characters stays. All other white space and all unprintable characters are
/// escaped. Several blanks in a row become one escape with their number. A backslash that could start an escape is
/// escaped too.
///
/// ```
/// use prowess_base::text::exact_line;
///
/// assert_eq!(exact_line("a b.txt"), "a b.txt");
/// assert_eq!(exact_line("a  b\u{A0}.txt "), r"a\u{20×2}b\u{a0}.txt\u{20}");
/// assert_eq!(exact_line(r"a\u{20}"), r"a\u{5c}u{20}");
/// ```
#[must_use]
pub fn exact_line(text: &str) -> Cow<'_, str> {
    escaped(text, |rest| rest.starts_with("u{"))
}

/// Like [`exact_line`], for commands: each line break becomes `⏎`, which is easier to read than an escape.
///
/// ```
/// use prowess_base::text::exact_command;
///
/// assert_eq!(exact_command("# list\nls"), "# list⏎ls");
/// assert_eq!(exact_command("# list⏎ls"), r"# list\u{23ce}ls");
/// ```
#[must_use]
pub fn exact_command(command: &str) -> Cow<'_, str> {
    let line = exact_line(command);
    if !command.contains(['\n', '⏎']) {
        return line;
    }
    Cow::Owned(line.replace('⏎', r"\u{23ce}").replace(r"\u{a}", "⏎"))
}

/// Like [`exact_line`], for a text that `{:?}` wrote. There every backslash already starts an escape, so none is escaped
/// again.
///
/// ```
/// use prowess_base::text::exact_quoted_line;
///
/// assert_eq!(exact_quoted_line(&format!("{:?}", "a\u{1b}b")), r#""a\u{1b}b""#);
/// assert_ne!(exact_quoted_line(&format!("{:?}", r"\u{3164}")), exact_quoted_line(&format!("{:?}", "\u{3164}")));
/// ```
#[must_use]
pub fn exact_quoted_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// The text on one line. `is_ambiguous` says whether a backslash before this rest has to be escaped.
fn escaped(text: &str, is_ambiguous: impl Fn(&str) -> bool) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == ' ' {
            let after = rest.as_str().trim_start_matches(' ');
            let blanks = 1 + rest.as_str().len() - after.len();
            rest = after.chars();
            match blanks {
                1 if !line.is_empty() && !after.is_empty() => line.push(' '),
                1 => line.push_str(r"\u{20}"),
                // Writing to a string cannot fail.
                blanks => drop(write!(line, r"\u{{20×{blanks}}}")),
            }
        } else if c.is_whitespace() || is_unprintable(c) || (c == '\\' && is_ambiguous(rest.as_str())) {
            line.extend(c.escape_unicode());
        } else {
            line.push(c);
        }
    }
    Cow::Owned(line)
}

/// Whether `text` is printable ASCII with single blanks between its words and no escape, as nearly all text is.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !text.contains("  ")
        && !text.contains(r"\u{")
}
