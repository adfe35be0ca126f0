//! Untrusted text on one line.

use std::fmt::Write as _;

use prowess_base::text::is_unprintable;
pub(crate) use prowess_base::text::{escaped_start, exact_command, exact_line, exact_quoted_line};

/// `text` on one line: each sequence of white space and unprintable characters becomes one space.
///
/// Nothing is removed without a space. Otherwise `exa\u{200B}mple.com` would look like a host that it is not.
pub(crate) fn spaced_line(text: &str) -> String {
    let visible: String = text.chars().map(|c| if is_unprintable(c) { ' ' } else { c }).collect();
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
            c if is_unprintable(c) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_line() {
        assert_eq!(spaced_line("exa\u{200b}mple.com"), "exa mple.com");
        assert_eq!(spaced_line("  no,\r\n use\u{1b}[31m `make`\t"), "no, use [31m `make`");
    }

    #[test]
    fn quoted_text_is_toml() {
        assert_eq!(toml_string("a\"b\\c\n\u{7}"), r#""a\"b\\c\n\u0007""#);
        assert_eq!(toml_key("git-status_2"), "git-status_2");
        assert_eq!(toml_key("a.b"), "\"a.b\"");
        assert_eq!(toml_key(""), "\"\"");
    }
}
