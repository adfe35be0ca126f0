//! Searches for files by a pattern of their paths.

use globset::{GlobBuilder, GlobMatcher};

use crate::cap::Cap;
use crate::path::debug_start;
use crate::{BackendError, Entry, Result};

/// The longest pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1024;

/// The most patterns that the braces of one pattern may expand to. `{a,b}{c,d}` expands to four.
pub const MAX_PATTERN_EXPANSIONS: usize = 256;

/// The default for how many files a search finds.
pub const DEFAULT_GLOB_RESULTS: usize = 10_000;

/// The default for how many entries a search visits.
pub const DEFAULT_GLOB_VISITED: usize = 1_000_000;

/// A checked pattern and the limits of the search.
///
/// The pattern must match the whole path below the base of the search. `*`, `?` and `[…]` stay within one name, `**`
/// spans directories, `{a,b}` means either, and `\` makes the next character literal. Names that begin with a dot match
/// like others.
///
/// ```
/// use prowess_backend::GlobQuery;
///
/// let markdown = GlobQuery::new("**/*.md")?;
/// assert!(markdown.matches("README.md") && markdown.matches("docs/a/b.md"));
/// assert!(!GlobQuery::new("*.md")?.matches("docs/a.md"));
/// assert_eq!(GlobQuery::new("../**").unwrap_err().code(), "invalid_pattern");
/// # Ok::<(), prowess_backend::BackendError>(())
/// ```
#[derive(Debug, Clone)]
pub struct GlobQuery {
    matcher: GlobMatcher,
    /// The names that every match begins with.
    literal_prefix: Vec<String>,
    /// The most names of a match; `None` if there is no limit.
    max_depth: Option<usize>,
    pub(crate) max_results: usize,
    pub(crate) max_visited: usize,
}

/// The files that a search found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GlobReport {
    /// The regular files that match, sorted by path, without directories and links.
    pub entries: Vec<Entry>,
    /// The directories that could not be listed, at most [`MAX_SKIPPED`]. The search continued without them.
    pub skipped: Vec<BackendError>,
    /// The cap that ended the search early, if any.
    pub stopped: Option<Cap>,
}

/// How many failures a report lists. This limits the memory that a search over a broken tree uses.
pub const MAX_SKIPPED: usize = 100;

impl GlobQuery {
    /// Checks and compiles `pattern`.
    ///
    /// # Errors
    ///
    /// [`BackendError::InvalidPattern`] if it is empty, absolute, has a `..`, does not parse, or is larger than
    /// [`MAX_PATTERN_BYTES`] or [`MAX_PATTERN_EXPANSIONS`].
    pub fn new(pattern: &str) -> Result<Self> {
        let invalid = |reason: &str| BackendError::InvalidPattern {
            pattern: debug_start(pattern),
            reason: reason.to_owned(),
        };
        if pattern.is_empty() {
            return Err(invalid("it is empty; use `**` for every file"));
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(invalid(&format!("it is longer than {MAX_PATTERN_BYTES} bytes")));
        }
        if pattern.starts_with('/') {
            return Err(invalid("it is absolute; write it relative to the directory to search"));
        }
        if pattern.split(['/', '{', ',', '}']).any(|name| matches!(name, "." | "..")) {
            return Err(invalid("it has a `.` or `..` component; search in that directory instead"));
        }
        if expansions(pattern) > MAX_PATTERN_EXPANSIONS {
            return Err(invalid(&format!(
                "its braces expand to more than {MAX_PATTERN_EXPANSIONS} patterns"
            )));
        }
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| invalid(&error.kind().to_string()))?;
        let names: Vec<&str> = pattern.split('/').collect();
        let is_literal = |name: &&&str| !name.contains(['*', '?', '[', ']', '{', '}', '\\']);
        Ok(Self {
            matcher: glob.compile_matcher(),
            // The last name belongs to the file, not to a directory.
            literal_prefix: names[..names.len() - 1]
                .iter()
                .take_while(is_literal)
                .map(|name| (*name).to_owned())
                .collect(),
            // Braces and classes can contain a slash, so the names cannot be counted then.
            max_depth: (!pattern.contains("**") && !pattern.contains(['{', '[', '\\']))
                .then_some(names.len()),
            max_results: DEFAULT_GLOB_RESULTS,
            max_visited: DEFAULT_GLOB_VISITED,
        })
    }

    /// Every file at any depth.
    pub(crate) fn everything() -> Result<Self> {
        Self::new("**")
    }

    /// Returns at most `files` results.
    #[must_use]
    pub fn max_results(self, files: usize) -> Self {
        Self { max_results: files, ..self }
    }

    /// Visits at most `entries` files and directories.
    #[must_use]
    pub fn max_visited(self, entries: usize) -> Self {
        Self { max_visited: entries, ..self }
    }

    /// The pattern as the caller wrote it.
    #[must_use]
    pub fn pattern(&self) -> &str {
        self.matcher.glob().glob()
    }

    /// Whether `relative` matches: a path below the base, without a leading slash.
    #[must_use]
    pub fn matches(&self, relative: &str) -> bool {
        self.matcher.is_match(relative)
    }

    /// Whether a path below the directory `relative` can match. If not, a walk skips the directory.
    #[must_use]
    pub fn may_match_below(&self, relative: &str) -> bool {
        let mut depth = 0;
        for (index, name) in relative.split('/').filter(|name| !name.is_empty()).enumerate() {
            depth = index + 1;
            if self.literal_prefix.get(index).is_some_and(|literal| literal != name) {
                return false;
            }
        }
        self.max_depth.is_none_or(|max| depth < max)
    }
}

