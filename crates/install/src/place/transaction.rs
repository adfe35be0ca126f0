//! The changes that one command makes.

use std::path::{Path, PathBuf};

use prowess_catalog::Digest;

use super::{PlaceError, lock_file};
use crate::store::Stored;

/// A set of changes that are made together. [`Held::commit`](super::Held::commit) makes them.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    pub(super) changes: Vec<Planned>,
    pub(super) locks: Vec<PlannedLock>,
}

/// A lock file that is written.
#[derive(Clone, Debug)]
pub(super) struct PlannedLock {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// The text that the caller has read, if the file must still have it.
    pub(super) read: Option<ReadLock>,
}

/// What a lock file had when a caller read it. If it has something else when a transaction begins, nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLock(pub(super) Option<Digest>);

impl ReadLock {
    /// What the file has now. Call this before the file is read.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn of(path: &Path) -> Result<Self, PlaceError> {
        // Without its directory, there is no file.
        if path.parent().is_some_and(|parent| !parent.exists()) {
            return Ok(Self(None));
        }
        lock_file::digest(path).map(Self)
    }
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
        self.locks.push(PlannedLock { path: path.to_owned(), text: text.into(), read: None });
    }

    /// The same, but nothing is changed if the file has another text than the caller has read.
    pub fn replace_lock(&mut self, path: &Path, read: ReadLock, text: impl Into<String>) {
        self.locks.push(PlannedLock { path: path.to_owned(), text: text.into(), read: Some(read) });
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
