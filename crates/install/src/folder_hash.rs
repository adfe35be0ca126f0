//! The two hashes that lock files of `skills` have: `computedHash`, and the Git tree SHA-1.
//!
//! They are here so that `skills` can read our lock files. Neither protects anybody: see [`computed_hash`].
//! [`SkillTree::digest`](crate::tree::SkillTree::digest) is what prowess pins.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use icu_collator::options::CollatorOptions;
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use prowess_base::hex;
use sha1::{Digest as _, Sha1};

use crate::snapshot::check_path;

/// Directories whose files are not in [`computed_hash`].
const LEFT_OUT: [&str; 2] = [".git", "node_modules"];

/// The `computedHash` of a skill's files, as `skills` computes it: 64 hexadecimal digits.
///
/// It is a SHA-256 over the path and the bytes of each file, with nothing between them, in the order of JavaScript's
/// `localeCompare`. Files below `.git` and `node_modules` are left out, and modes do not count.
///
/// **It is no integrity check.** Nothing separates a path from the bytes after it, so different trees can have one hash:
///
/// ```
/// use prowess_install::folder_hash::computed_hash;
///
/// let one = computed_hash([("SKILL.md", "Wave."), ("za", "bEVIL")]);
/// let other = computed_hash([("SKILL.md", "Wave."), ("zab", "EVIL")]);
/// assert_eq!(one, other);
/// ```
pub fn computed_hash<P: AsRef<str>, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (P, B)>) -> String {
    let mut files: Vec<(P, B)> = files.into_iter().filter(|(path, _)| !is_left_out(path.as_ref())).collect();
    files.sort_by(|(a, _), (b, _)| locale_compare(a.as_ref(), b.as_ref()));
    let mut hash = hmac_sha256::Hash::new();
    for (path, bytes) in &files {
        hash.update(path.as_ref());
        hash.update(bytes.as_ref());
    }
    hex::encode(&hash.finalize())
}

fn is_left_out(path: &str) -> bool {
    let directories = path.rsplit_once('/').map_or("", |(directories, _)| directories);
    directories.split('/').any(|name| LEFT_OUT.contains(&name))
}

/// The order of JavaScript's `localeCompare` in English: the collation of Unicode's root. Paths that it takes for equal are
/// ordered by their bytes, so that the hash does not depend on the file system.
///
/// One difference to node is known. Node orders Chinese characters by radical and stroke, and the data of `icu_collator` order
/// them by code point. Two paths that first differ in such characters may be ordered otherwise, so
/// [`computed_hash`] may be another than that of `skills`.
pub fn locale_compare(a: &str, b: &str) -> Ordering {
    static COLLATOR: LazyLock<Option<CollatorBorrowed<'static>>> = LazyLock::new(|| {
        // The data of the root collation are compiled in, so this does not fail.
        CollatorBorrowed::try_new(CollatorPreferences::default(), CollatorOptions::default()).ok()
    });
    let order = COLLATOR.as_ref().map_or(Ordering::Equal, |collator| collator.compare(a, b));
    order.then_with(|| a.cmp(b))
}

/// A file for [`tree_sha1`].
#[derive(Clone, Copy, Debug)]
pub struct TreeBlob<'a> {
    /// Its path, with `/` between names.
    pub path: &'a str,
    /// Whether its owner may execute it.
    pub is_executable: bool,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The SHA-1 of the Git tree of these files: 40 hexadecimal digits. It is the `skillFolderHash` of a skill from GitHub.
///
/// `None` if a path cannot be in a tree, or is both a file and a directory.
///
/// ```
/// use prowess_install::folder_hash::{TreeBlob, tree_sha1};
///
/// let file = TreeBlob { path: "SKILL.md", is_executable: false, bytes: b"Wave.\n" };
/// assert_eq!(tree_sha1([file]).as_deref(), Some("3b9e98c0275573e5250d239de47d167f74b956ea"));
/// assert_eq!(tree_sha1([TreeBlob { path: "../x", ..file }]), None);
/// ```
pub fn tree_sha1<'a>(files: impl IntoIterator<Item = TreeBlob<'a>>) -> Option<String> {
    let mut root = Node::default();
    for file in files {
        check_path(file.path).ok()?;
        let mode = if file.is_executable { "100755" } else { "100644" };
        root.insert(file.path, mode, object("blob", file.bytes))?;
    }
    root.hash().map(|hash| hex::encode(&hash))
}

/// A directory of a Git tree: names with a mode and a hash, and directories.
#[derive(Default)]
struct Node<'a> {
    files: BTreeMap<&'a str, (&'static str, [u8; 20])>,
    directories: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    fn insert(&mut self, path: &'a str, mode: &'static str, hash: [u8; 20]) -> Option<()> {
        match path.split_once('/') {
            Some((name, rest)) => self.directories.entry(name).or_default().insert(rest, mode, hash),
            None => self.files.insert(path, (mode, hash)).is_none().then_some(()),
        }
    }

    fn hash(&self) -> Option<[u8; 20]> {
        // Git orders a directory as if its name ended with `/`.
        let mut entries: Vec<(String, &str, [u8; 20])> = Vec::new();
        for (name, (mode, hash)) in &self.files {
            entries.push(((*name).to_owned(), mode, *hash));
        }
        for (name, node) in &self.directories {
            if self.files.contains_key(name) {
                return None;
            }
            entries.push((format!("{name}/"), "40000", node.hash()?));
        }
        entries.sort();
        let mut bytes = Vec::new();
        for (name, mode, hash) in entries {
            bytes.extend_from_slice(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(name.strip_suffix('/').unwrap_or(&name).as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(&hash);
        }
        Some(object("tree", &bytes))
    }
}

/// The SHA-1 of a Git object.
fn object(kind: &str, bytes: &[u8]) -> [u8; 20] {
    let mut hash = Sha1::new();
    hash.update(format!("{kind} {}\0", bytes.len()));
    hash.update(bytes);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 1.1 of the facts: the hash collides by construction, so nothing may rely on it.
    #[test]
    fn two_different_trees_have_one_computed_hash() {
        let good = [("SKILL.md", "Wave."), ("za", "bEVIL")];
        let evil = [("SKILL.md", "Wave."), ("zab", "EVIL")];
        assert_ne!(good, evil);
        assert_eq!(computed_hash(good), computed_hash(evil));
    }

    #[test]
    fn only_files_below_left_out_directories_are_left_out() {
        let hash = computed_hash([("SKILL.md", "Wave.")]);
        let more = [("SKILL.md", "Wave."), (".git/config", "x"), ("a/node_modules/b/c", "x")];
        assert_eq!(computed_hash(more), hash);
        for path in ["node_modules", "a/.git", ".gitignore", "my.git/x"] {
            assert_ne!(computed_hash([("SKILL.md", "Wave."), (path, "x")]), hash, "{path}");
        }
    }

    #[test]
    fn paths_that_a_tree_cannot_have_give_nothing() {
        let file = |path| TreeBlob { path, is_executable: false, bytes: b"x" };
        assert_eq!(tree_sha1([file("a"), file("a/b")]), None);
        assert_eq!(tree_sha1([file("a"), file("a")]), None);
        assert_eq!(tree_sha1([file("/a")]), None);
        assert_eq!(
            tree_sha1([]).as_deref(),
            Some("4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
            "Git's empty tree"
        );
    }
}
