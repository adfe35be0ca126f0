//! Diagnostics: what was found, where, how severe it is, and what to do about it.

mod code;
mod findings;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use code::{Code, CodeClass};
pub use findings::MAX_FINDINGS;
pub(crate) use findings::{Added, Findings};

/// How a diagnostic affects loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Severity {
    /// For information only.
    Info,
    /// The skill is loaded, but perhaps not as its author meant it.
    Warning,
    /// The skill or directory is skipped.
    Error,
}

impl Severity {
    /// The lowercase word for this severity.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A place in a file: a range of bytes, and the line and column for people.
///
/// ```
/// use prowess_catalog::Span;
///
/// let span = Span::locate("---\nname: größe\n".as_bytes(), 10..17);
/// assert_eq!((span.line, span.column), (2, 7));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Span {
    /// The span of `range` in `source`. Ranges that do not fit are clamped.
    pub fn locate(source: &[u8], range: Range<usize>) -> Self {
        let start = range.start.min(source.len());
        let before = &source[..start];
        let line_start = memchr::memrchr2(b'\n', b'\r', before).map_or(0, |at| at + 1);
        let breaks = memchr::memchr2_iter(b'\n', b'\r', before)
            .filter(|&at| source[at] == b'\n' || source.get(at + 1) != Some(&b'\n'))
            .count();
        let column = source[line_start..start].iter().filter(|&&byte| byte & 0xC0 != 0x80).count() + 1;
        Self { start, end: range.end.clamp(start, source.len()), line: breaks + 1, column }
    }
}

/// A replacement that removes a diagnostic. It is safe to apply without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Fix {
    /// The first byte to replace.
    pub start: usize,
    /// One past the last byte to replace.
    pub end: usize,
    /// The new text.
    pub replacement: String,
}

/// One finding about a skill or a root.
///
/// ```
/// use prowess_catalog::{Code, Diagnostic};
///
/// let found = Diagnostic::new(Code::DescriptionMissing, "greet/SKILL.md", "there is no description")
///     .hint("say what the skill does and when to use it");
/// assert_eq!(
///     found.to_string(),
///     "greet/SKILL.md: error [description-missing] there is no description \
///      (say what the skill does and when to use it)"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Diagnostic {
    /// The code of the rule.
    pub code: Code,
    /// How it affects loading.
    pub severity: Severity,
    /// The file or directory.
    pub file: Arc<str>,
    /// The place in the file, if the diagnostic has one.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub span: Option<Span>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub hint: Option<String>,
    /// The fix, if there is one obvious fix.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub fix: Option<Fix>,
}

impl Diagnostic {
    /// A diagnostic about `file` as a whole, with the code's default severity.
    pub fn new(code: Code, file: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            file: file.into(),
            span: None,
            message: message.into(),
            hint: None,
            fix: None,
        }
    }

    /// The diagnostic with this hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(span) = &self.span {
            write!(f, ":{}:{}", span.line, span.column)?;
        }
        write!(f, ": {} [{}] {}", self.severity.as_str(), self.code, self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_count_lines_of_every_ending_and_columns_in_characters() {
        let source = "a\r\nb\rcé x\n".as_bytes();
        let at = source.iter().position(|&byte| byte == b'x').unwrap();
        assert_eq!(Span::locate(source, at..at + 1), Span { start: at, end: at + 1, line: 3, column: 4 });
        assert_eq!(Span::locate(source, 99..120).line, 4);
    }
}
