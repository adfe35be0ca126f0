//! The files of one skill, and the digest of all of them.

mod directory;
pub(crate) mod names;
pub(crate) mod writer;

use std::collections::{BTreeMap, BTreeSet};

use prowess_catalog::Digest;
use prowess_catalog::digest::Digester;

pub use directory::{MAX_DEPTH, ReadFiles, TreeDirectory, TreeError};

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    /// The digest of its bytes.
    pub digest: Digest,
    /// Its bytes.
    pub size: u64,
    /// Whether its owner may execute it.
    pub is_executable: bool,
}

/// The files of a skill by path, with `/` between names. Only regular files count: a skill with a link or a device is refused
/// before it becomes a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillTree {
    /// The files.
    pub files: BTreeMap<String, TreeFile>,
}

/// How one tree differs from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeDifference {
    /// The files that only the new tree has.
    pub added: BTreeSet<String>,
    /// The files that only the old tree has.
    pub removed: BTreeSet<String>,
    /// The files that both have, with other bytes or another mode.
    pub changed: BTreeSet<String>,
}

impl SkillTree {
    /// The digest of all files: of their paths, modes and bytes.
    pub fn digest(&self) -> Digest {
        let mut all = Digester::default();
        all.update(b"prowess skill tree 1\0");
        for (path, file) in &self.files {
            all.update(path.as_bytes());
            all.update(if file.is_executable { b"\0x" } else { b"\0-" });
            all.update(file.digest.as_bytes());
        }
        all.digest()
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.values().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// How `new` differs from this tree.
    pub fn difference(&self, new: &Self) -> TreeDifference {
        let mut difference = TreeDifference::default();
        for (path, file) in &new.files {
            match self.files.get(path) {
                None => difference.added.insert(path.clone()),
                Some(old) if old != file => difference.changed.insert(path.clone()),
                Some(_) => false,
            };
        }
        difference.removed =
            self.files.keys().filter(|path| !new.files.contains_key(*path)).cloned().collect();
        difference
    }
}
