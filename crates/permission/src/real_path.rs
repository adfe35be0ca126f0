//! The real path of a file: absolute, with every link followed. Rules compare real paths.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The most links on the way to one file, as in the Linux kernel.
const MAX_LINKS: usize = 40;

/// The real path of a file, and the other paths through which it was reached.
///
/// The real path is absolute and contains no links. For a file that does not exist yet, it is the real path of the nearest
/// existing directory, and the missing names below it.
///
/// ```
/// use prowess_permission::{Kind, RealPath, Question};
///
/// # let scratch = tempfile::tempdir()?;
/// # let scratch = prowess_permission::real_path::real_path(scratch.path());
/// std::fs::create_dir(scratch.join("private"))?;
/// std::os::unix::fs::symlink("private", scratch.join("alias"))?;
/// let file = RealPath::find(&scratch.join("alias/new.txt"));
/// assert_eq!(file.real(), scratch.join("private/new.txt").to_string_lossy());
/// assert_eq!(Question::about_file(Kind::READ, file.clone()).subjects, [file.real()]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealPath {
    real: String,
    /// The absolute path with links, if it differs.
    #[serde(default, rename = "spelled", skip_serializing_if = "Option::is_none")]
    with_links: Option<String>,
    /// Its paths in the backend; the first one is the path that the caller used.
    #[serde(default, rename = "inside", skip_serializing_if = "Vec::is_empty")]
    in_backend: Vec<String>,
    /// Whether the file system ignores letter case on its path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ignores_case: bool,
    /// Whether the real path is UTF-8, so that the text is exact.
    is_exact: bool,
}

impl RealPath {
    /// Finds the real path of an absolute path on this machine. Blocks on the file system.
    #[must_use]
    pub fn find(path: &Path) -> Self {
        let real = real_path(path);
        let ignores_case = ignores_case(&real);
        Self::known(&real, path, ignores_case)
    }

    /// A file on this machine whose real path the caller has found.
    #[must_use]
    pub fn known(real: &Path, with_links: &Path, ignores_case: bool) -> Self {
        let is_exact = real.to_str().is_some();
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let with_links = Some(text(with_links)).filter(|path| *path != text(real));
        Self { real: text(real), with_links, in_backend: Vec::new(), ignores_case, is_exact }
    }

    /// A file that is not on a disk of this machine. Its real path is its path in the backend.
    #[must_use]
    pub fn elsewhere(path: impl Into<String>) -> Self {
        Self {
            real: path.into(),
            with_links: None,
            in_backend: Vec::new(),
            ignores_case: false,
            is_exact: true,
        }
    }

    /// Adds the file's paths in its backend. A rule written in code that begins with `/` can ask about or deny such a path.
    #[must_use]
    pub fn backend_paths(mut self, paths: impl IntoIterator<Item = String>) -> Self {
        for path in paths {
            if path != self.real && !self.in_backend.contains(&path) {
                self.in_backend.push(path);
            }
        }
        self
    }

    /// The real path.
    #[must_use]
    pub fn real(&self) -> &str {
        &self.real
    }

    /// The real path, and the path with links if it differs.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.real.as_str()).chain(self.with_links.as_deref())
    }

    /// The path that the caller used.
    #[must_use]
    pub fn name(&self) -> &str {
        self.in_backend.first().or(self.with_links.as_ref()).unwrap_or(&self.real)
    }

    /// Whether the file system ignores letter case on its path.
    #[must_use]
    pub fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    pub(crate) fn with_links(&self) -> Option<&str> {
        self.with_links.as_deref()
    }

    pub(crate) fn paths_in_backend(&self) -> &[String] {
        &self.in_backend
    }

    /// Whether the real path is UTF-8, so that the text is exact.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }
}

/// Finds the real paths of many files, and looks at each directory once. Use it for files that are checked together: a
/// directory that is replaced meanwhile is not looked at again.
///
/// ```
/// use std::path::Path;
///
/// use prowess_permission::RealPath;
/// use prowess_permission::real_path::RealPaths;
///
/// let mut paths = RealPaths::default();
/// for file in ["/etc/hostname", "/etc/hosts"].map(Path::new) {
///     assert_eq!(paths.find(file), RealPath::find(file));
/// }
/// ```
#[derive(Debug, Default)]
pub struct RealPaths {
    /// Directories, their real paths, and whether the file system ignores letter case there.
    directories: HashMap<PathBuf, (PathBuf, bool)>,
}

