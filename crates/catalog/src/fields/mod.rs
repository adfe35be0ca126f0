//! The fields of the frontmatter: their types, limits and repairs.

mod description;
mod extensions;
mod name;
mod quote;
mod tools;

use std::ops::Range;
use std::sync::Arc;

pub use self::description::MAX_DESCRIPTION_CHARS;
use self::quote::quote;
use crate::diagnostic::{Added, Code, Findings};
use crate::frontmatter::MAX_FRONTMATTER;
use crate::repair::Repaired;
use crate::skill::{Extensions, Location, MissingName, Skill};
use crate::untrusted;
use crate::yaml::{Key, Kind, Node, Schema, Value};

/// The most characters that the specification allows in `compatibility`.
pub const MAX_COMPATIBILITY_CHARS: usize = 500;

/// The fields that the open specification defines.
pub const SPEC_FIELDS: [&str; 6] =
    ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// The fields that clients have added to the specification. prowess supports all of them.
pub const EXTENSION_FIELDS: [&str; 12] = [
    "disable-model-invocation",
    "user-invocable",
    "argument-hint",
    "arguments",
    "when_to_use",
    "model",
    "effort",
    "context",
    "agent",
    "hooks",
    "paths",
    "shell",
];

/// Reads the fields of composed frontmatter. `base` is the offset of `yaml` in the file.
pub(crate) fn read(
    yaml: &str,
    base: usize,
    repaired: &Repaired<'_>,
    location: &Location,
    missing_name: MissingName,
    findings: &mut Findings<'_>,
) -> Option<Skill> {
    let mut reader = Reader { yaml, base, repaired, findings };
    reader.report_document();
    let Some(Node { kind: Kind::Map(entries), .. }) = &repaired.document.root else {
        reader
            .findings
            .add(
                Code::NotAMapping,
                Some(base..base + yaml.trim_end().len()),
                "the frontmatter is not a map of fields",
            )
            .hint("write `name: …` and `description: …` on lines of their own");
        return None;
    };

    let entry = |key: &str| entries.iter().find(|(name, _)| name.text == key);
    let field = |key: &str| entry(key).map(|(_, node)| node);
    let mut extensions = None;
    let mut extra = Vec::new();
    for (key, node) in entries {
        if SPEC_FIELDS.contains(&&*key.text) {
            continue;
        }
        let known = EXTENSION_FIELDS.contains(&&*key.text);
        if known {
            reader.extension(&key.text, node, extensions.get_or_insert_default());
        }
        if !known {
            extra.push((key.text.to_string(), node.to_value()));
        }
        reader.report_unknown(&key.text, &key.range, known);
    }

    let first_key = entries.first().map(|(key, _)| key);
    let name = reader.name(entry("name"), first_key, location, missing_name);
    let description = reader.description(field("description"));
    let license = field("license").and_then(|node| reader.text(node, "license", Code::LicenseNotString));
    let compatibility = field("compatibility").and_then(|node| reader.compatibility(node));
    let metadata = field("metadata").map(|node| reader.metadata(node)).unwrap_or_default();
    let allowed_tools =
        entry("allowed-tools").map(|(key, node)| reader.allowed_tools(key, node)).unwrap_or_default();
    Some(Skill {
        name: name?,
        description: description?,
        license,
        compatibility,
        metadata,
        allowed_tools,
        extensions: extensions.map_or_else(Extensions::none, Arc::new),
        extra,
        location: location.clone(),
    })
}

struct Reader<'r, 'f, 's> {
    yaml: &'r str,
    base: usize,
    repaired: &'r Repaired<'r>,
    findings: &'f mut Findings<'s>,
}

