//! Splits a Markdown file into frontmatter and body. For files that are not skills, also parses the frontmatter.

use std::fmt;
use std::ops::Range;

use crate::repair;
use crate::yaml::{Kind, Node, Value, YamlError};

/// The most bytes of frontmatter. Real skills have under 4 KiB.
pub const MAX_FRONTMATTER: usize = 64 * 1024;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The ranges of a SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// Whether the file begins with a byte-order mark.
    pub(crate) bom: bool,
    /// The YAML between the delimiters.
    pub(crate) yaml: Range<usize>,
    /// Everything after the line of the closing delimiter.
    pub(crate) body: Range<usize>,
}

/// Why there is no frontmatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitError {
    /// The first line is not `---`.
    Missing,
    /// The file ends before a closing `---`.
    Unclosed,
    /// No closing `---` within [`MAX_FRONTMATTER`] bytes of the start.
    TooLong,
}

/// Splits `source`, which is a whole file, or its beginning if not `complete`. Delimiters are whole lines; blanks may follow
/// the dashes.
pub(crate) fn split(source: &[u8], complete: bool) -> Result<Split, SplitError> {
    let bom = source.starts_with(BOM);
    let start = if bom { BOM.len() } else { 0 };
    // If only the beginning was read, its end says nothing about the file.
    let cut_short = if complete { SplitError::Unclosed } else { SplitError::TooLong };
    let first = line_end(source, start);
    if !is_delimiter(&source[start..first]) {
        return Err(SplitError::Missing);
    }
    let yaml_start = after_break(source, first);
    let mut at = yaml_start;
    loop {
        if at >= source.len() {
            return Err(cut_short);
        }
        if at - start > MAX_FRONTMATTER {
            return Err(SplitError::TooLong);
        }
        let end = line_end(source, at);
        if source[at] == b'-' && is_delimiter(&source[at..end]) {
            if end == source.len() && !complete || end - start > MAX_FRONTMATTER {
                return Err(SplitError::TooLong);
            }
            let body = after_break(source, end)..source.len();
            return Ok(Split { bom, yaml: yaml_start..at, body });
        }
        at = after_break(source, end);
    }
}

fn is_delimiter(line: &[u8]) -> bool {
    line.strip_prefix(b"---").is_some_and(|rest| rest.iter().all(|byte| matches!(byte, b' ' | b'\t')))
}

/// The offset of the line break that ends the line at `from`, or the end.
fn line_end(source: &[u8], from: usize) -> usize {
    memchr::memchr2(b'\n', b'\r', &source[from..]).map_or(source.len(), |at| from + at)
}

/// The offset after the line break at `at`.
fn after_break(source: &[u8], at: usize) -> usize {
    match source.get(at) {
        Some(b'\r') if source.get(at + 1) == Some(&b'\n') => at + 2,
        Some(_) => at + 1,
        None => at,
    }
}

/// The frontmatter and the body of a Markdown file that is not a skill, such as the definition of a sub-agent.
///
/// The frontmatter of a [`Skill`](crate::Skill) is parsed by the same rules, but its fields are checked.
///
/// ```
/// use prowess_catalog::frontmatter::Frontmatter;
///
/// let file = Frontmatter::parse(b"---\ndescription: Reviews changes.\n---\nBe strict.\n")?;
/// assert_eq!(file.get("description").and_then(|value| value.as_text()), Some("Reviews changes."));
/// assert_eq!(file.body, "Be strict.\n");
/// # Ok::<(), prowess_catalog::frontmatter::FrontmatterError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frontmatter<'a> {
    /// The fields, in the order of the file.
    pub fields: Vec<(String, Value)>,
    /// Everything after the frontmatter.
    pub body: &'a str,
}

