//! A fast parser for frontmatter of plain `key: value` lines, which most frontmatter is.
//!
//! It leaves everything that it is not certain of to the YAML parser. A property test checks that both agree.

use std::ops::Range;

use granit_parser::ScalarStyle;

use crate::yaml::{Key, Node, YamlDocument};

/// A map with more keys is left to the YAML parser, which has an index for them.
const MAX_KEYS: usize = 24;

/// Composes `text`, if every line of it is plain.
pub(crate) fn compose(text: &str) -> Option<YamlDocument<'_>> {
    let mut entries = Vec::with_capacity(8);
    let mut lines = Lines { text, at: 0 };
    while let Some(line) = lines.peek() {
        if text[line.clone()].starts_with('#') && is_printable(text, &line) {
            lines.skip(&line);
            continue;
        }
        let (key, value) = split_line(text, line.clone(), 0)?;
        lines.skip(&line);
        let node = match value {
            Some(value) => match block_header(&text[value.clone()]) {
                Some(header) => block(text, header, &mut lines)?,
                None => scalar(text, value)?,
            },
            None => nested(text, &mut lines)?,
        };
        push(&mut entries, text, key, node)?;
    }
    let start = entries.first().map(|(key, _)| key.range.start)?;
    let root = Some(Node::map(start..text.len(), entries));
    Some(YamlDocument { root, duplicates: Vec::new(), nonportable: None, anchored: false })
}

/// A map of plain lines with the same indentation.
fn nested<'a>(text: &'a str, lines: &mut Lines<'a>) -> Option<Node<'a>> {
    let first = lines.peek()?;
    let indent = text[first.clone()].bytes().take_while(|&byte| byte == b' ').count();
    if indent == 0 {
        return None;
    }
    let mut entries = Vec::new();
    let start = first.start + indent;
    while let Some(line) = lines.peek() {
        if !text[line.clone()].starts_with(' ') {
            break;
        }
        let (key, value) = split_line(text, line.clone(), indent)?;
        lines.skip(&line);
        push(&mut entries, text, key, scalar(text, value?)?)?;
    }
    // The YAML parser counts a comment below to the map's range.
    let commented = lines.peek().is_some_and(|line| text[line].starts_with('#'));
    (!commented).then(|| Node::map(start..lines.at, entries))
}

fn push<'a>(
    entries: &mut Vec<(Key<'a>, Node<'a>)>,
    text: &'a str,
    key: Range<usize>,
    node: Node<'a>,
) -> Option<()> {
    let name = &text[key.clone()];
    if entries.len() >= MAX_KEYS || entries.iter().any(|(other, _)| other.text == name) {
        return None;
    }
    entries.push((Key { text: name.into(), range: key }, node));
    Some(())
}

/// The key of a line that begins after `indent` blanks, and its value if it has one.
fn split_line(text: &str, line: Range<usize>, indent: usize) -> Option<(Range<usize>, Option<Range<usize>>)> {
    let bytes = &text.as_bytes()[line.clone()];
    if bytes.len() <= indent || bytes[..indent].iter().any(|&byte| byte != b' ') {
        return None;
    }
    let length = bytes[indent..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        .count();
    // A key that begins with a hyphen could be a list item or a document mark.
    if length == 0 || length > 64 || bytes[indent] == b'-' || bytes.get(indent + length) != Some(&b':') {
        return None;
    }
    let key = line.start + indent..line.start + indent + length;
    let after = &bytes[indent + length + 1..];
    if after.is_empty() {
        return Some((key, None));
    }
    let blanks = after.iter().take_while(|&&byte| byte == b' ').count();
    if blanks == 0 || blanks == after.len() {
        return None;
    }
    Some((key.clone(), Some(key.end + 1 + blanks..line.end)))
}

/// How a block scalar joins its lines, and whether it ends with a line break.
#[derive(Clone, Copy)]
struct BlockHeader {
    folded: bool,
    clipped: bool,
}

fn block_header(value: &str) -> Option<BlockHeader> {
    match value {
        ">" => Some(BlockHeader { folded: true, clipped: true }),
        ">-" => Some(BlockHeader { folded: true, clipped: false }),
        "|" => Some(BlockHeader { folded: false, clipped: true }),
        "|-" => Some(BlockHeader { folded: false, clipped: false }),
        _ => None,
    }
}

/// A block scalar whose lines all have the same indentation, without empty lines.
fn block<'a>(text: &'a str, header: BlockHeader, lines: &mut Lines<'a>) -> Option<Node<'a>> {
    let first = lines.peek()?;
    let indent = text[first.clone()].bytes().take_while(|&byte| byte == b' ').count();
    if indent == 0 {
        return None;
    }
    let mut joined = String::new();
    while let Some(line) = lines.peek() {
        let bytes = &text.as_bytes()[line.clone()];
        if bytes.first().is_some_and(u8::is_ascii_alphanumeric) {
            break;
        }
        let (blanks, words) = bytes.split_at_checked(indent)?;
        let is_line =
            blanks.iter().all(|&byte| byte == b' ') && words.first().is_some_and(u8::is_ascii_graphic);
        // A last line without a line break would need other clipping.
        if !is_line || !is_printable(text, &line) || line.end == text.len() {
            return None;
        }
        if !joined.is_empty() {
            joined.push(if header.folded { ' ' } else { '\n' });
        }
        joined.push_str(&text[line.start + indent..line.end]);
        lines.skip(&line);
    }
    if header.clipped {
        joined.push('\n');
    }
    let style = if header.folded { ScalarStyle::Folded } else { ScalarStyle::Literal };
    Some(Node::scalar(first.start + indent..lines.at, joined.into(), style))
}

fn is_printable(text: &str, range: &Range<usize>) -> bool {
    text.as_bytes()[range.clone()].iter().all(|byte| (b' '..=b'~').contains(byte))
}

/// A one-line scalar: plain words, or quoted text without escapes.
fn scalar(text: &str, range: Range<usize>) -> Option<Node<'_>> {
    let value = &text.as_bytes()[range.clone()];
    if !is_printable(text, &range) {
        return None;
    }
    let (inner, style) = match value {
        [b'"', inner @ .., b'"'] if memchr::memchr2(b'"', b'\\', inner).is_none() => {
            (inner, ScalarStyle::DoubleQuoted)
        }
        [b'\'', inner @ .., b'\''] if memchr::memchr(b'\'', inner).is_none() => {
            (inner, ScalarStyle::SingleQuoted)
        }
        [first, .., last] if is_plain(*first, *last, value) => (value, ScalarStyle::Plain),
        [only] if only.is_ascii_alphanumeric() => (value, ScalarStyle::Plain),
        _ => return None,
    };
    let inner = std::str::from_utf8(inner).ok()?;
    Some(Node::scalar(range, inner.into(), style))
}

