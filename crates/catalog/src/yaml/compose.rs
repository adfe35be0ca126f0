//! Composes YAML events into nodes, within limits.
//!
//! The limits are checked while composing, so that hostile input costs no more than honest input. An alias is copied only
//! within a budget of nodes and bytes. Nesting is limited, whether it is written out or reached through aliases.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StructureStyle, options};

use super::schema::schema_of;
use super::{Key, Kind, Node, YamlDocument, YamlError, parent};

/// How deep values may be nested.
const MAX_DEPTH: usize = 64;
/// The most nodes, counting copies of aliases.
const MAX_NODES: usize = 10_000;
/// The most bytes of scalar text, counting copies of aliases.
const MAX_TEXT: usize = 512 * 1024;

/// Composes the one YAML document in `text`.
pub(crate) fn compose(text: &str) -> Result<YamlDocument<'_>, YamlError> {
    // The parser takes a NUL for the end of its input, but other parsers would read on.
    if let Some(at) = text.find('\0') {
        return Err(YamlError::Syntax { at, message: "a NUL character".into() });
    }
    let options = options! { flow_nesting_limit: MAX_DEPTH, block_nesting_limit: MAX_DEPTH };
    let mut composer = Composer {
        text,
        parser: Parser::new_from_str_with_options(text, options),
        anchors: HashMap::new(),
        duplicates: Vec::new(),
        nonportable: None,
        nodes: 0,
        bytes: 0,
    };
    let root = composer.document()?;
    let Composer { duplicates, nonportable, anchors, .. } = composer;
    Ok(YamlDocument { root, duplicates, nonportable, anchored: !anchors.is_empty() })
}

struct Composer<'a> {
    text: &'a str,
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    anchors: HashMap<usize, Node<'a>>,
    duplicates: Vec<Key<'a>>,
    nonportable: Option<Range<usize>>,
    nodes: usize,
    bytes: usize,
}

