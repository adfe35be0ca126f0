//! Globs that select the files to collect.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::path::{escaped_name, expand};

/// The most globs in one request.
pub const MAX_GLOBS: usize = 100;
/// The longest glob, in bytes.
pub const MAX_GLOB_BYTES: usize = 1024;
/// The most alternatives that the braces of one glob can expand to.
pub const MAX_GLOB_ALTERNATIVES: u64 = 256;
/// How deep braces can be nested.
const MAX_NESTING: usize = 8;

/// Why a glob is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the glob `{glob}` is refused: {problem}")]
pub struct GlobError {
    /// The given glob, safe to print.
    pub glob: String,
    /// The problem.
    pub problem: GlobProblem,
}

/// A problem of a glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GlobProblem {
    /// It matches nothing.
    #[error("it is empty")]
    Empty,
    /// It begins at the root of a disk.
    #[error("it is absolute; globs are relative to the workspace, as in `out/*.txt` or `$OUTPUT_DIR/*.txt`")]
    Absolute,
    /// It has a `..`.
    #[error("it has a `..`; files are collected inside the workspace only")]
    Upwards,
    /// It is too long.
    #[error("it is longer than {MAX_GLOB_BYTES} bytes")]
    TooLong,
    /// Its braces expand to too many alternatives.
    #[error("its braces expand to more than {MAX_GLOB_ALTERNATIVES} alternatives, or are nested too deeply")]
    TooManyAlternatives,
    /// There are too many globs.
    #[error("there are more than {MAX_GLOBS} globs")]
    TooMany,
    /// It does not parse.
    #[error("{0}")]
    Syntax(String),
}

/// The glob that is matched against paths in the workspace: variables are replaced, and `./` and doubled slashes are
/// removed.
///
/// ```
/// use prowess_workspace::collect::normalize_glob;
///
/// assert_eq!(normalize_glob("$OUTPUT_DIR/**/*.txt")?, "out/**/*.txt");
/// assert_eq!(normalize_glob("$OUTPUT_DIRX/a")?, "$OUTPUT_DIRX/a");
/// assert!(normalize_glob("../**").is_err());
/// # Ok::<(), prowess_workspace::collect::GlobError>(())
/// ```
///
/// # Errors
///
/// It is empty, absolute or too long, or has a `..` or too many alternatives.
pub fn normalize_glob(glob: &str) -> Result<String, GlobError> {
    let refused = |problem| GlobError { glob: brief(glob), problem };
    if glob.len() > MAX_GLOB_BYTES {
        return Err(refused(GlobProblem::TooLong));
    }
    let expanded = expand(glob);
    if expanded.starts_with('/') {
        return Err(refused(GlobProblem::Absolute));
    }
    // Braces and escapes can hide a `..`, so each piece is checked.
    let pieces = |text: &str| text.split(['/', '{', '}', ',', '\\']).any(|piece| piece == "..");
    if pieces(&expanded) {
        return Err(refused(GlobProblem::Upwards));
    }
    if alternatives(&expanded) > MAX_GLOB_ALTERNATIVES {
        return Err(refused(GlobProblem::TooManyAlternatives));
    }
    let names: Vec<&str> = expanded.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.is_empty() {
        return Err(refused(GlobProblem::Empty));
    }
    Ok(names.join("/"))
}

/// A glob for a message, shortened.
fn brief(glob: &str) -> String {
    const SHOWN: usize = 80;
    let text = escaped_name(OsStr::new(glob));
    if text.chars().count() <= SHOWN {
        return text;
    }
    format!("{}…", text.chars().take(SHOWN).collect::<String>())
}

/// How many globs without braces a glob expands to.
fn alternatives(glob: &str) -> u64 {
    // For each open brace: the alternatives counted so far, and the product before it.
    let mut open: Vec<(u64, u64)> = Vec::new();
    let mut current = 1u64;
    for byte in glob.bytes() {
        match (byte, open.last_mut()) {
            (b'{', _) => {
                if open.len() == MAX_NESTING {
                    return u64::MAX;
                }
                open.push((0, current));
                current = 1;
            }
            (b',', Some((sum, _))) => {
                *sum = sum.saturating_add(current);
                current = 1;
            }
            (b'}', Some(&mut (sum, before))) => {
                current = before.saturating_mul(sum.saturating_add(current));
                open.pop();
            }
            _ => {}
        }
    }
    open.iter().fold(current, |product, (_, before)| product.saturating_mul(*before))
}

