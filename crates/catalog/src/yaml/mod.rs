//! The frontmatter as YAML nodes: scalars verbatim, keys in order, every node with its range in the text.

mod compose;
mod schema;

use std::borrow::Cow;
use std::ops::Range;

use granit_parser::ScalarStyle;

pub(crate) use compose::compose;
pub(crate) use schema::Schema;
use schema::schema_of;

/// A value of the frontmatter, as the author wrote it.
///
/// Scalars stay text: `1.10` stays `1.10`, `007` stays `007`, and `yes` is a word.
///
/// ```
/// use prowess_catalog::skill::Location;
/// use prowess_catalog::Skill;
///
/// let source = b"---\nname: greet\ndescription: Says hello.\nmetadata:\n  version: 1.10\n---\n";
/// let skill = Skill::parse(source, &Location::new("/skills/greet/SKILL.md")).skill.unwrap();
/// assert_eq!(skill.metadata[0].1.as_text(), Some("1.10"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The text of a scalar.
    Text(String),
    /// A scalar that YAML reads as null: `null`, `~` or nothing.
    Null,
    /// A list.
    List(Vec<Value>),
    /// A map, its keys in the order of the file.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// The text of a scalar.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// The value of `key`, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            Self::Text(_) | Self::Null | Self::List(_) => None,
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Null => serializer.serialize_none(),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, value))),
        }
    }
}

/// A node with its range in the YAML text.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) range: Range<usize>,
    pub(crate) kind: Kind<'a>,
    /// Levels of nesting below this node.
    height: usize,
    nodes: usize,
    bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind<'a> {
    Scalar { text: Cow<'a, str>, schema: Schema, style: ScalarStyle },
    List(Vec<Node<'a>>),
    Map(Vec<(Key<'a>, Node<'a>)>),
}

#[derive(Clone, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) range: Range<usize>,
}

impl Key<'_> {
    fn into_owned(self) -> Key<'static> {
        Key { text: Cow::Owned(self.text.into_owned()), range: self.range }
    }
}

impl<'a> Node<'a> {
    /// A scalar without anchor or tag.
    pub(crate) fn scalar(range: Range<usize>, text: Cow<'a, str>, style: ScalarStyle) -> Self {
        let schema = schema_of(&text, style, None, false);
        let bytes = text.len();
        Self { range, kind: Kind::Scalar { text, schema, style }, height: 0, nodes: 1, bytes }
    }

    /// A map of `entries`.
    pub(crate) fn map(range: Range<usize>, entries: Vec<(Key<'a>, Node<'a>)>) -> Self {
        parent(range, Kind::Map(entries))
    }

    /// The node with its own copy of the text.
    fn into_owned(self) -> Node<'static> {
        let kind = match self.kind {
            Kind::Scalar { text, schema, style } => {
                Kind::Scalar { text: Cow::Owned(text.into_owned()), schema, style }
            }
            Kind::List(items) => Kind::List(items.into_iter().map(Node::into_owned).collect()),
            Kind::Map(entries) => Kind::Map(
                entries.into_iter().map(|(key, node)| (key.into_owned(), node.into_owned())).collect(),
            ),
        };
        Node { range: self.range, kind, height: self.height, nodes: self.nodes, bytes: self.bytes }
    }

    /// The ranges of this node, its keys and all nodes below it.
    #[cfg(test)]
    pub(crate) fn places(&self) -> Vec<Range<usize>> {
        let below: Vec<_> = match &self.kind {
            Kind::Scalar { .. } => Vec::new(),
            Kind::List(items) => items.iter().flat_map(Node::places).collect(),
            Kind::Map(entries) => entries
                .iter()
                .flat_map(|(key, node)| [vec![key.range.clone()], node.places()].concat())
                .collect(),
        };
        [vec![self.range.clone()], below].concat()
    }

    pub(crate) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Scalar { schema: Schema::Null, .. } => Value::Null,
            Kind::Scalar { text, .. } => Value::Text(text.to_string()),
            Kind::List(items) => Value::List(items.iter().map(Node::to_value).collect()),
            Kind::Map(entries) => Value::Map(
                entries.iter().map(|(key, node)| (key.text.to_string(), node.to_value())).collect(),
            ),
        }
    }
}

/// The frontmatter as a node, with what the parser noticed.
#[derive(Debug)]
pub(crate) struct YamlDocument<'a> {
    /// The root node. `None` if the YAML document is empty.
    pub(crate) root: Option<Node<'a>>,
    /// Keys that appear twice in one map. The last one is used.
    pub(crate) duplicates: Vec<Key<'a>>,
    /// The first use of flow style, an anchor or a tag.
    pub(crate) nonportable: Option<Range<usize>>,
    /// Whether a value has an anchor, so that others may refer to it.
    pub(crate) anchored: bool,
}

impl YamlDocument<'_> {
    /// The YAML document with its own copy of the text.
    pub(crate) fn into_owned(self) -> YamlDocument<'static> {
        YamlDocument {
            root: self.root.map(Node::into_owned),
            duplicates: self.duplicates.into_iter().map(Key::into_owned).collect(),
            nonportable: self.nonportable,
            anchored: self.anchored,
        }
    }
}

/// Why a text is not a YAML document.
#[derive(Debug)]
pub(crate) enum YamlError {
    /// Not YAML.
    Syntax { at: usize, message: String },
    /// A limit was exceeded.
    Limit { at: usize, message: String },
}

fn parent(range: Range<usize>, kind: Kind<'_>) -> Node<'_> {
    let (mut height, mut nodes, mut bytes) = (0, 1, 0);
    let mut add = |child: &Node<'_>| {
        height = height.max(child.height + 1);
        nodes += child.nodes;
        bytes += child.bytes;
    };
    match &kind {
        Kind::List(items) => items.iter().for_each(&mut add),
        Kind::Map(entries) => entries.iter().for_each(|(_, value)| add(value)),
        Kind::Scalar { .. } => {}
    }
    Node { range, kind, height, nodes, bytes }
}