impl<'a> Composer<'a> {
    fn document(&mut self) -> Result<Option<Node<'a>>, YamlError> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    let message = "a second YAML document".into();
                    return Err(YamlError::Syntax { at: start_of(&span), message });
                }
                Event::DocumentStart(..) => {}
                Event::StreamEnd => return Ok(root),
                event => root = Some(self.node(event, &span, 0)?),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.error(&error)),
            None => {
                let message = "the document ends too early".into();
                Err(YamlError::Syntax { at: self.text.len(), message })
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Node<'a>, YamlError> {
        let range = range_of(span);
        if depth > MAX_DEPTH {
            return Err(limit(range.start, format!("nesting deeper than {MAX_DEPTH} levels")));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.note_portability(&range, anchor, tag.is_some(), false);
                let schema = schema_of(&text, style, tag.as_deref(), range.is_empty());
                // The parser writes `~` for a missing value, whose own text is empty.
                let text =
                    if range.is_empty() && style == ScalarStyle::Plain { Cow::Borrowed("") } else { text };
                let bytes = text.len();
                let node =
                    Node { range, kind: Kind::Scalar { text, schema, style }, height: 0, nodes: 1, bytes };
                self.charge(1, bytes, node.range.start)?;
                Ok(self.remember(anchor, node))
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.note_portability(&range, anchor, tag.is_some(), style == StructureStyle::Flow);
                self.charge(1, 0, range.start)?;
                let mut items = Vec::new();
                let end = loop {
                    match self.next()? {
                        (Event::SequenceEnd, span) => break range_of(&span).end,
                        (event, span) => items.push(self.node(event, &span, depth + 1)?),
                    }
                };
                let node = parent(range.start..end, Kind::List(items));
                Ok(self.remember(anchor, node))
            }
            Event::MappingStart(style, anchor, tag) => {
                self.note_portability(&range, anchor, tag.is_some(), style == StructureStyle::Flow);
                self.charge(1, 0, range.start)?;
                let (entries, end) = self.mapping(depth)?;
                let node = parent(range.start..end, Kind::Map(entries));
                Ok(self.remember(anchor, node))
            }
            Event::Alias(anchor) => {
                self.note_portability(&range, anchor, false, false);
                let Some(node) = self.anchors.get(&anchor) else {
                    let message = "an alias inside the value that it names".into();
                    return Err(YamlError::Syntax { at: range.start, message });
                };
                let (nodes, bytes, height) = (node.nodes, node.bytes, node.height);
                if depth + height > MAX_DEPTH {
                    return Err(limit(range.start, format!("aliases nest deeper than {MAX_DEPTH} levels")));
                }
                // Charge before copying, so that the copy itself is bounded.
                self.charge(nodes, bytes, range.start)?;
                let mut copy = self.anchors[&anchor].clone();
                copy.range = range;
                Ok(copy)
            }
            event => {
                let message = format!("unexpected {event:?}");
                Err(YamlError::Syntax { at: range.start, message })
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<(Vec<(Key<'a>, Node<'a>)>, usize), YamlError> {
        let mut entries: Vec<(Key<'a>, Node<'a>)> = Vec::new();
        // Search small maps; build an index only for a large one.
        let mut index: HashMap<Cow<'a, str>, usize> = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok((entries, range_of(&span).end));
            }
            let key = self.node(event, &span, depth + 1)?;
            let key = Key { range: key.range.clone(), text: key_text(key) };
            let (event, span) = self.next()?;
            let value = self.node(event, &span, depth + 1)?;
            if entries.len() == INDEXED_MAP {
                index = entries.iter().enumerate().map(|(at, (key, _))| (key.text.clone(), at)).collect();
            }
            let earlier = if entries.len() < INDEXED_MAP {
                entries.iter().position(|(other, _)| other.text == key.text)
            } else {
                index.get(&key.text).copied()
            };
            match earlier {
                Some(at) => {
                    self.duplicates.push(key.clone());
                    entries[at] = (key, value);
                }
                None => {
                    if entries.len() >= INDEXED_MAP {
                        index.insert(key.text.clone(), entries.len());
                    }
                    entries.push((key, value));
                }
            }
        }
    }

    fn remember(&mut self, anchor: usize, node: Node<'a>) -> Node<'a> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        node
    }

    fn charge(&mut self, nodes: usize, bytes: usize, at: usize) -> Result<(), YamlError> {
        self.nodes += nodes;
        self.bytes += bytes;
        if self.nodes > MAX_NODES || self.bytes > MAX_TEXT {
            return Err(limit(
                at,
                format!("more than {MAX_NODES} values or {MAX_TEXT} bytes, with copies for aliases"),
            ));
        }
        Ok(())
    }

    fn note_portability(&mut self, range: &Range<usize>, anchor: usize, tagged: bool, flow: bool) {
        if self.nonportable.is_none() && (anchor != 0 || tagged || flow) {
            self.nonportable = Some(range.clone());
        }
    }

    fn error(&self, error: &ScanError) -> YamlError {
        let at = error.marker().byte_offset().unwrap_or(0).min(self.text.len());
        let message = error.info();
        match error.kind() {
            ErrorKind::RecursionLimitExceeded => limit(at, message),
            _ => YamlError::Syntax { at, message },
        }
    }
}

/// From how many keys on a map gets an index.
const INDEXED_MAP: usize = 32;

fn limit(at: usize, message: String) -> YamlError {
    YamlError::Limit { at, message }
}

fn start_of(span: &Span) -> usize {
    range_of(span).start
}

fn range_of(span: &Span) -> Range<usize> {
    span.byte_range().unwrap_or_default()
}