/// Compiled globs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Globs {
    set: GlobSet,
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    /// The literal names at its start.
    base: Vec<String>,
    /// How many names a match has, if it is fixed.
    depth: Option<usize>,
}

impl Globs {
    /// Checks and compiles globs.
    pub(crate) fn parse(globs: &[String]) -> Result<Self, GlobError> {
        if globs.len() > MAX_GLOBS {
            return Err(GlobError { glob: brief(&globs[MAX_GLOBS]), problem: GlobProblem::TooMany });
        }
        let mut set = GlobSetBuilder::new();
        let mut patterns = Vec::new();
        for glob in globs {
            let text = normalize_glob(glob)?;
            let syntax = |error: globset::Error| GlobError {
                glob: brief(glob),
                problem: GlobProblem::Syntax(error.kind().to_string()),
            };
            set.add(GlobBuilder::new(&text).literal_separator(true).build().map_err(syntax)?);
            patterns.push(Pattern::new(text));
        }
        let set = set.build().map_err(|error| GlobError {
            glob: error.glob().map(brief).unwrap_or_default(),
            problem: GlobProblem::Syntax(error.kind().to_string()),
        })?;
        Ok(Self { set, patterns })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The globs that match a file.
    pub(crate) fn matches(&self, path: &OsStr) -> Vec<usize> {
        self.set.matches(Path::new(path))
    }

    /// Whether a file below the directory `path` can match.
    pub(crate) fn may_be_below(&self, path: &OsStr) -> bool {
        let names: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
        self.patterns.iter().any(|pattern| {
            let agrees = pattern.base.iter().zip(&names).all(|(base, name)| base.as_bytes() == *name);
            agrees && pattern.depth.is_none_or(|depth| names.len() < depth)
        })
    }

    /// Whether a glob names something below `path` literally.
    pub(crate) fn leads_through(&self, path: &OsStr) -> bool {
        let names: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
        self.patterns.iter().any(|pattern| {
            pattern.base.len() >= names.len()
                && pattern.base.iter().zip(&names).all(|(base, name)| base.as_bytes() == *name)
        })
    }

    /// The texts of the globs, normalized.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(|pattern| pattern.text.as_str())
    }
}

impl Pattern {
    fn new(text: String) -> Self {
        let is_literal = |name: &&str| !name.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let names: Vec<&str> = text.split('/').collect();
        let mut base: Vec<String> =
            names.iter().copied().take_while(is_literal).map(ToOwned::to_owned).collect();
        if base.len() == names.len() {
            base.pop();
        }
        let is_counted = !text.contains("**") && !text.contains(['{', '[', '\\']);
        let depth = is_counted.then_some(names.len());
        Self { base, depth, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(list: &[&str]) -> Globs {
        Globs::parse(&list.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn one_star_stays_within_a_name_and_two_span_directories() {
        let flat = globs(&["out/*.txt"]);
        assert_eq!(flat.matches(OsStr::new("out/a.txt")), [0]);
        assert!(flat.matches(OsStr::new("out/b/a.txt")).is_empty());
        let deep = globs(&["work/x", "out/**"]);
        assert_eq!(deep.matches(OsStr::new("out/b/a.txt")), [1]);
        assert!(deep.matches(OsStr::new("outer/a.txt")).is_empty());
    }

    #[test]
    fn only_directories_that_can_match_are_entered() {
        let flat = globs(&["out/*.txt", "work/a/b.txt"]);
        for (path, expected) in [
            ("out", true),
            ("out/a", false),
            ("work", true),
            ("work/a", true),
            ("work/b", false),
            ("skills", false),
        ] {
            assert_eq!(flat.may_be_below(OsStr::new(path)), expected, "{path}");
        }
        assert!(globs(&["**/a"]).may_be_below(OsStr::new("skills/x/y")));
        assert!(globs(&["{out/a,work}/b"]).may_be_below(OsStr::new("out/a")));
    }

    #[test]
    fn braces_are_counted() {
        for (glob, expected) in [
            ("a", 1),
            ("{a,b}", 2),
            ("{a,b}{c,d}", 4),
            ("{a,{b,c}{d,e}}", 5),
            ("{{{{{{{{{a", u64::MAX),
            ("a,b}", 1),
        ] {
            assert_eq!(alternatives(glob), expected, "{glob}");
        }
    }
}
