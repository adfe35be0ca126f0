//! The changes that one command makes.

use std::path::{Path, PathBuf};

use prowess_catalog::Digest;

use crate::store::Stored;

/// A set of changes that are made together. [`Held::commit`](super::Held::commit) makes them.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    pub(super) changes: Vec<Planned>,
    pub(super) locks: Vec<(PathBuf, String)>,
}

/// A change of one directory or link.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    /// The agent's directory. `None` for the skills of the place.
    pub(super) agent: Option<PathBuf>,
    pub(super) name: String,
    /// The digest of the tree that should be there.
    pub(super) before: Option<Digest>,
    pub(super) wanted: Wanted,
}

/// What is there after the change.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Tree(Box<Stored>),
    Link,
    Nothing,
}

impl Transaction {
    /// Installs a skill, or replaces it. `before` is the digest of the tree that the caller has found there.
    ///
    /// If another tree is there at that moment, it is kept, and [`Report::kept`](super::Report::kept) says where.
    pub fn put(&mut self, name: &str, stored: &Stored, before: Option<Digest>) {
        self.add(None, name, before, Wanted::Tree(Box::new(stored.clone())));
    }

    /// Removes a skill. `before` is as for [`Transaction::put`].
    pub fn remove(&mut self, name: &str, before: Option<Digest>) {
        self.add(None, name, before, Wanted::Nothing);
    }

    /// Makes a link to a skill in an agent's directory.
    ///
    /// A copy of the skill with the digest `before` is replaced; anything else is an error.
    pub fn link(&mut self, agent: &Path, name: &str, before: Option<Digest>) {
        self.add(Some(agent), name, before, Wanted::Link);
    }

    /// Makes a copy of a skill in an agent's directory. Replaces a link to the skill, a copy of it, and a copy with the digest
    /// `before`. Anything else is an error.
    pub fn copy(&mut self, agent: &Path, name: &str, stored: &Stored, before: Option<Digest>) {
        self.add(Some(agent), name, before, Wanted::Tree(Box::new(stored.clone())));
    }

    /// Removes the link to a skill from an agent's directory, or the copy with the digest `before`. Leaves anything else
    /// alone, and [`Report::left_alone`](super::Report::left_alone) says so.
    pub fn unlink(&mut self, agent: &Path, name: &str, before: Option<Digest>) {
        self.add(Some(agent), name, before, Wanted::Nothing);
    }

    /// Writes a lock file after all other changes.
    pub fn write_lock(&mut self, path: &Path, text: impl Into<String>) {
        self.locks.push((path.to_owned(), text.into()));
    }

    fn add(&mut self, agent: Option<&Path>, name: &str, before: Option<Digest>, wanted: Wanted) {
        self.changes.push(Planned {
            agent: agent.map(Path::to_owned),
            name: name.to_owned(),
            before,
            wanted,
        });
    }
}
