//! Frontmatter with YAML's types, for passing it on as data.

use crate::frontmatter;
use crate::repair;
use crate::skill::Skill;
use crate::yaml::{self, Kind, Node, Schema};

/// A value of the frontmatter with its type in YAML 1.2 (core schema).
///
/// The catalog itself keeps scalars as written ([`Value`](crate::yaml::Value)). Use this to compare with other YAML parsers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TypedValue {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other finite number.
    Float(f64),
    /// Text, and numbers that data formats do not have, such as `.inf`.
    Text(String),
    /// A list.
    List(Vec<TypedValue>),
    /// A map, its keys in the order of the file.
    Map(Vec<(String, TypedValue)>),
}

impl Skill {
    /// The whole frontmatter of a SKILL.md, as any YAML parser reads it. `None` if it is not a map without repeated keys.
    /// This repairs nothing, so that the result can be compared. [`Skill::typed_frontmatter`] reads it as the catalog does.
    ///
    /// ```
    /// use prowess_catalog::typed_value::TypedValue;
    /// use prowess_catalog::Skill;
    ///
    /// let source = b"---\nname: greet\nmetadata:\n  version: 1.0\n  tag: '1.0'\n---\nWave.\n";
    /// let Some(TypedValue::Map(fields)) = Skill::frontmatter(source) else { unreachable!() };
    /// let versions = vec![("version".into(), TypedValue::Float(1.0)), ("tag".into(), TypedValue::Text("1.0".into()))];
    /// assert_eq!(fields[1], ("metadata".into(), TypedValue::Map(versions)));
    /// ```
    pub fn frontmatter(source: &[u8]) -> Option<TypedValue> {
        let text = std::str::from_utf8(source).ok()?;
        let split = frontmatter::split(source, true).ok()?;
        let document = yaml::compose(&text[split.yaml]).ok()?;
        let root = document.root.filter(|_| document.duplicates.is_empty())?;
        Some(typed(&root)).filter(|typed| matches!(typed, TypedValue::Map(_)))
    }

    /// The whole frontmatter of a SKILL.md, as the catalog reads it. `None` if it is not a map. A value that needs quotes to be
    /// YAML is text; all others keep their types. If a key is repeated, the last value counts.
    ///
    /// ```
    /// use prowess_catalog::typed_value::TypedValue;
    /// use prowess_catalog::Skill;
    ///
    /// let source = b"---\ndescription: Use when: tests fail\nmetadata:\n  retries: 3\n---\nTry again.\n";
    /// assert_eq!(Skill::frontmatter(source), None, "it is not YAML");
    /// let Some(TypedValue::Map(fields)) = Skill::typed_frontmatter(source) else { unreachable!() };
    /// assert_eq!(fields[0].1, TypedValue::Text("Use when: tests fail".into()));
    /// assert_eq!(fields[1].1, TypedValue::Map(vec![("retries".into(), TypedValue::Integer(3))]));
    /// ```
    pub fn typed_frontmatter(source: &[u8]) -> Option<TypedValue> {
        let text = std::str::from_utf8(source).ok()?;
        let split = frontmatter::split(source, true).ok()?;
        let repaired = repair::compose(&text[split.yaml]).ok()?;
        Some(typed(repaired.document.root.as_ref()?)).filter(|typed| matches!(typed, TypedValue::Map(_)))
    }
}

fn typed(node: &Node<'_>) -> TypedValue {
    match &node.kind {
        Kind::Scalar { schema: Schema::Null, .. } => TypedValue::Null,
        Kind::Scalar { schema: Schema::String, text, .. } => TypedValue::Text(text.to_string()),
        Kind::Scalar { schema: Schema::Other, text, .. } => scalar(text),
        Kind::List(items) => TypedValue::List(items.iter().map(typed).collect()),
        Kind::Map(entries) => {
            TypedValue::Map(entries.iter().map(|(key, node)| (key.text.to_string(), typed(node))).collect())
        }
    }
}