/// The least number of brace-free patterns that `pattern` expands to. Alternatives in one group add up; neighbouring
/// groups multiply. The compiler refuses unbalanced braces.
fn expansions(pattern: &str) -> usize {
    // One level per open group: the number of complete alternatives, and that of the current one.
    let mut levels = vec![(0_usize, 1_usize)];
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => {
                chars.next();
            }
            '{' => levels.push((0, 1)),
            ',' if levels.len() > 1 => {
                if let Some((complete, current)) = levels.last_mut() {
                    *complete = complete.saturating_add(*current);
                    *current = 1;
                }
            }
            '}' if levels.len() > 1 => {
                if let (Some((complete, current)), Some((_, outer))) = (levels.pop(), levels.last_mut()) {
                    *outer = outer.saturating_mul(complete.saturating_add(current));
                }
            }
            _ => {}
        }
    }
    levels
        .iter()
        .fold(1, |product, (complete, current)| product.saturating_mul(complete.saturating_add(*current)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_braces_expand_to() {
        for (pattern, count) in [
            ("a", 1),
            ("{a,b}", 2),
            ("{a,b}{c,d}", 4),
            ("{a,{b,c}}", 3),
            ("{a,b{c,d}}", 3),
            ("\\{a,b", 1),
            ("a,b", 1),
        ] {
            assert_eq!(expansions(pattern), count, "{pattern}");
        }
        assert!(expansions(&"{a,b}".repeat(200)) > MAX_PATTERN_EXPANSIONS);
    }

    #[test]
    fn refuses_patterns_that_lead_elsewhere_or_explode() {
        let bomb = "{a,b}".repeat(9);
        let long = "a".repeat(MAX_PATTERN_BYTES + 1);
        for pattern in ["", "/etc/*", "../**", "a/../b", "a/{..,b}/c", "[", "{a", &bomb, &long] {
            assert!(GlobQuery::new(pattern).is_err(), "{pattern}");
        }
        assert!(GlobQuery::new(&"{a,b}".repeat(8)).is_ok());
        assert!(GlobQuery::new(&"a".repeat(MAX_PATTERN_BYTES)).is_ok());
    }

    #[test]
    fn prunes_only_what_cannot_match() {
        let query = GlobQuery::new("a/b/*.md").unwrap();
        assert!(query.may_match_below("") && query.may_match_below("a") && query.may_match_below("a/b"));
        assert!(
            !query.may_match_below("x") && !query.may_match_below("a/x") && !query.may_match_below("a/b/c")
        );
        let open = GlobQuery::new("a/**/x").unwrap();
        assert!(open.may_match_below("a/b/c/d") && !open.may_match_below("b"));
        let braces = GlobQuery::new("{a/b,c}/x").unwrap();
        assert!(braces.may_match_below("a/b"));
    }
}