impl<'a> Frontmatter<'a> {
    /// Parses a whole file. Simple mistakes in the YAML are repaired.
    ///
    /// # Errors
    ///
    /// The file is not UTF-8, has no frontmatter, or its frontmatter is not a map of fields within the limits.
    pub fn parse(source: &'a [u8]) -> Result<Self, FrontmatterError> {
        let text = std::str::from_utf8(source).map_err(|_| FrontmatterError::NotText)?;
        let split = split(source, true).map_err(|error| match error {
            SplitError::Missing => FrontmatterError::Missing,
            SplitError::Unclosed => FrontmatterError::Unclosed,
            SplitError::TooLong => FrontmatterError::TooLong,
        })?;
        let repaired = repair::compose(&text[split.yaml]).map_err(|error| match error {
            YamlError::Syntax { message, .. } | YamlError::Limit { message, .. } => {
                FrontmatterError::Yaml(message)
            }
        })?;
        let Some(Node { kind: Kind::Map(entries), .. }) = &repaired.document.root else {
            return Err(FrontmatterError::NotAMap);
        };
        let fields = entries.iter().map(|(key, node)| (key.text.to_string(), node.to_value())).collect();
        Ok(Self { fields, body: &text[split.body] })
    }

    /// The value of a field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.fields.iter().find(|(name, _)| name == field).map(|(_, value)| value)
    }
}

/// Why a file has no frontmatter that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrontmatterError {
    /// The file is not UTF-8.
    NotText,
    /// The first line is not `---`.
    Missing,
    /// The file ends before a closing `---`.
    Unclosed,
    /// It is longer than [`MAX_FRONTMATTER`].
    TooLong,
    /// It is not YAML, or exceeds a limit.
    Yaml(String),
    /// It is not a map of fields.
    NotAMap,
}

impl fmt::Display for FrontmatterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotText => f.write_str("it is not valid UTF-8"),
            Self::Missing => f.write_str("it has no frontmatter: its first line must be `---`"),
            Self::Unclosed => f.write_str("its frontmatter has no end: add a line `---`"),
            Self::TooLong => write!(f, "its frontmatter is longer than {MAX_FRONTMATTER} bytes"),
            Self::Yaml(message) => write!(f, "its frontmatter cannot be read: {message}"),
            Self::NotAMap => f.write_str("its frontmatter is not a map of fields"),
        }
    }
}

impl std::error::Error for FrontmatterError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(source: &str) -> Result<(&str, &str), SplitError> {
        split(source.as_bytes(), true).map(|split| (&source[split.yaml], &source[split.body]))
    }

    #[test]
    fn delimiters_are_whole_lines() {
        assert_eq!(
            parts("---\na: b --- c\n--- x\n---\nbody\n---\n"),
            Ok(("a: b --- c\n--- x\n", "body\n---\n"))
        );
        assert_eq!(parts("--- \t\na: b\n---  \nx"), Ok(("a: b\n", "x")));
        assert_eq!(parts("----\na: b\n---\n"), Err(SplitError::Missing));
        assert_eq!(parts("---\na: b\n ---\n"), Err(SplitError::Unclosed));
    }

    #[test]
    fn every_line_ending_and_the_end_of_the_file_close_a_line() {
        assert_eq!(parts("---\r\na: b\r\n---\r\nbody"), Ok(("a: b\r\n", "body")));
        assert_eq!(parts("---\ra: b\r---\rbody"), Ok(("a: b\r", "body")));
        assert_eq!(parts("---\na: b\n---"), Ok(("a: b\n", "")));
        assert_eq!(parts("---\n---"), Ok(("", "")));
    }

    #[test]
    fn what_is_not_frontmatter_says_why() {
        assert_eq!(parts(""), Err(SplitError::Missing));
        assert_eq!(parts("\n---\na: b\n---\n"), Err(SplitError::Missing));
        assert_eq!(parts("---"), Err(SplitError::Unclosed));
        let long = format!("---\n{}", "a: b\n".repeat(MAX_FRONTMATTER / 5 + 2));
        assert_eq!(parts(&long), Err(SplitError::TooLong));
    }

    #[test]
    fn a_line_that_was_cut_off_is_no_delimiter() {
        assert_eq!(split(b"---\na: b\n---", false), Err(SplitError::TooLong));
        assert!(split(b"---\na: b\n---\n", false).is_ok());
        let blanks = format!("---{}\na: b\n---\n", " ".repeat(MAX_FRONTMATTER));
        assert_eq!(parts(&blanks), Err(SplitError::TooLong));
    }

    #[test]
    fn a_byte_order_mark_is_seen_and_skipped() {
        let split = split("\u{FEFF}---\na: b\n---\n".as_bytes(), true).unwrap();
        assert!(split.bom);
        assert_eq!(split.yaml, 7..12);
    }
}
