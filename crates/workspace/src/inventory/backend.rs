//! An inventory as a backend: files that are on no disk of this machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::{
    Backend, BackendError, Contents, Edit, Edited, Entry, EntryKind, Listing, MemoryBackend, ReadRange,
    VirtualPath, WriteMode,
};

use super::{FamilyContents, Inventory, InventoryFile};

/// The files of an inventory below one path of the tree. They can be read, and nothing can be written.
///
/// ```
/// use std::sync::Arc;
/// use prowess_backend::{Backend, VirtualPath};
/// use prowess_workspace::inventory::{Contents, Inventory, InventoryBackend, InventoryFile, MemoryContents};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let contents = Contents::new(Arc::new(MemoryContents::default())).family("ada", "thread-1");
/// let digest = contents.put("- rest".into(), "the plan").await?;
/// let plan = InventoryFile { path: "project/plan.md".into(), bytes: 6, digest, executable: false };
/// let files = InventoryBackend::new(Arc::new(Inventory::default().with(plan)), contents, "project");
/// let read = files.download(&[VirtualPath::parse("/plan.md")?]).await.remove(0)?;
/// assert_eq!(read, "- rest");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InventoryBackend {
    inventory: Arc<Inventory>,
    contents: FamilyContents,
    /// The path in the tree, with a slash at its end.
    at: String,
}

impl InventoryBackend {
    /// The files of `inventory` below `at`, such as `project`.
    pub fn new(inventory: Arc<Inventory>, contents: FamilyContents, at: &str) -> Self {
        Self { inventory, contents, at: format!("{at}/") }
    }

    /// The path of a file in the inventory.
    fn inner(&self, path: &VirtualPath) -> String {
        format!("{}{}", self.at, path.as_str().trim_start_matches('/'))
    }

    /// The paths of files and empty directories below a directory, relative to it.
    fn below<'a>(
        &'a self,
        directory: &'a str,
    ) -> impl Iterator<Item = (&'a str, Option<&'a InventoryFile>)> + 'a {
        let files = self.inventory.files().iter().map(|file| (file.path.as_str(), Some(file)));
        let empty = self.inventory.empty_directories().iter().map(|path| (path.as_str(), None));
        files.chain(empty).filter_map(move |(path, file)| Some((path.strip_prefix(directory)?, file)))
    }

    fn is_directory(&self, path: &VirtualPath) -> bool {
        let inner = self.inner(path);
        let below = format!("{}/", inner.trim_end_matches('/'));
        path.is_root()
            || self.inventory.empty_directories().contains(&inner)
            || self.below(&below).next().is_some()
    }
}

fn entry(path: VirtualPath, file: &InventoryFile) -> Entry {
    Entry { kind: EntryKind::File, size: file.bytes, ..Entry::directory(path) }
}

fn read_only<T>(path: &VirtualPath, operation: &'static str) -> Result<T, BackendError> {
    Err(BackendError::Unsupported { path: path.clone(), operation })
}

#[async_trait]
impl Backend for InventoryBackend {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing, BackendError> {
        if self.inventory.file(&self.inner(path)).is_some() {
            return Err(BackendError::NotADirectory { path: path.clone() });
        }
        if !self.is_directory(path) {
            return Err(BackendError::NotFound { path: path.clone() });
        }
        let directory = format!("{}/", self.inner(path).trim_end_matches('/'));
        let mut found: BTreeMap<&str, Option<&InventoryFile>> = BTreeMap::new();
        for (rest, file) in self.below(&directory) {
            match rest.split_once('/') {
                Some((name, _)) => found.insert(name, None),
                None => found.insert(rest, file),
            };
        }
        let mut listing = Listing::default();
        for (name, file) in found {
            match (path.join(name), file) {
                (Ok(path), Some(file)) => listing.entries.push(entry(path, file)),
                (Ok(path), None) => listing.entries.push(Entry::directory(path)),
                (Err(error), _) => listing.skipped.push(error),
            }
        }
        Ok(listing)
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry, BackendError> {
        match self.inventory.file(&self.inner(path)) {
            Some(file) => Ok(entry(path.clone(), file)),
            None if self.is_directory(path) => Ok(Entry::directory(path.clone())),
            None => Err(BackendError::NotFound { path: path.clone() }),
        }
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents, BackendError> {
        let Some(file) = self.inventory.file(&self.inner(path)) else {
            return match self.is_directory(path) {
                true => Err(BackendError::IsDirectory { path: path.clone() }),
                false => Err(BackendError::NotFound { path: path.clone() }),
            };
        };
        let failed = |error: super::InventoryError| BackendError::Io {
            path: path.clone(),
            operation: "reading",
            source: error.into(),
        };
        let bytes = self.contents.file(file).await.map_err(failed)?;
        MemoryBackend::from_iter([(path.clone(), bytes)]).read(path, range).await
    }

    async fn write(&self, path: &VirtualPath, _: Bytes, _: WriteMode) -> Result<Entry, BackendError> {
        read_only(path, "writing")
    }

    async fn append(&self, path: &VirtualPath, _: Bytes) -> Result<Entry, BackendError> {
        read_only(path, "appending")
    }

    async fn edit(&self, path: &VirtualPath, _: &Edit) -> Result<Edited, BackendError> {
        read_only(path, "editing")
    }

    async fn delete(&self, path: &VirtualPath) -> Result<(), BackendError> {
        read_only(path, "deleting")
    }
}