/// The text of a key. A key that is a list or a map is written on one line.
fn key_text(key: Node<'_>) -> Cow<'_, str> {
    fn write(node: &Node<'_>, out: &mut String) {
        match &node.kind {
            Kind::Scalar { text, .. } => out.push_str(text),
            Kind::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    write(item, out);
                }
                out.push(']');
            }
            Kind::Map(entries) => {
                out.push('{');
                for (at, (key, value)) in entries.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    // Writing to a String cannot fail.
                    let _ = write!(out, "{}: ", key.text);
                    write(value, out);
                }
                out.push('}');
            }
        }
    }
    match key.kind {
        Kind::Scalar { text, .. } => text,
        Kind::List(_) | Kind::Map(_) => {
            let mut text = String::new();
            write(&key, &mut text);
            text.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::Value;

    fn value(text: &str) -> Value {
        compose(text).unwrap().root.unwrap().to_value()
    }

    fn fails(text: &str) -> (usize, String) {
        match compose(text) {
            Err(YamlError::Syntax { at, message } | YamlError::Limit { at, message }) => (at, message),
            Ok(document) => panic!("{document:?}"),
        }
    }

    #[test]
    fn scalars_are_verbatim() {
        let map = value("a: 1.10\nb: 007\nc: yes\nd: ~\ne:\nf: 'it''s'\ng: |\n  two\n  lines\n");
        let text = |key| map.get(key).and_then(Value::as_text).unwrap().to_owned();
        assert_eq!(
            [text("a"), text("b"), text("c"), text("f"), text("g")],
            ["1.10", "007", "yes", "it's", "two\nlines\n"]
        );
        assert_eq!((map.get("d"), map.get("e")), (Some(&Value::Null), Some(&Value::Null)));
    }

    #[test]
    fn a_repeated_key_keeps_the_last_value_in_the_first_place() {
        let document = compose("a: 1\nb: 2\na: 3\n").unwrap();
        assert_eq!(document.duplicates.len(), 1);
        assert_eq!(document.duplicates[0].range, 10..11);
        let expected =
            vec![("a".to_owned(), Value::Text("3".into())), ("b".to_owned(), Value::Text("2".into()))];
        assert_eq!(document.root.unwrap().to_value(), Value::Map(expected));

        let many: String = (0..100).map(|at| format!("k{}: {at}\n", at % 50)).collect();
        let document = compose(&many).unwrap();
        assert_eq!(document.duplicates.len(), 50);
        assert_eq!(document.root.unwrap().to_value().get("k7").and_then(Value::as_text), Some("57"));
    }

    #[test]
    fn aliases_are_copied_within_a_budget() {
        assert_eq!(value("a: &x one\nb: *x\n").get("b").and_then(Value::as_text), Some("one"));
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..10 {
            let items = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        assert!(fails(&bomb).1.contains("with copies for aliases"));

        let mut tower = String::from("a0: &a0 [[[[[[[[[[x]]]]]]]]]]\n");
        for level in 1..100 {
            tower.push_str(&format!("a{level}: &a{level} [[[[[[[[[[*a{}]]]]]]]]]]\n", level - 1));
        }
        assert!(fails(&tower).1.contains("nest deeper"));

        let long = format!("a: &a {}\nb: [{}]\n", "y".repeat(10_000), vec!["*a"; 100].join(", "));
        assert!(fails(&long).1.contains("bytes"));
        assert!(fails("a: &a [*a]\n").1.contains("alias"));
    }

    #[test]
    fn deep_nesting_is_a_limit_and_a_nul_is_an_error() {
        assert!(matches!(compose(&"[".repeat(5000)), Err(YamlError::Limit { .. })));
        assert!(matches!(compose(&"- ".repeat(5000)), Err(YamlError::Limit { .. })));
        assert_eq!(fails("a: b\0c\n").0, 4);
    }

    #[test]
    fn keys_may_be_anything() {
        assert_eq!(value("? [a, b]\n: c\n").get("[a, b]").and_then(Value::as_text), Some("c"));
        assert_eq!(value("1: c\n").get("1").and_then(Value::as_text), Some("c"));
    }
}
