//! Writes texts as YAML scalars, for fixes.

use std::fmt::Write as _;

/// `text` as a double-quoted YAML scalar on one line.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.trim().chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            // YAML allows these only as escapes.
            c if c.is_control() || matches!(c, '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}') => {
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// `text` as a plain YAML scalar if that is certainly safe, otherwise quoted.
pub(super) fn quote_if_needed(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'));
    let word =
        matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE" | "null" | "Null" | "NULL");
    if plain && !word { text.to_owned() } else { quote(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::Value;

    #[test]
    fn quoting_gives_back_the_text() {
        for text in ["plain", "a: b", "say \"hi\" \\ there", "tab\tand\nline", "*", "yes: #1"] {
            let yaml = format!("k: {}\n", quote(text));
            let value = crate::yaml::compose(&yaml).unwrap().root.unwrap().to_value();
            assert_eq!(value.get("k").and_then(Value::as_text), Some(text));
        }
    }
}