fn scalar(text: &str) -> TypedValue {
    let radix = |prefix: &str, radix| {
        text.strip_prefix(prefix).and_then(|digits| i64::from_str_radix(digits, radix).ok())
    };
    match text {
        "true" | "True" | "TRUE" => return TypedValue::Bool(true),
        "false" | "False" | "FALSE" => return TypedValue::Bool(false),
        _ => {}
    }
    if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)).or_else(|| text.parse().ok()) {
        return TypedValue::Integer(number);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => TypedValue::Float(number),
        _ => TypedValue::Text(text.to_string()),
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for TypedValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_none(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> TypedValue {
        let source = format!("---\nvalue: {value}\n---\n");
        let Some(TypedValue::Map(mut fields)) = Skill::frontmatter(source.as_bytes()) else {
            return TypedValue::Null;
        };
        fields.remove(0).1
    }

    #[test]
    fn scalars_have_the_types_of_the_core_schema() {
        let text = |text: &str| TypedValue::Text(text.to_owned());
        assert_eq!(of("yes"), text("yes"));
        assert_eq!(of("True"), TypedValue::Bool(true));
        assert_eq!(of("'true'"), text("true"));
        assert_eq!(of("007"), TypedValue::Integer(7));
        assert_eq!(of("0x1F"), TypedValue::Integer(31));
        assert_eq!(of("0o17"), TypedValue::Integer(15));
        assert_eq!(of("+12"), TypedValue::Integer(12));
        assert_eq!(of("1.10"), TypedValue::Float(1.1));
        assert_eq!(of("1e3"), TypedValue::Float(1000.0));
        assert_eq!(of(".inf"), text(".inf"));
        assert_eq!(of("2024-01-01"), text("2024-01-01"));
        assert_eq!(of("~"), TypedValue::Null);
        assert_eq!(of("[1, a]"), TypedValue::List(vec![TypedValue::Integer(1), text("a")]));
        assert_eq!(of("99999999999999999999"), TypedValue::Float(1e20));
    }

    #[test]
    fn what_is_no_map_or_has_a_key_twice_is_none() {
        for source in ["", "no", "---\n- a\n---\n", "---\na: 1\na: 2\n---\n", "---\na: b: c\n---\n"] {
            assert_eq!(Skill::frontmatter(source.as_bytes()), None, "{source}");
        }
    }

    fn fields(yaml: &str) -> Vec<(String, TypedValue)> {
        match Skill::typed_frontmatter(format!("---\n{yaml}---\nBody.\n").as_bytes()) {
            Some(TypedValue::Map(fields)) => fields,
            other => panic!("{yaml}: {other:?}"),
        }
    }

    const METADATA: &str = "metadata:\n  count: 3\n  ratio: 1.50\n  on: true\n  off: null\n  word: yes\n  \
        quoted: '3'\n  list: [1, a, {b: false}]\n  map:\n    deep: 0x1F\n    items:\n    - 2\n    - ~\n";

    #[test]
    fn metadata_keeps_its_types_when_another_value_is_repaired() {
        let sound = fields(&format!("name: a\ndescription: 'Use when: b'\n{METADATA}license: 'c: d'\n"));
        assert_eq!(
            Skill::frontmatter(
                format!("---\nname: a\ndescription: 'Use when: b'\n{METADATA}license: 'c: d'\n---\n")
                    .as_bytes()
            ),
            Some(TypedValue::Map(sound.clone())),
            "where nothing is repaired both read the same"
        );
        let TypedValue::Map(metadata) = &sound[2].1 else { panic!("{sound:?}") };
        assert_eq!(metadata[0], ("count".to_owned(), TypedValue::Integer(3)));
        for repaired in [
            format!("name: a\ndescription: Use when: b\n{METADATA}license: c: d\n"),
            format!(
                "name: a\r\ndescription: Use when: b\r\n{}license: c: d\r\n",
                METADATA.replace('\n', "\r\n")
            ),
        ] {
            assert_eq!(fields(&repaired), sound, "{repaired}");
        }
        let marked =
            format!("\u{FEFF}---\nname: a\ndescription: 'Use when: b'\n{METADATA}license: c: d\n---\n");
        assert_eq!(Skill::typed_frontmatter(marked.as_bytes()), Some(TypedValue::Map(sound)));
    }

    #[test]
    fn of_a_repeated_key_the_last_value_counts() {
        assert_eq!(fields("a: 1\nb: x: y\na: true\n")[0], ("a".to_owned(), TypedValue::Bool(true)));
        for source in ["", "no", "---\n- a\n---\n", "---\na: \"open\n---\n", "---\ntext\n---\n"] {
            assert_eq!(Skill::typed_frontmatter(source.as_bytes()), None, "{source}");
        }
    }
}
