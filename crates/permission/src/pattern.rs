//! Wildcard patterns, which rules and approvals compare with subjects.

mod matcher;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use matcher::Matcher;

/// The longest pattern with wildcards, in characters. Matching takes at most as many steps as the product of the lengths
/// of pattern and subject; this limits the pattern.
pub const MAX_WILDCARD_CHARS: usize = 4096;
/// The most wildcards in one pattern.
pub const MAX_WILDCARDS: usize = 64;

/// A text with wildcards that must match a whole subject.
///
/// `*` matches any number of characters, including `/` and line breaks; `?` matches exactly one. A space and `*` at the end
/// also match nothing, so `git status *` matches `git status`. A backslash makes a following `*`, `?` or `\` literal; any
/// other backslash matches itself. Letter case counts. There are no classes and no alternatives.
///
/// ```
/// use prowess_permission::Pattern;
///
/// let status = Pattern::parse("git status *").unwrap();
/// assert!(status.matches("git status") && status.matches("git status -s"));
/// assert!(!status.matches("git statusx"));
///
/// let odd = Pattern::literal("what?");
/// assert_eq!(odd.as_str(), r"what\?");
/// assert!(odd.matches("what?") && !odd.matches("whatx"));
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: Arc<str>,
    /// Rules are copied more often than they are parsed.
    matcher: Arc<Matcher>,
}

