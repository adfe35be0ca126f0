//! The content cache: the files of skills by the digest of their tree.
//!
//! A skill is staged here first, then shown to the person, then placed from here. So the files that the person looked at are
//! the files that are installed, even if the source changes meanwhile.

mod error;
mod private;
mod staging;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use prowess_base::beneath;
use prowess_base::hex;
use prowess_catalog::Digest;

pub use error::StoreError;

use crate::disk;
use crate::merge::Merged;
use crate::snapshot::Snapshot;
use crate::tree::writer::TreeWriter;
use crate::tree::{ReadFiles, SkillTree, TreeDirectory, TreeError};

/// The start of an entry's name until the entry is complete, and while it is removed.
const UNFINISHED: &str = "unfinished-";
/// How old an unfinished entry must be so that its writer is surely gone.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// A content cache in a directory that only this user can read and write.
///
/// ```no_run
/// # use prowess_install::{snapshot::Snapshot, store::Store};
/// # fn f(snapshot: &mut dyn Snapshot) -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::open("/home/ada/.cache/prowess/skills".as_ref())?;
/// let stored = store.stage(snapshot, "skills/tides")?;
/// assert_eq!(store.get(&stored.digest), Some(stored));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    handle: OwnedFd,
}

/// The files of a skill in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// The files.
    pub tree: SkillTree,
    /// The digest of the tree.
    pub digest: Digest,
    /// The directory with the files.
    pub path: PathBuf,
    /// The entries of the source that are not part of the skill, by path.
    pub left_out: Vec<String>,
}

/// The files of a skill in a snapshot, counted by their names and sizes. None was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selection {
    /// How many files the skill has.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The same with files that are read but not installed.
    pub all_bytes: u64,
}

impl Stored {
    /// Opens the directory with the files.
    ///
    /// # Errors
    ///
    /// It was removed since, or cannot be opened.
    pub fn open(&self) -> Result<TreeDirectory, TreeError> {
        TreeDirectory::open(&self.path)
    }
}

