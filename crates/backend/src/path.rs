//! Checked paths: every path that the crate uses has this form.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use prowess_base::text::{MAX_START_CHARS, cut, is_unprintable};

use crate::BackendError;

/// The longest path that parses, in bytes.
pub const MAX_PATH_BYTES: usize = 4096;

/// The longest name of one component, in bytes, as in common file systems.
pub const MAX_NAME_BYTES: usize = 255;

/// A checked absolute path inside a [`Backend`](crate::Backend).
///
/// A path begins with `/` and separates its components with `/`. It has no empty, `.` or `..` component, no backslash
/// and no control character. [`VirtualPath::parse`] refuses other input instead of repairing it, because rules about
/// paths need one spelling per file. It accepts and drops one trailing slash.
///
/// Paths are ordered by component, so the files below a directory follow it directly, as in a sorted walk.
///
/// ```
/// use prowess_backend::VirtualPath;
///
/// let path = VirtualPath::parse("/skills/pdf/SKILL.md")?;
/// assert_eq!(path.name(), Some("SKILL.md"));
/// assert!(path.starts_with(&VirtualPath::parse("/skills")?));
/// assert!(VirtualPath::parse("/skills/../secrets").is_err());
/// # Ok::<(), prowess_backend::BackendError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct VirtualPath(Arc<str>);

/// Why a text is not a [`VirtualPath`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathProblem {
    /// It does not begin with `/`.
    #[error("it is not absolute; begin it with `/`")]
    NotAbsolute,
    /// It has two slashes in a row.
    #[error("it has an empty component; write single slashes")]
    EmptyComponent,
    /// A component is `.` or `..`.
    #[error("it has a `.` or `..` component; write the path without it")]
    DotComponent,
    /// It has a backslash, which some systems use as a separator.
    #[error("it has a backslash; use `/` as the separator")]
    Backslash,
    /// It has a NUL, a newline, an escape or another control character.
    #[error("it has a control character")]
    Control,
    /// It is not UTF-8.
    #[error("it is not valid UTF-8")]
    NotUnicode,
    /// The path is longer than [`MAX_PATH_BYTES`].
    #[error("it is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
    /// A component is longer than [`MAX_NAME_BYTES`].
    #[error("one of its names is longer than {MAX_NAME_BYTES} bytes")]
    NameTooLong,
}

impl VirtualPath {
    /// The root, `/`.
    #[must_use]
    pub fn root() -> Self {
        Self(Arc::from("/"))
    }

    /// Checks `text` and drops one trailing slash.
    ///
    /// # Errors
    ///
    /// [`BackendError::InvalidPath`] with the first [`PathProblem`].
    pub fn parse(text: &str) -> Result<Self, BackendError> {
        let invalid = |problem| BackendError::InvalidPath { text: debug_start(text), problem };
        if text.len() > MAX_PATH_BYTES {
            return Err(invalid(PathProblem::TooLong));
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(invalid(PathProblem::NotAbsolute));
        };
        if rest.is_empty() {
            return Ok(Self::root());
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        rest.split('/').try_for_each(check_name).map_err(invalid)?;
        Ok(Self(Arc::from(&text[..=rest.len()])))
    }

    /// Appends `relative`: one name, or several separated by `/`.
    ///
    /// # Errors
    ///
    /// [`BackendError::InvalidPath`] if `relative` is empty, absolute or not valid. The result is always below `self`.
    pub fn join(&self, relative: &str) -> Result<Self, BackendError> {
        if relative.is_empty() || relative.starts_with('/') {
            let problem = PathProblem::EmptyComponent;
            return Err(BackendError::InvalidPath { text: debug_start(relative), problem });
        }
        if self.is_root() {
            Self::parse(&format!("/{relative}"))
        } else {
            Self::parse(&format!("{self}/{relative}"))
        }
    }

    /// The directory that contains this path; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        match self.0.rfind('/') {
            Some(0) | None => Some(Self::root()),
            Some(slash) => Some(Self(Arc::from(&self.0[..slash]))),
        }
    }

    /// The last component; `None` for the root.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.components().next_back()
    }

    /// Whether this is `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        &*self.0 == "/"
    }

    /// The names from the root down. The root has none.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        // Only the root has an empty piece after the first slash.
        self.0[1..].split('/').filter(|name| !name.is_empty())
    }

    /// Whether this path is `base` or below it, by whole components: `/ab` does not start with `/a`.
    #[must_use]
    pub fn starts_with(&self, base: &Self) -> bool {
        self.strip_prefix(base).is_some()
    }

    /// The part of this path below `base`, without a leading slash. It is empty if both are the same, and `None` if
    /// this path is not below `base`.
    #[must_use]
    pub fn strip_prefix(&self, base: &Self) -> Option<&str> {
        if base.is_root() {
            return Some(&self.0[1..]);
        }
        let rest = self.0.strip_prefix(&*base.0)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    }

    /// This path as text. [`VirtualPath::parse`] accepts it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Puts `outer` before this path, as a mount does with its own paths.
    ///
    /// # Errors
    ///
    /// [`BackendError::InvalidPath`] if the result is too long.
    pub fn rebase(&self, outer: &Self) -> Result<Self, BackendError> {
        if self.is_root() { Ok(outer.clone()) } else { outer.join(&self.0[1..]) }
    }
}

fn check_name(name: &str) -> Result<(), PathProblem> {
    match name {
        "" => return Err(PathProblem::EmptyComponent),
        "." | ".." => return Err(PathProblem::DotComponent),
        _ if name.len() > MAX_NAME_BYTES => return Err(PathProblem::NameTooLong),
        _ => {}
    }
    if name.contains('\\') {
        Err(PathProblem::Backslash)
    } else if name.chars().any(char::is_control) {
        Err(PathProblem::Control)
    } else {
        Ok(())
    }
}