impl Pattern {
    /// Parses a pattern. Every text is a pattern, unless it exceeds [`MAX_WILDCARDS`] or [`MAX_WILDCARD_CHARS`].
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        // Count before compiling, which costs memory.
        let wildcards = text.bytes().filter(|byte| matches!(byte, b'*' | b'?')).count();
        let escaped = text.matches("\\*").count() + text.matches("\\?").count();
        if wildcards.saturating_sub(escaped) > MAX_WILDCARDS {
            return Err(PatternError::TooManyWildcards);
        }
        let pattern = Self::compile(text);
        if pattern.matcher.is_wild() && text.chars().count() > MAX_WILDCARD_CHARS {
            return Err(PatternError::TooLong { chars: text.chars().count() });
        }
        Ok(pattern)
    }

    /// The pattern that matches exactly `text`.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            if matches!(c, '*' | '?' | '\\') {
                escaped.push('\\');
            }
            escaped.push(c);
        }
        Self::compile(&escaped)
    }

    /// The pattern that matches everything.
    #[must_use]
    pub fn any() -> Self {
        Self::compile("*")
    }

    pub(crate) fn compile(text: &str) -> Self {
        Self { text: text.into(), matcher: Arc::new(Matcher::of(text)) }
    }

    /// Whether the pattern matches the whole `subject`. Does not allocate.
    #[must_use]
    pub fn matches(&self, subject: &str) -> bool {
        self.matcher.matches(subject)
    }

    /// The only subject that the pattern matches, if it has no wildcards.
    #[must_use]
    pub fn only_subject(&self) -> Option<&str> {
        match &*self.matcher {
            Matcher::Exact(text) => Some(text),
            Matcher::Any | Matcher::Wild { .. } => None,
        }
    }

    /// The pattern for subjects in lower case.
    pub(crate) fn to_lowercase(&self) -> Self {
        Self::compile(&self.text.to_lowercase())
    }

    /// The text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Replaces a leading `~` or `$HOME`, alone or before a `/`, with `home`. Wildcards in `home` have no meaning.
    #[must_use]
    pub fn expand_home(&self, home: &str) -> Self {
        let rest = self.text.strip_prefix("$HOME").or_else(|| self.text.strip_prefix('~'));
        match rest {
            Some("") => Self::literal(home),
            Some(rest) if rest.starts_with('/') => {
                let home = Self::literal(home.trim_end_matches('/'));
                Self::compile(&format!("{}{rest}", home.text))
            }
            _ => self.clone(),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pattern {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.text).finish()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        Self::parse(&text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text.as_ref().to_owned()
    }
}

/// A pattern that exceeds a limit, which keeps matching fast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// It has wildcards and is too long.
    #[error(
        "a pattern with wildcards may have at most {MAX_WILDCARD_CHARS} characters, but this one has {chars}; shorten it"
    )]
    TooLong {
        /// Its length in characters.
        chars: usize,
    },
    /// It has too many wildcards.
    #[error("a pattern may have at most {MAX_WILDCARDS} wildcards; use fewer")]
    TooManyWildcards,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, matching: &[&str], other: &[&str]) {
        let parsed = Pattern::parse(pattern).unwrap();
        for subject in matching {
            assert!(parsed.matches(subject), "`{pattern}` should match `{subject}`");
        }
        for subject in other {
            assert!(!parsed.matches(subject), "`{pattern}` should not match `{subject}`");
        }
    }

    #[test]
    fn wildcards() {
        check("*", &["", "a", "a/b\nc"], &[]);
        check("a*c", &["ac", "abc", "a/\n/c", "acc"], &["a", "acb", "xac"]);
        check("a?c", &["abc", "aéc", "a🦀c", "a\nc"], &["ac", "abbc", "aé\u{301}c"]);
        check("*a*b*", &["ab", "xaxbx", "aab"], &["ba", ""]);
        check("**?", &["a", "ab"], &[""]);
        check("", &[""], &["a"]);
    }

    #[test]
    fn a_trailing_space_and_star_may_be_missing() {
        check("git status *", &["git status", "git status ", "git status -s"], &["git statusx", "git statu"]);
        check("git * *", &["git status", "git status -s"], &["git", "gitx"]);
        check(r"echo \*", &["echo *"], &["echo", "echo x"]);
        check("ls **", &["ls", "ls -l"], &["lsx"]);
    }

    #[test]
    fn backslashes() {
        check(r"a\*", &["a*"], &["ab", r"a\*"]);
        check(r"a\?", &["a?"], &["ab"]);
        check(r"a\\*", &[r"a\", r"a\b"], &["ab", "a*"]);
        check(r"C:\new", &[r"C:\new"], &["C:new"]);
        check("end\\", &["end\\"], &["end"]);
    }

    #[test]
    fn home_is_expanded_only_in_front_and_literally() {
        let expand = |text: &str, home| Pattern::parse(text).unwrap().expand_home(home);
        assert_eq!(expand("~/x*", "/home/a").as_str(), "/home/a/x*");
        assert_eq!(expand("~", "/home/a").as_str(), "/home/a");
        assert_eq!(expand("$HOME/x", "/home/a/").as_str(), "/home/a/x");
        assert_eq!(expand("$HOME", "/home/a").as_str(), "/home/a");
        assert_eq!(expand("~/x", "/").as_str(), "/x");
        for other in ["~a/x", "$HOMES", "a~/x", "", "x"] {
            assert_eq!(expand(other, "/home/a").as_str(), other);
        }
        let odd = expand("~/*", "/home/*");
        assert!(odd.matches("/home/*/x") && !odd.matches("/home/b/x"));
    }

    #[test]
    fn only_wildcards_make_a_long_pattern_too_long() {
        assert!(Pattern::parse(&"a".repeat(1 << 20)).is_ok());
        let long = |chars: usize| format!("{}*", "a".repeat(chars - 1));
        assert!(Pattern::parse(&long(MAX_WILDCARD_CHARS)).is_ok());
        assert!(Pattern::parse(&long(MAX_WILDCARD_CHARS + 1)).is_err());
        assert!(Pattern::parse(&"a*".repeat(MAX_WILDCARDS)).is_ok());
        assert!(Pattern::parse(&"a*".repeat(MAX_WILDCARDS + 1)).is_err());
        let long = Pattern::literal(&"*".repeat(1 << 16));
        assert!(Pattern::parse(long.as_str()).is_ok(), "what is recorded can be read back");
    }

    #[test]
    fn a_hostile_pattern_is_done_in_the_product_of_the_lengths() {
        let pattern = Pattern::compile(&"*a".repeat(2000));
        assert!(!pattern.matches(&"b".repeat(10_000)));
        assert!(!pattern.matches(&format!("{}b", "a".repeat(10_000))));
        let pattern = Pattern::compile(&format!("*{}b*", "?".repeat(4_000)));
        assert!(!pattern.matches(&"a".repeat(1 << 20)));
    }
}
