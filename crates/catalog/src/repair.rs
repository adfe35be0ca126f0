//! Repairs the most common mistake in frontmatter: a value without the quotes that it needs.
//!
//! `description: Use when: tests fail` is not YAML. The repair rewrites the line of the parser's error as a block scalar, and
//! parses the text again. Every other line stays the same.

use std::ops::Range;

use crate::plain;
use crate::yaml::{self, YamlDocument, YamlError};

/// How many lines of one file are repaired.
const MAX_REPAIRS: usize = 8;

/// Frontmatter that was parsed, with or without repairs.
#[derive(Debug)]
pub(crate) struct Repaired<'a> {
    pub(crate) document: YamlDocument<'a>,
    /// The rewritten values, as ranges of the original text.
    pub(crate) values: Vec<Range<usize>>,
    edits: Vec<Edit>,
}

/// The range `at..at + grown` was inserted into the text.
#[derive(Clone, Copy, Debug)]
struct Edit {
    at: usize,
    grown: usize,
}

impl Repaired<'_> {
    /// Turns a range of the composed text into a range of the original text.
    pub(crate) fn original(&self, range: &Range<usize>) -> Range<usize> {
        let back = |offset: usize| {
            let mut shift = 0;
            for edit in &self.edits {
                if offset >= edit.at + edit.grown {
                    shift += edit.grown;
                } else if offset > edit.at {
                    shift += offset - edit.at;
                }
            }
            offset - shift
        };
        back(range.start)..back(range.end)
    }
}

/// Composes `text`, and repairs values if necessary. If that fails, the error is that of the original text.
pub(crate) fn compose(text: &str) -> Result<Repaired<'_>, YamlError> {
    let unrepaired = |document| Ok(Repaired { document, values: Vec::new(), edits: Vec::new() });
    if let Some(document) = plain::compose(text) {
        return unrepaired(document);
    }
    let first = match yaml::compose(text) {
        Ok(document) => return unrepaired(document),
        Err(error) => error,
    };
    let YamlError::Syntax { at, .. } = first else { return Err(first) };

    let mut current = text.to_owned();
    let mut edits: Vec<Edit> = Vec::new();
    let mut values = Vec::new();
    let mut error_at = at;
    while edits.len() < MAX_REPAIRS {
        let Some(value) = repairable_value(&current, error_at) else { return Err(first) };
        // The key has no indentation, so one blank is enough for the block.
        let insertion = "|-\n ";
        let grown: usize = edits.iter().map(|edit| edit.grown).sum();
        values.push(value.start - grown..value.end - grown);
        edits.push(Edit { at: value.start, grown: insertion.len() });
        let repaired_to = value.end + insertion.len();
        current.insert_str(value.start, insertion);
        match yaml::compose(&current) {
            Ok(document) => return Ok(Repaired { document: document.into_owned(), values, edits }),
            // Go on only if the next error is further down; otherwise the repair did not help.
            Err(YamlError::Syntax { at, .. }) if at > repaired_to => error_at = at,
            Err(_) => return Err(first),
        }
    }
    Err(first)
}

/// The value on the line at `at`, if it is a one-line plain value of a top-level key.
fn repairable_value(text: &str, at: usize) -> Option<Range<usize>> {
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let bytes = text.as_bytes();
    let start = bytes[..at].iter().rposition(is_break).map_or(0, |at| at + 1);
    let end = bytes[at..].iter().position(is_break).map_or(text.len(), |length| at + length);
    let line = &text[start..end];

    let (key, rest) = line.split_once(':')?;
    let is_key = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if !is_key || !rest.starts_with([' ', '\t']) {
        return None;
    }
    // To YAML, other white space of Unicode is text.
    let blank = [' ', '\t'];
    let value = rest.trim_start_matches(blank);
    if value.trim_end().is_empty() || value.starts_with(['"', '\'', '#']) || is_block_header(value) {
        return None;
    }
    // Do not repair a value that continues on the next line.
    let below = text[end..].trim_start_matches(['\r', '\n']);
    if below.starts_with([' ', '\t']) && !below.trim_start().is_empty() {
        return None;
    }
    let value_start = start + line.len() - value.len();
    Some(value_start..start + line.trim_end_matches(blank).len())
}

/// Whether `value` opens a block scalar (`|`, `>-`, `|2+`), and is not text that begins like one.
fn is_block_header(value: &str) -> bool {
    value.strip_prefix(['|', '>']).is_some_and(|rest| {
        let header = rest.split('#').next().unwrap_or_default();
        header.trim_end().bytes().all(|byte| matches!(byte, b'+' | b'-' | b'0'..=b'9'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::Value;

    fn read(text: &str) -> (Value, Vec<&str>) {
        let repaired = compose(text).unwrap();
        let values = repaired.values.iter().map(|range| &text[range.clone()]).collect();
        (repaired.document.root.unwrap().to_value(), values)
    }

    #[test]
    fn a_colon_in_a_value_is_text() {
        let (value, repaired) = read("name: x\ndescription: Use when: a, b: c\nlicense: MIT\n");
        assert_eq!(value.get("description").and_then(Value::as_text), Some("Use when: a, b: c"));
        assert_eq!(value.get("license").and_then(Value::as_text), Some("MIT"));
        assert_eq!(repaired, ["Use when: a, b: c"]);
    }

    #[test]
    fn several_lines_are_repaired_and_places_map_back() {
        let text = "a: b: c\nkeep: {x: 1}\nd: *e\nlast: [p] [q]\nend: 1\n";
        let repaired = compose(text).unwrap();
        let values: Vec<_> = repaired.values.iter().map(|range| &text[range.clone()]).collect();
        assert_eq!(values, ["b: c", "*e", "[p] [q]"]);
        let yaml::Kind::Map(entries) = &repaired.document.root.as_ref().unwrap().kind else { panic!() };
        for (key, _) in entries {
            assert_eq!(&text[repaired.original(&key.range)], key.text);
        }
        assert_eq!(&text[repaired.original(&entries[4].1.range)], "1");
    }

    #[test]
    fn what_is_not_a_one_line_value_is_left_alone() {
        for text in [
            "description: \"quoted\" and more\n",
            "description: one: two\n  three\n",
            "name:tight\ndescription: x\n",
            "metadata:\n\tkey: x\n",
            "a: \"open\nb: c\n",
        ] {
            assert!(compose(text).is_err(), "{text}");
        }
    }

    #[test]
    fn windows_lines_are_repaired_too() {
        let (value, _) = read("description: Use when: x\r\nlicense: MIT\r\n");
        assert_eq!(value.get("description").and_then(Value::as_text), Some("Use when: x"));
    }
}