/// The beginning of a refused text for an error, escaped as `{:?}` escapes it, quotes and backslashes included. Invisible
/// characters that `{:?}` shows are escaped too.
pub(crate) fn debug_start(text: &str) -> String {
    let mut start = String::new();
    for c in cut(text, MAX_START_CHARS).chars() {
        let escaped = c.escape_debug();
        if is_unprintable(c) && escaped.len() == 1 {
            start.extend(c.escape_unicode());
        } else {
            start.extend(escaped);
        }
    }
    start
}

impl fmt::Display for VirtualPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for VirtualPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Ord for VirtualPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.components().cmp(other.components())
    }
}

impl PartialOrd for VirtualPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for VirtualPath {
    type Err = BackendError;

    fn from_str(text: &str) -> Result<Self, BackendError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for VirtualPath {
    type Error = BackendError;

    fn try_from(text: String) -> Result<Self, BackendError> {
        Self::parse(&text)
    }
}

impl From<VirtualPath> for String {
    fn from(path: VirtualPath) -> Self {
        path.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_no_invisible_character_and_nothing_that_debug_escapes() {
        for c in ('\0'..='\u{FFFF}').chain('\u{13000}'..='\u{1D200}').chain('\u{E0000}'..='\u{E1000}') {
            let shown = debug_start(c.encode_utf8(&mut [0; 4]));
            assert!(!shown.contains(is_unprintable), "{c:?}");
            if c.escape_debug().len() > 1 {
                assert!(shown.chars().eq(c.escape_debug()), "{c:?}: {shown}");
            }
        }
        assert_eq!(debug_start(&"\n".repeat(300)), format!("{}…", r"\n".repeat(MAX_START_CHARS)));
    }

    fn path(text: &str) -> VirtualPath {
        VirtualPath::parse(text).unwrap()
    }

    fn problem(text: &str) -> PathProblem {
        match VirtualPath::parse(text) {
            Err(BackendError::InvalidPath { problem, .. }) => problem,
            other => panic!("{text:?} gave {other:?}"),
        }
    }

    #[test]
    fn refuses_what_would_need_repair() {
        assert_eq!(problem(""), PathProblem::NotAbsolute);
        assert_eq!(problem("a"), PathProblem::NotAbsolute);
        assert_eq!(problem("//"), PathProblem::EmptyComponent);
        assert_eq!(problem("/a//b"), PathProblem::EmptyComponent);
        assert_eq!(problem("/a//"), PathProblem::EmptyComponent);
        assert_eq!(problem("/a/./b"), PathProblem::DotComponent);
        assert_eq!(problem("/.."), PathProblem::DotComponent);
        assert_eq!(problem("/a\\..\\b"), PathProblem::Backslash);
        assert_eq!(problem("/a\0"), PathProblem::Control);
        assert_eq!(problem("/a\nb"), PathProblem::Control);
        assert_eq!(problem("/a\u{9b}b"), PathProblem::Control);
    }

    #[test]
    fn bounds_are_exact() {
        assert!(VirtualPath::parse(&format!("/{}", "n".repeat(MAX_NAME_BYTES))).is_ok());
        assert_eq!(problem(&format!("/{}", "n".repeat(MAX_NAME_BYTES + 1))), PathProblem::NameTooLong);
        let long = "/n".repeat(MAX_PATH_BYTES / 2);
        assert_eq!(path(&long).as_str().len(), MAX_PATH_BYTES);
        assert_eq!(problem(&format!("{long}n")), PathProblem::TooLong);
    }

    #[test]
    fn takes_paths_apart() {
        let deep = path("/a/b/c/");
        assert_eq!(deep.as_str(), "/a/b/c");
        assert_eq!(deep.parent(), Some(path("/a/b")));
        assert_eq!(deep.name(), Some("c"));
        assert_eq!(path("/a").parent(), Some(VirtualPath::root()));
        assert_eq!(VirtualPath::root().parent(), None);
        assert_eq!(VirtualPath::root().name(), None);
        assert_eq!(deep.strip_prefix(&path("/a")), Some("b/c"));
        assert_eq!(deep.strip_prefix(&deep), Some(""));
        assert_eq!(deep.strip_prefix(&VirtualPath::root()), Some("a/b/c"));
        assert!(!path("/ab").starts_with(&path("/a")));
    }

    #[test]
    fn joins_only_downwards() {
        let base = path("/a");
        assert_eq!(base.join("b/c").unwrap(), path("/a/b/c"));
        assert_eq!(VirtualPath::root().join("b").unwrap(), path("/b"));
        for hostile in ["", "/b", "..", "b/../..", "."] {
            assert!(base.join(hostile).is_err(), "{hostile:?}");
        }
        assert_eq!(path("/b").rebase(&base).unwrap(), path("/a/b"));
        assert_eq!(VirtualPath::root().rebase(&base).unwrap(), base);
    }

    #[test]
    fn orders_a_directory_before_its_descendants_and_those_before_its_siblings() {
        let mut paths = ["/a-b", "/a/z", "/a", "/", "/a.txt"].map(path);
        paths.sort();
        assert_eq!(paths.map(String::from), ["/", "/a", "/a/z", "/a-b", "/a.txt"]);
    }

    #[test]
    fn an_error_shows_a_refused_text_on_one_short_line() {
        let message = VirtualPath::parse(&format!("x\n{}", "y".repeat(100_000))).unwrap_err().to_string();
        assert!(message.len() < 400 && !message.contains('\n'), "{message}");
    }
}