impl RealPaths {
    /// [`RealPath::find`] with the directories that were looked at before.
    pub fn find(&mut self, path: &Path) -> RealPath {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return RealPath::find(path);
        };
        let (above, ignored_above) = self.directories.entry(directory.to_owned()).or_insert_with(|| {
            let real = real_path(directory);
            let ignored = ignores_case(&real);
            (real, ignored)
        });
        let real = above.join(name);
        if std::fs::read_link(&real).is_ok() {
            return RealPath::find(path);
        }
        let ignores_case = *ignored_above || ignores_case_of_name(&real);
        RealPath::known(&real, path, ignores_case)
    }
}

/// The real path of an absolute path. Parts that do not exist or cannot be read stay as they are.
///
/// ```
/// use std::path::Path;
///
/// assert_eq!(prowess_permission::real_path::real_path(Path::new("/no/such/file")), Path::new("/no/such/file"));
/// ```
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    let mut real = PathBuf::from("/");
    let mut pending: VecDeque<OsString> = names(path).collect();
    let mut links = 0;
    while let Some(name) = pending.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        real.push(&name);
        if links == MAX_LINKS {
            continue;
        }
        // Also follow a link whose target does not exist: writing through it creates the target.
        if let Ok(target) = std::fs::read_link(&real) {
            links += 1;
            real.pop();
            if target.is_absolute() {
                real = PathBuf::from("/");
            }
            for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                pending.push_front(name);
            }
        }
    }
    real
}

/// The names in a path, and `..`.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Whether the file system ignores letter case somewhere on a real path.
///
/// It looks up each existing name with the case of its letters swapped. If both names have the same device and inode, the
/// file system ignores case. Two hard links whose names differ only in case look the same; then rules are stricter, never
/// weaker.
///
/// ```
/// use std::path::Path;
///
/// assert!(!prowess_permission::real_path::ignores_case(Path::new("/1")), "there are no letters");
/// ```
#[must_use]
pub fn ignores_case(real: &Path) -> bool {
    real.ancestors().any(ignores_case_of_name)
}

fn ignores_case_of_name(path: &Path) -> bool {
    let swapped = path.file_name().and_then(swap_case);
    // Most often there is nothing with the other name.
    let other = swapped.and_then(|swapped| identity(&path.with_file_name(swapped)));
    other.is_some_and(|other| identity(path) == Some(other))
}

/// Whether a name has letters whose case can be swapped.
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
    swap_case(name).is_some()
}

/// The name with upper and lower case swapped, if that is another name.
fn swap_case(name: &OsStr) -> Option<String> {
    let name = name.to_str()?;
    let swap = |c: char| -> String {
        if c.is_lowercase() { c.to_uppercase().collect() } else { c.to_lowercase().collect() }
    };
    let swapped: String = name.chars().map(swap).collect();
    (swapped != name).then_some(swapped)
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Without inodes, two names that differ only in case count as the same file.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|_| (0, 0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_even_to_missing_files() {
        let scratch = tempfile::tempdir().unwrap();
        let base = real_path(scratch.path());
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        symlink("a/b", base.join("relative")).unwrap();
        symlink(base.join("a"), base.join("absolute")).unwrap();
        symlink("a/new", base.join("dangling")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        let mut many = RealPaths::default();
        for (given, expected) in [
            ("a/b/c", "a/b/c"),
            ("relative/c/d", "a/b/c/d"),
            ("relative/../x", "a/x"),
            ("absolute/./b//c", "a/b/c"),
            ("dangling", "a/new"),
            ("missing/../relative", "a/b"),
        ] {
            assert_eq!(real_path(&base.join(given)), base.join(expected), "{given}");
            // The second time, its directory is known.
            for _ in 0..2 {
                assert_eq!(many.find(&base.join(given)), RealPath::find(&base.join(given)), "{given}");
            }
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
        // A file system that ignores case shows one file under both names.
        std::fs::remove_file(base.join("ONE")).unwrap();
        std::fs::hard_link(base.join("one"), base.join("ONE")).unwrap();
        assert!(ignores_case(&base.join("one")));
        assert!(!ignores_case(&base.join("missing")));
    }
}