impl Reader<'_, '_, '_> {
    /// Turns a range of the composed text into a range of the file.
    fn place(&self, range: &Range<usize>) -> Range<usize> {
        let range = self.repaired.original(range);
        self.base + range.start..self.base + range.end
    }

    /// The place of a node's text, without the line break that ends a block.
    fn written(&self, node: &Node<'_>) -> Range<usize> {
        let place = self.place(&node.range);
        let text = &self.yaml[place.start - self.base..place.end - self.base];
        place.start..place.start + text.trim_end_matches([' ', '\t', '\n', '\r']).len()
    }

    fn add(&mut self, code: Code, range: &Range<usize>, message: impl Into<String>) -> Added<'_> {
        let place = self.place(range);
        self.findings.add(code, Some(place), message)
    }

    /// Whether a value may be rewritten. It may not if another value may refer to it.
    fn rewritable(&self) -> bool {
        self.has_room() && !self.repaired.document.anchored
    }

    /// Whether the frontmatter is short enough for quoting, which turns one byte into six at worst.
    fn has_room(&self) -> bool {
        self.yaml.len() <= MAX_FRONTMATTER / 8
    }

    /// Whether another field can be inserted before `first`: only comments may be above it.
    fn takes_a_line_before(&self, first: Option<&Key<'_>>) -> bool {
        let above = first.and_then(|key| self.yaml.get(..self.repaired.original(&key.range).start));
        self.has_room()
            && above.is_some_and(|above| {
                let breaks = ['\n', '\r'];
                let mut lines = above.split(breaks);
                (above.is_empty() || above.ends_with(breaks))
                    && lines.all(|line| line.trim().is_empty() || line.starts_with('#'))
            })
    }

    /// The place after the colon of a key, if only a comment follows on its line.
    fn after_colon(&self, key: &Key<'_>) -> Option<usize> {
        let end = self.repaired.original(&key.range).end;
        let rest = self.yaml.get(end..)?.strip_prefix(':')?;
        let line = rest.split(['\n', '\r']).next().unwrap_or_default();
        let line = line.trim_start_matches([' ', '\t']);
        (line.is_empty() || line.starts_with('#')).then_some(self.base + end + 1)
    }

    /// The text of a node in the file.
    fn source(&self, node: &Node<'_>) -> &str {
        self.yaml.get(self.repaired.original(&node.range)).unwrap_or_default().trim_end()
    }

    fn report_document(&mut self) {
        for value in &self.repaired.values {
            let place = self.base + value.start..self.base + value.end;
            let has_room = self.has_room();
            self.findings
                .add(
                    Code::YamlRepaired,
                    Some(place.clone()),
                    "this value needs quotes to be YAML; prowess reads it as text",
                )
                .hint("put it in quotes")
                .fix_if(has_room, place, quote(&self.yaml[value.clone()]));
        }
        for key in &self.repaired.document.duplicates {
            let message =
                format!("`{}` appears twice; prowess uses the last one", untrusted::one_line(&key.text));
            self.add(Code::DuplicateKey, &key.range, message).hint("remove the other one");
        }
        if let Some(range) = &self.repaired.document.nonportable {
            self.add(Code::NonportableYaml, range, "some loaders refuse flow style, anchors and tags")
                .hint("write it in block style");
        }
    }

    fn report_unknown(&mut self, key: &str, range: &Range<usize>, known: bool) {
        let shown = untrusted::one_line(key).into_owned();
        let message = if known {
            format!(
                "`{shown}` is not a field of the specification; prowess uses it, but other clients may ignore it"
            )
        } else {
            format!("`{shown}` is not a field of the specification; it has no effect")
        };
        let added = self.add(Code::UnknownField, range, message);
        if !known {
            added.hint("move it into `metadata`");
        }
        if let (false, Some(meant)) = (known, similar_field(key)) {
            self.add(Code::DidYouMean, range, format!("did you mean `{meant}`?"));
        }
        if key == "hooks" {
            self.add(Code::DeclaresHooks, range, "the skill declares hooks, which run commands");
        }
    }

    /// Reads a field that must be text. Other scalars become text; lists and maps are reported and ignored.
    fn text(&mut self, node: &Node<'_>, field: &str, code: Code) -> Option<String> {
        match &node.kind {
            Kind::Scalar { schema: Schema::Null, .. } => None,
            Kind::Scalar { text, schema, .. } => {
                if *schema == Schema::Other {
                    let (rewritable, place) = (self.rewritable(), self.written(node));
                    self.add(
                        code,
                        &node.range,
                        format!("`{field}` is a number or a boolean; prowess uses its text"),
                    )
                    .hint("put it in quotes")
                    .fix_if(rewritable, place, quote(text));
                }
                Some(text.trim().to_owned())
            }
            Kind::List(_) | Kind::Map(_) => {
                self.add(code, &node.range, format!("`{field}` is a list or a map; prowess ignores it"))
                    .hint("write it as text");
                None
            }
        }
    }

    fn compatibility(&mut self, node: &Node<'_>) -> Option<String> {
        let text = self.text(node, "compatibility", Code::CompatibilityNotString)?;
        let count = text.chars().count();
        if count == 0 {
            self.add(Code::CompatibilityEmpty, &node.range, "`compatibility` is empty").hint("remove it");
            return None;
        }
        if count > MAX_COMPATIBILITY_CHARS {
            let message =
                format!("`compatibility` has {count} characters, {MAX_COMPATIBILITY_CHARS} are allowed");
            self.add(Code::CompatibilityTooLong, &node.range, message).hint("move the details to the body");
        }
        Some(text)
    }

    fn metadata(&mut self, node: &Node<'_>) -> Vec<(String, Value)> {
        match &node.kind {
            Kind::Scalar { schema: Schema::Null, .. } => Vec::new(),
            Kind::Map(entries) => {
                for (key, value) in entries {
                    if !matches!(value.kind, Kind::Scalar { .. }) {
                        let message = format!(
                            "`metadata.{}` is a list or a map, not text",
                            untrusted::one_line(&key.text)
                        );
                        self.add(Code::MetadataNonStringValue, &value.range, message)
                            .hint("write it as text");
                    }
                }
                // Metadata is a map of strings, so take the text of a scalar, whatever its YAML type.
                let text = |node: &Node<'_>| match &node.kind {
                    Kind::Scalar { text, .. } => Value::Text(text.to_string()),
                    Kind::List(_) | Kind::Map(_) => node.to_value(),
                };
                entries.iter().map(|(key, node)| (key.text.to_string(), text(node))).collect()
            }
            Kind::Scalar { .. } | Kind::List(_) => {
                self.add(Code::MetadataNotMap, &node.range, "`metadata` is not a map; prowess ignores it")
                    .hint("write `key: value` lines below it");
                Vec::new()
            }
        }
    }
}