impl Store {
    /// Opens the store in this directory, and creates it if needed.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or opened, or other users can write to it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { path: path.to_owned(), handle: private::open(path)? })
    }

    /// Stages the skill in `directory` of a snapshot. An empty `directory` is the root of the snapshot.
    ///
    /// As in `skills`, everything called `metadata.json`, `.git`, `__pycache__` or `__pypackages__` is left out.
    /// [`Stored::left_out`] lists them.
    ///
    /// # Errors
    ///
    /// The skill has a link, a submodule, a device, or a name that some systems cannot store or tell apart; it exceeds a
    /// limit; or it cannot be read or written.
    pub fn stage(&self, snapshot: &mut dyn Snapshot, directory: &str) -> Result<Stored, StoreError> {
        let selected = staging::select(snapshot.entries(), directory)?;
        let mut stored = self.write(|writer| staging::copy(snapshot, &selected, writer))?;
        stored.left_out = selected.left_out;
        Ok(stored)
    }

    /// Counts the files that [`Store::stage`] would copy, and reads none of them.
    ///
    /// # Errors
    ///
    /// The names or sizes of the files are such that they cannot be staged.
    pub fn select(snapshot: &dyn Snapshot, directory: &str) -> Result<Selection, StoreError> {
        staging::count(snapshot.entries(), directory)
    }

    /// The files in `directory` of a snapshot that [`Store::stage`] leaves out, by their paths in the skill. The
    /// `computedHash` of `skills` counts them.
    pub(crate) fn left_out_files(
        snapshot: &mut dyn Snapshot,
        directory: &str,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        staging::left_out_files(snapshot, directory)
    }

    /// Stages the result of a merge, with the readers of the trees that were merged.
    ///
    /// # Errors
    ///
    /// The merge has conflicts, its files exceed a limit, or they cannot be read or written.
    pub fn stage_merged(
        &self,
        merged: &Merged,
        local: &dyn ReadFiles,
        new: &dyn ReadFiles,
    ) -> Result<Stored, StoreError> {
        self.write(|writer| staging::copy_merged(merged, local, new, writer))
    }

    /// Stages the tree of a directory, such as one that is installed. Every regular file counts.
    ///
    /// # Errors
    ///
    /// The directory is no tree, it changes meanwhile, or it cannot be read or written.
    pub fn stage_directory(&self, directory: &TreeDirectory) -> Result<Stored, StoreError> {
        let tree = directory.tree().map_err(StoreError::Tree)?;
        self.write(|writer| {
            writer.copy(&tree, directory).map_err(|source| self.error("copy a skill to", source))
        })
    }

    /// The files with this digest. An entry whose files do not have the digest is removed, and counts as missing.
    pub fn get(&self, digest: &Digest) -> Option<Stored> {
        let name = hex::encode(digest.as_bytes());
        let directory = TreeDirectory::open_at(&self.handle, &name).ok()?;
        let tree = directory.tree();
        let Some(tree) = tree.ok().filter(|tree| tree.digest() == *digest) else {
            // Whoever stages the skill again replaces the entry if this fails.
            let _ = self.remove(&name);
            return None;
        };
        private::touch(directory.handle());
        Some(Stored { tree, digest: *digest, path: self.path.join(name), left_out: Vec::new() })
    }

    /// Removes the files with this digest, if they are there.
    ///
    /// # Errors
    ///
    /// They cannot be removed.
    pub fn forget(&self, digest: &Digest) -> Result<(), StoreError> {
        self.remove(&hex::encode(digest.as_bytes()))
    }

    /// Removes the entries that were unused for longest until the rest have at most `most` bytes. Returns how many.
    ///
    /// # Errors
    ///
    /// The store cannot be listed, or an entry cannot be removed.
    pub fn prune(&self, most: u64) -> Result<usize, StoreError> {
        let list = private::entries(&self.handle).map_err(|source| self.error("list", source))?;
        let now = SystemTime::now();
        let mut entries = Vec::new();
        let mut sum = 0_u64;
        for (name, used) in list {
            if name.starts_with(UNFINISHED) {
                if now.duration_since(used).unwrap_or_default() > ABANDONED {
                    disk::remove(&self.handle, &name)
                        .map_err(|source| self.error("remove an entry of", source))?;
                }
                continue;
            }
            let bytes = private::bytes_below(&self.handle, &name);
            sum = sum.saturating_add(bytes);
            entries.push((used, bytes, name));
        }
        entries.sort();
        let mut removed = 0;
        for (_, bytes, name) in entries {
            if sum <= most {
                break;
            }
            self.remove(&name)?;
            sum = sum.saturating_sub(bytes);
            removed += 1;
        }
        Ok(removed)
    }

    /// Fills a new entry, and gives it the name of its digest when it is complete.
    fn write(
        &self,
        fill: impl FnOnce(&mut TreeWriter) -> Result<(), StoreError>,
    ) -> Result<Stored, StoreError> {
        let (unfinished, directory) =
            beneath::with_unused_name(UNFINISHED, "", |name| private::make_directory(&self.handle, name))
                .map_err(|source| self.error("write to", source))?;
        let mut writer = TreeWriter::new(directory);
        let stored = fill(&mut writer).and_then(|()| self.name(&unfinished, writer.finish()));
        if stored.is_err() {
            let _ = disk::remove(&self.handle, &unfinished);
        }
        stored
    }

    fn name(&self, unfinished: &str, tree: SkillTree) -> Result<Stored, StoreError> {
        if tree.files.is_empty() {
            return Err(StoreError::Empty);
        }
        let digest = tree.digest();
        let name = hex::encode(digest.as_bytes());
        let path = self.path.join(&name);
        // The entry may be there. `get` removes it if it is damaged. Another process may add it in between.
        for _ in 0..2 {
            match disk::rename_new(&self.handle, unfinished, &self.handle, &name) {
                Ok(()) => return Ok(Stored { tree, digest, path, left_out: Vec::new() }),
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(self.error("write to", error.into())),
            }
            if let Some(stored) = self.get(&digest) {
                disk::remove(&self.handle, unfinished)
                    .map_err(|source| self.error("remove an entry of", source))?;
                return Ok(stored);
            }
        }
        Err(self.error("write to", rustix::io::Errno::EXIST.into()))
    }

    /// Removes an entry. No other process sees a part of it.
    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let removed = beneath::with_unused_name(UNFINISHED, "", |unfinished| {
            match disk::rename_new(&self.handle, name, &self.handle, unfinished) {
                Ok(()) => disk::remove(&self.handle, unfinished),
                // Another process was faster.
                Err(rustix::io::Errno::NOENT) => Ok(()),
                Err(error) => Err(error.into()),
            }
        });
        removed.map(|_| ()).map_err(|source| self.error("remove an entry of", source))
    }

    fn error(&self, action: &'static str, source: std::io::Error) -> StoreError {
        StoreError::Io { action, path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests;