fn is_plain(first: u8, last: u8, value: &[u8]) -> bool {
    first.is_ascii_alphanumeric()
        && !matches!(last, b':' | b' ')
        && memchr::memchr2_iter(b':', b'#', value).all(|at| match value[at] {
            b':' => value[at + 1] != b' ',
            _ => value[at - 1] != b' ',
        })
}

/// The lines of a text, each with its range.
struct Lines<'a> {
    text: &'a str,
    at: usize,
}

impl Lines<'_> {
    fn peek(&self) -> Option<Range<usize>> {
        let rest = &self.text.as_bytes()[self.at..];
        if rest.is_empty() {
            return None;
        }
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        Some(self.at..self.at + length)
    }

    fn skip(&mut self, line: &Range<usize>) {
        self.at = (line.end + 1).min(self.text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;
    use proptest::prelude::*;

    fn agrees(text: &str) -> bool {
        let Some(fast) = compose(text) else { return false };
        let full = yaml::compose(text)
            .unwrap_or_else(|error| panic!("{text:?}: only the fast path reads it: {error:?}"));
        let (fast, full) = (fast.root.unwrap(), full.root.unwrap());
        assert_eq!(fast.to_value(), full.to_value(), "{text:?}");
        assert_eq!(fast.places(), full.places(), "{text:?}");
        true
    }

    #[test]
    fn plain_frontmatter_takes_the_fast_path() {
        assert!(agrees(
            "name: a\ndescription: Does x. Use at 07:45 on http://a.b/c#d.\nlicense: \"MIT: or\"\n"
        ));
        assert!(agrees(
            "name: a\nmetadata:\n  version: \"1.0\"\n  author: some one\nallowed-tools: Read Bash(git:*)\n"
        ));
        assert!(agrees("a: null\nb: 1.10\nc: true\nd: ''\n"));
        assert!(agrees("# about\nname: a\ndescription: >-\n  Does x,\n  and: #y.\nlicense: MIT\n# end\n"));
        assert!(agrees("a: |\n  one\n  two \nb: >\n    three\n"));
    }

    #[test]
    fn everything_else_is_left_to_the_parser() {
        for text in [
            "a: b: c\n",
            "a: b #c\n",
            "a: [b]\n",
            "a:\n",
            "a: b\n c\n",
            "a: b\n\nc: d\n",
            "a: b\na: c\n",
            "a: é\n",
            "a: b\r\n",
            "a: \"x\\n\"\n",
            "a:\n  - b\n",
            "a:\n  b:\n    c: d\n",
            "a: |\n  b",
            "a: |2\n  b\n",
            "a: |\n  b\n\n  c\n",
            "",
            "a: -\n",
            "a: b \n",
            "a:\n    b: c\n  d: e\n",
            "-a: b\n",
            "a: 'it''s'\n",
            "a: b:\n",
        ] {
            assert!(compose(text).is_none(), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn the_fast_path_agrees_with_the_parser(
            lines in prop::collection::vec(
                ("( {0,3})", "[a-z-]{1,3}", ":? ?", "[-a-zA-Z0-9 :#'\"&*!|>%@`~.,()<>{}\\[\\]\\\\é\t]{0,12}"), 0..6),
            end in "\n?",
        ) {
            let mut text = lines.iter().map(|(indent, key, colon, value)| format!("{indent}{key}{colon}{value}")).collect::<Vec<_>>().join("\n");
            text.push_str(&end);
            agrees(&text);
        }

        #[test]
        fn the_fast_path_agrees_on_blocks_and_comments(
            lines in prop::collection::vec(
                prop_oneof![
                    ("[a-z]{1,2}: (>|>-|\\||\\|-)", "( {1,3}[-a-z#: ]{0,6}\n){0,3}").prop_map(|(key, block)| format!("{key}\n{block}")),
                    "#[ a-z:]{0,5}\n",
                    ("[a-z]{1,2}:", "( {1,2}[a-z]{1,2}: [a-z]{1,3}\n){1,2}").prop_map(|(key, map)| format!("{key}\n{map}")),
                    "[a-z]{1,2}: [a-z#: ]{1,5}\n",
                ], 1..5),
            end in "\n?",
        ) {
            let text = lines.concat();
            agrees(text.trim_end_matches('\n'));
            agrees(&(text + &end));
        }

        #[test]
        fn the_fast_path_agrees_on_what_it_mostly_meets(
            lines in prop::collection::vec(("(  )?", "[a-z]{1,4}", "[a-zA-Z0-9:#'\". -]{0,16}"), 1..8),
        ) {
            let text: String = lines.iter().map(|(indent, key, value)| format!("{indent}{key}: {value}\n")).collect();
            agrees(&text);
        }
    }
}
