//! Single files outside of the working directory, for the file tools: the memory files that are elsewhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::entry::Target;
use prowess_backend::{
    Backend, BackendError, CompositeBackend, Contents, Edit, Edited, Entry, Listing, LocalBackend,
    MemoryBackend, ReadRange, VirtualPath, WriteMode,
};
use prowess_workspace::tree::MEMORY;

/// These files and nothing beside them: `/home/me/.prowess/AGENTS.md` here is the file with that real path.
#[derive(Debug)]
pub(super) struct MemoryFiles {
    files: Vec<VirtualPath>,
}

impl MemoryFiles {
    /// The files with these real paths. Those whose path is not valid for a model are left out.
    pub(super) fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { files: files.into_iter().filter_map(|file| virtual_path(&file)).collect() }
    }

    /// The path by which the model opens the file with this real path.
    pub(super) fn path_for_model(file: &Path) -> Option<VirtualPath> {
        VirtualPath::parse(&format!("{MEMORY}{}", virtual_path(file)?)).ok()
    }

    /// A backend that has this file below its path, or an error if it is none of the files.
    fn backend_of(&self, path: &VirtualPath) -> Result<CompositeBackend, BackendError> {
        if !self.files.contains(path) {
            return Err(match self.is_directory(path) {
                true => BackendError::IsDirectory { path: path.clone() },
                false => BackendError::NotFound { path: path.clone() },
            });
        }
        // The directory of the file may be missing.
        let mut above = path.parent();
        while let Some(directory) = above {
            if let Ok(local) = LocalBackend::open(directory.as_str()) {
                let elsewhere = CompositeBackend::new(Arc::new(MemoryBackend::new()));
                return Ok(elsewhere.mount(directory, Arc::new(local)));
            }
            above = directory.parent();
        }
        Err(BackendError::NotFound { path: path.clone() })
    }

    /// A backend for changing this file.
    fn changes_of(&self, path: &VirtualPath) -> Result<CompositeBackend, BackendError> {
        if self.files.contains(path) || self.is_directory(path) {
            return self.backend_of(path);
        }
        let reason = "only the memory files can be written here".to_owned();
        Err(BackendError::PermissionDenied { path: path.clone(), reason })
    }

    fn is_directory(&self, path: &VirtualPath) -> bool {
        path.is_root() || self.files.iter().any(|file| file != path && file.starts_with(path))
    }
}

/// A real path as a path in a backend.
fn virtual_path(file: &Path) -> Option<VirtualPath> {
    VirtualPath::parse(file.to_str()?).ok()
}

#[async_trait]
impl Backend for MemoryFiles {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing, BackendError> {
        if self.files.contains(path) {
            return Err(BackendError::NotADirectory { path: path.clone() });
        }
        if !self.is_directory(path) {
            return Err(BackendError::NotFound { path: path.clone() });
        }
        let mut listing = Listing::default();
        for file in &self.files {
            let Some(below) = file.strip_prefix(path).filter(|below| !below.is_empty()) else { continue };
            let (name, is_file) = match below.split_once('/') {
                Some((directory, _)) => (directory, false),
                None => (below, true),
            };
            let at = path.join(name)?;
            if listing.entries.iter().any(|entry| entry.path == at) {
                continue;
            }
            if !is_file {
                listing.entries.push(Entry::directory(at));
            } else if let Ok(entry) = self.stat(&at).await {
                listing.entries.push(entry);
            }
        }
        listing.entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(listing)
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry, BackendError> {
        if self.is_directory(path) {
            return Ok(Entry::directory(path.clone()));
        }
        self.backend_of(path)?.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents, BackendError> {
        self.backend_of(path)?.read(path, range).await
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry, BackendError> {
        self.changes_of(path)?.write(path, bytes, mode).await
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry, BackendError> {
        self.changes_of(path)?.append(path, bytes).await
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited, BackendError> {
        self.backend_of(path)?.edit(path, edit).await
    }

    async fn delete(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.changes_of(path)?.delete(path).await
    }

    async fn check_change(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.changes_of(path).map(|_| ())
    }

    async fn target(&self, path: &VirtualPath) -> Target {
        match self.backend_of(path) {
            Ok(backend) => backend.target(path).await,
            // Rules about files of this machine also hold for the directories of these files.
            Err(_) => Target {
                path: path.clone(),
                on_disk: vec![PathBuf::from(path.as_str())],
                ignores_case: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use prowess_backend::GlobQuery;

    use super::*;

    #[tokio::test]
    async fn only_these_files_are_there() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| virtual_path(&place.path().join(name)).unwrap();
        std::fs::write(place.path().join("AGENTS.md"), "one").unwrap();
        std::fs::write(place.path().join("secret.md"), "hush").unwrap();
        let files = ["AGENTS.md", "new/dir/AGENTS.md"].map(|name| place.path().join(name));
        let files = MemoryFiles::new(files);

        let found = files.glob(&VirtualPath::root(), &GlobQuery::new("**").unwrap()).await.unwrap();
        let found: Vec<_> = found.entries.into_iter().map(|entry| entry.path).collect();
        assert_eq!(found, [at("AGENTS.md")]);
        let read = files.read(&at("AGENTS.md"), ReadRange::first(9)).await.unwrap();
        assert_eq!((read.path, &*read.bytes), (at("AGENTS.md"), &b"one"[..]));
        assert_eq!(
            files.target(&at("AGENTS.md")).await.on_disk.last(),
            Some(&place.path().join("AGENTS.md"))
        );
        let beside = files.read(&at("secret.md"), ReadRange::first(9)).await;
        assert!(matches!(beside, Err(BackendError::NotFound { .. })));
        let beside = files.write(&at("other.md"), "x".into(), WriteMode::CreateNew).await;
        assert!(matches!(beside, Err(BackendError::PermissionDenied { .. })));
        assert!(matches!(files.delete(&at("secret.md")).await, Err(BackendError::PermissionDenied { .. })));
        // The directories of a new file are made.
        files.write(&at("new/dir/AGENTS.md"), "two".into(), WriteMode::CreateNew).await.unwrap();
        files.edit(&at("new/dir/AGENTS.md"), &Edit::unique("two", "three")).await.unwrap();
        assert_eq!(std::fs::read_to_string(place.path().join("new/dir/AGENTS.md")).unwrap(), "three");
        let missing = files.edit(&at("new"), &Edit::unique("a", "b")).await;
        assert!(matches!(missing, Err(BackendError::IsDirectory { .. })));
    }
}