/// The field that `key` misspells: by letter case, by `_` for `-`, or by one edit.
fn similar_field(key: &str) -> Option<&'static str> {
    let normal = |text: &str| text.to_ascii_lowercase().replace(['_', ' '], "-");
    let key = normal(key);
    SPEC_FIELDS.iter().chain(&EXTENSION_FIELDS).copied().find(|field| {
        normal(field) == key || (key.len() > 4 && key.len() < 40 && one_edit_apart(&normal(field), &key))
    })
}

fn one_edit_apart(a: &str, b: &str) -> bool {
    let (short, long) =
        if a.len() <= b.len() { (a.as_bytes(), b.as_bytes()) } else { (b.as_bytes(), a.as_bytes()) };
    let prefix = short.iter().zip(long).take_while(|(x, y)| x == y).count();
    match long.len() - short.len() {
        0 => short[prefix..].iter().skip(1).eq(long[prefix..].iter().skip(1)),
        1 => short[prefix..] == long[prefix + 1..],
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_fields_are_recognised() {
        assert_eq!(similar_field("Name"), Some("name"));
        assert_eq!(similar_field("allowed_tools"), Some("allowed-tools"));
        assert_eq!(similar_field("allowed-tool"), Some("allowed-tools"));
        assert_eq!(similar_field("descripton"), Some("description"));
        assert_eq!(similar_field("author"), None);
    }
}
