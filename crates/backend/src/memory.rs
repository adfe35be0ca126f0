//! Files in memory, for tests and for files that nobody needs to keep.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use crate::walk::Walk;
use crate::write::MAX_EDIT_BYTES;
use crate::{
    Backend, BackendError, Contents, Edit, Edited, Entry, EntryKind, GlobQuery, GlobReport, Listing,
    ReadRange, Result, Stamp, VirtualPath, WriteMode,
};

/// Files in memory, which end with this value. A directory exists if a file is below it.
///
/// ```
/// use prowess_backend::{Backend, MemoryBackend, VirtualPath, WriteMode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_backend::BackendError> {
/// let files = MemoryBackend::new();
/// files.write(&VirtualPath::parse("/drafts/notes.md")?, "- tides\n".into(), WriteMode::CreateNew).await?;
/// let listing = files.ls(&VirtualPath::root()).await?;
/// assert_eq!(listing.entries[0].path.as_str(), "/drafts");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MemoryBackend {
    files: RwLock<Files>,
}

/// The files by path. In the order of [`VirtualPath`], the files below a directory are together.
#[derive(Debug, Default)]
struct Files {
    by_path: BTreeMap<VirtualPath, File>,
    versions: u64,
}

#[derive(Debug)]
struct File {
    bytes: Bytes,
    modified: SystemTime,
    version: u64,
}

impl MemoryBackend {
    /// Creates an empty backend.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    // A panic elsewhere does not damage the map, because no operation leaves it half changed.
    fn files(&self) -> RwLockReadGuard<'_, Files> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn files_mut(&self) -> RwLockWriteGuard<'_, Files> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Collects the files. It leaves out a file that conflicts with an earlier one, such as a file below a file.
impl FromIterator<(VirtualPath, Bytes)> for MemoryBackend {
    fn from_iter<I: IntoIterator<Item = (VirtualPath, Bytes)>>(files: I) -> Self {
        let mut all = Files::default();
        for (path, bytes) in files {
            if all.check_place(&path).is_ok() {
                all.put(&path, bytes);
            }
        }
        Self { files: RwLock::new(all) }
    }
}

impl File {
    fn entry(&self, path: &VirtualPath) -> Entry {
        Entry {
            path: path.clone(),
            kind: EntryKind::File,
            size: self.bytes.len() as u64,
            modified: Some(self.modified),
            stamp: Some(self.stamp()),
        }
    }

    fn stamp(&self) -> Stamp {
        Stamp::new(&self.version.to_string())
    }
}

impl Files {
    /// The files below `directory`, in order.
    fn below<'a>(&'a self, directory: &'a VirtualPath) -> impl Iterator<Item = (&'a VirtualPath, &'a File)> {
        self.by_path
            .range::<VirtualPath, _>((Bound::Excluded(directory), Bound::Unbounded))
            .take_while(move |(path, _)| path.starts_with(directory))
    }

    fn is_directory(&self, path: &VirtualPath) -> bool {
        path.is_root() || self.below(path).next().is_some()
    }

    fn get(&self, path: &VirtualPath) -> Result<&File> {
        match self.by_path.get(path) {
            Some(file) => Ok(file),
            None if self.is_directory(path) => Err(BackendError::is_directory(path)),
            None => Err(BackendError::not_found(path)),
        }
    }

    fn check_directory(&self, path: &VirtualPath) -> Result<()> {
        if self.by_path.contains_key(path) {
            Err(BackendError::not_a_directory(path))
        } else if self.is_directory(path) {
            Ok(())
        } else {
            Err(BackendError::not_found(path))
        }
    }

    /// Checks that a file can be at `path`: no directory has that path, and no file is in the place of a parent
    /// directory.
    fn check_place(&self, path: &VirtualPath) -> Result<()> {
        if self.is_directory(path) {
            return Err(BackendError::is_directory(path));
        }
        let mut above = path.parent();
        while let Some(directory) = above {
            if self.by_path.contains_key(&directory) {
                return Err(BackendError::not_a_directory(&directory));
            }
            above = directory.parent();
        }
        Ok(())
    }

    fn put(&mut self, path: &VirtualPath, bytes: Bytes) -> Entry {
        self.versions += 1;
        let file = File { bytes, modified: SystemTime::now(), version: self.versions };
        let entry = file.entry(path);
        self.by_path.insert(path.clone(), file);
        entry
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing> {
        let files = self.files();
        files.check_directory(path)?;
        let mut entries: Vec<Entry> = Vec::new();
        for (below, file) in files.below(path) {
            let relative = below.strip_prefix(path).unwrap_or_default();
            match relative.split_once('/') {
                None => entries.push(file.entry(below)),
                Some((name, _)) => {
                    let directory = path.join(name)?;
                    // The entries of one directory are together.
                    if entries.last().is_none_or(|last| last.path != directory) {
                        entries.push(Entry::directory(directory));
                    }
                }
            }
        }
        Ok(Listing { entries, ..Listing::default() })
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry> {
        match self.files().get(path) {
            Ok(file) => Ok(file.entry(path)),
            Err(BackendError::IsDirectory { path }) => Ok(Entry::directory(path)),
            Err(error) => Err(error),
        }
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents> {
        let files = self.files();
        let file = files.get(path)?;
        Ok(Contents::slice(path, &file.bytes, range, Some(file.stamp())))
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry> {
        let mut files = self.files_mut();
        files.check_place(path)?;
        if mode == WriteMode::CreateNew && files.by_path.contains_key(path) {
            return Err(BackendError::already_exists(path));
        }
        Ok(files.put(path, bytes))
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry> {
        let mut files = self.files_mut();
        files.check_place(path)?;
        let before = files.by_path.remove(path).map(|file| file.bytes).unwrap_or_default();
        // The bytes grow in place unless a reader still holds them.
        let mut grown = before.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        grown.extend_from_slice(&bytes);
        Ok(files.put(path, grown.freeze()))
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited> {
        let mut files = self.files_mut();
        let before = files.get(path)?.bytes.clone();
        if before.len() as u64 > MAX_EDIT_BYTES {
            return Err(BackendError::TooLarge { path: path.clone(), limit: MAX_EDIT_BYTES });
        }
        let (after, replacements) = edit.apply(path, &before)?;
        Ok(Edited { entry: files.put(path, after.into()), replacements })
    }

    async fn swap(&self, path: &VirtualPath, before: Bytes, after: Bytes) -> Result<Entry> {
        let mut files = self.files_mut();
        if files.get(path)?.bytes != before {
            return Err(BackendError::Changed { path: path.clone() });
        }
        Ok(files.put(path, after))
    }

    async fn delete(&self, path: &VirtualPath) -> Result<()> {
        let mut files = self.files_mut();
        files.get(path)?;
        files.by_path.remove(path);
        Ok(())
    }

    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport> {
        let files = self.files();
        files.check_directory(base)?;
        let entries = files.below(base).map(|(path, file)| file.entry(path)).collect();
        Ok(Walk::over_files(base, query, entries))
    }
}
