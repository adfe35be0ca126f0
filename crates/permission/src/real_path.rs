//! Where a file really is: the one form of a path that rules and requests are compared in.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The most links on the way to one file, as in the kernel.
const MAX_LINKS: usize = 40;

/// A file as a question names it: its real path, and the other names that it was reached by.
///
/// The real path is absolute and has no links in it. A file that does not exist yet has the real path of its nearest
/// existing parent, and its own name below that.
///
/// ```
/// use prowess_permission::{Kind, RealPath, Question};
///
/// # let scratch = tempfile::tempdir()?;
/// # let scratch = prowess_permission::real_path::real_path(scratch.path());
/// std::fs::create_dir(scratch.join("private"))?;
/// std::os::unix::fs::symlink("private", scratch.join("alias"))?;
/// let place = RealPath::find(&scratch.join("alias/new.txt"));
/// assert_eq!(place.real(), scratch.join("private/new.txt").to_string_lossy());
/// assert_eq!(Question::about_place(Kind::READ, place.clone()).subjects, [place.real()]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealPath {
    real: String,
    /// The absolute path with the links that it was reached through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spelled: Option<String>,
    /// Its paths in the store of files that it was reached through, first the one that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inside: Vec<String>,
    /// Whether its path leads to it in other letters as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ignores_case: bool,
    /// Whether the real path is exactly this text: a name that is no UTF-8 is not.
    is_exact: bool,
}

impl RealPath {
    /// Looks where an absolute path of this machine leads. Blocks for as long as the file system takes.
    #[must_use]
    pub fn find(path: &Path) -> Self {
        let real = real_path(path);
        let ignores_case = ignores_case(&real);
        Self::known(&real, path, ignores_case)
    }

    /// A place on this machine that somebody else has looked at.
    #[must_use]
    pub fn known(real: &Path, spelled: &Path, ignores_case: bool) -> Self {
        let is_exact = real.to_str().is_some();
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let spelled = Some(text(spelled)).filter(|spelled| *spelled != text(real));
        Self { real: text(real), spelled, inside: Vec::new(), ignores_case, is_exact }
    }

    /// A file that is not on a disk of this machine: its path in its store is all there is.
    #[must_use]
    pub fn elsewhere(path: impl Into<String>) -> Self {
        Self { real: path.into(), spelled: None, inside: Vec::new(), ignores_case: false, is_exact: true }
    }

    /// The same place with its paths in the store that it was reached through. A rule that was written in code for such
    /// a path, and begins with `/`, can ask about the file or deny it.
    #[must_use]
    pub fn inside(mut self, paths: impl IntoIterator<Item = String>) -> Self {
        for path in paths {
            if path != self.real && !self.inside.contains(&path) {
                self.inside.push(path);
            }
        }
        self
    }

    /// The real path.
    #[must_use]
    pub fn real(&self) -> &str {
        &self.real
    }

    /// Its real path, and the path with links that it was reached by.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.real.as_str()).chain(self.spelled.as_deref())
    }

    /// What whoever asked calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inside.first().or(self.spelled.as_ref()).unwrap_or(&self.real)
    }

    /// Whether its path leads to it in other letters as well.
    #[must_use]
    pub fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    pub(crate) fn spelled(&self) -> Option<&str> {
        self.spelled.as_deref()
    }

    pub(crate) fn paths_inside(&self) -> &[String] {
        &self.inside
    }

    /// Whether the real path is exactly that text: a name that is no UTF-8 is not.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }
}

/// Where an absolute path leads, links followed. What does not exist, or cannot be looked at, stays as it is spelled.
///
/// ```
/// use std::path::Path;
///
/// assert_eq!(prowess_permission::real_path::real_path(Path::new("/no/such/file")), Path::new("/no/such/file"));
/// ```
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    let mut real = PathBuf::from("/");
    let mut pending: VecDeque<OsString> = parts(path).collect();
    let mut links = 0;
    while let Some(part) = pending.pop_front() {
        if part == ".." {
            real.pop();
            continue;
        }
        real.push(&part);
        if links == MAX_LINKS {
            continue;
        }
        // Of a link that leads nowhere, too: what is written through it is written there.
        if let Ok(target) = std::fs::read_link(&real) {
            links += 1;
            real.pop();
            if target.is_absolute() {
                real = PathBuf::from("/");
            }
            for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                pending.push_front(part);
            }
        }
    }
    real
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Whether a real path has a part that leads to the same file in other letters: a file system there ignores case.
///
/// Each part that exists is looked up with the case of all its letters turned. The same device and inode under both
/// names are the same file. Two hard links whose names differ in case alone are taken for that as well, which makes
/// rules stricter and never weaker.
///
/// ```
/// use std::path::Path;
///
/// assert!(!prowess_permission::real_path::ignores_case(Path::new("/1")), "there are no letters");
/// ```
#[must_use]
pub fn ignores_case(real: &Path) -> bool {
    real.ancestors().any(|part| {
        let Some(turned) = part.file_name().and_then(turned) else { return false };
        match (identity(part), identity(&part.with_file_name(turned))) {
            (Some(one), Some(other)) => one == other,
            _ => false,
        }
    })
}

/// Whether the letter case of a name can tell something: it is text, and there are other letters for it.
///
/// ```
/// use std::ffi::OsStr;
///
/// use prowess_permission::real_path::has_case;
///
/// assert!(has_case(OsStr::new("Notes")) && !has_case(OsStr::new("2026")));
/// ```
#[must_use]
pub fn has_case(name: &OsStr) -> bool {
    turned(name).is_some()
}

/// A name with small letters for large ones and the other way round, if that makes another name.
fn turned(name: &OsStr) -> Option<String> {
    let name = name.to_str()?;
    let turn = |c: char| -> String {
        if c.is_lowercase() { c.to_uppercase().collect() } else { c.to_lowercase().collect() }
    };
    let turned: String = name.chars().map(turn).collect();
    (turned != name).then_some(turned)
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Without inodes, whatever exists in other letters as well is taken for the same file.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|_| (0, 0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_also_to_what_is_not_there_yet() {
        let scratch = tempfile::tempdir().unwrap();
        let base = real_path(scratch.path());
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        symlink("a/b", base.join("relative")).unwrap();
        symlink(base.join("a"), base.join("absolute")).unwrap();
        symlink("a/new", base.join("dangling")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        for (given, expected) in [
            ("a/b/c", "a/b/c"),
            ("relative/c/d", "a/b/c/d"),
            ("relative/../x", "a/x"),
            ("absolute/./b//c", "a/b/c"),
            ("dangling", "a/new"),
            ("missing/../relative", "a/b"),
        ] {
            assert_eq!(real_path(&base.join(given)), base.join(expected), "{given}");
        }
        assert!(real_path(&base.join("loop/x")).starts_with(&base));
        assert_eq!(real_path(Path::new("/../..")), Path::new("/"));
    }

    #[test]
    fn case_counts_where_other_letters_are_another_file() {
        let scratch = tempfile::tempdir().unwrap();
        let base = real_path(scratch.path());
        std::fs::write(base.join("one"), "").unwrap();
        assert!(!ignores_case(&base.join("one")));
        std::fs::write(base.join("ONE"), "").unwrap();
        assert!(!ignores_case(&base.join("one")), "two files");
        // What such a mount shows: one file under both names.
        std::fs::remove_file(base.join("ONE")).unwrap();
        std::fs::hard_link(base.join("one"), base.join("ONE")).unwrap();
        assert!(ignores_case(&base.join("one")));
        assert!(!ignores_case(&base.join("missing")));
    }
}
