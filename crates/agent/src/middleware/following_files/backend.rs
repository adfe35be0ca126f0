//! Files that are also written outside of tool calls, such as the history.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::entry::Target;
use prowess_backend::{
    Backend, BackendError, Contents, Edit, Edited, Entry, Execute, GlobQuery, GlobReport, GrepQuery,
    GrepReport, Listing, ReadRange, VirtualPath, WriteMode,
};

use super::opened::{OpenFiles, Opened};

/// Files of which a part is stored as soon as it is written.
#[derive(Debug)]
pub(super) struct FollowedBackend {
    files: Arc<dyn Backend>,
    outside: VirtualPath,
    opened: Arc<Opened>,
}

impl FollowedBackend {
    /// The backend of an open thread. It is always the same.
    pub(super) fn of(open: &OpenFiles, files: &Arc<dyn Backend>, outside: &VirtualPath) -> Arc<dyn Backend> {
        let new = || -> Arc<dyn Backend> {
            let opened = Arc::clone(&open.opened);
            Arc::new(Self { files: Arc::clone(files), outside: outside.clone(), opened })
        };
        Arc::clone(open.backend.get_or_init(new))
    }

    fn is_outside(&self, path: &VirtualPath) -> bool {
        self.files.known_as(path).starts_with(&self.outside)
    }

    /// Restores the files before something is written that is stored at once.
    async fn make_ready(&self, path: &VirtualPath) -> Result<(), BackendError> {
        if !self.is_outside(path) {
            return Ok(());
        }
        let failed = |source| BackendError::Io { path: path.clone(), operation: "restoring", source };
        self.opened.shared.ready().await.map_err(failed)
    }

    /// Stores what was written. Who wrote it must not rely on it before.
    async fn settle(&self, path: &VirtualPath) -> Result<(), BackendError> {
        if !self.is_outside(path) {
            return Ok(());
        }
        let failed = |source| BackendError::Io { path: path.clone(), operation: "storing", source };
        self.opened.settle().await.map(drop).map_err(failed)
    }
}

#[async_trait]
impl Backend for FollowedBackend {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing, BackendError> {
        self.files.ls(path).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry, BackendError> {
        self.files.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents, BackendError> {
        self.files.read(path, range).await
    }

    async fn read_many(&self, paths: &[VirtualPath], max_bytes: u64) -> Vec<Result<Contents, BackendError>> {
        self.files.read_many(paths, max_bytes).await
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry, BackendError> {
        self.make_ready(path).await?;
        let entry = self.files.write(path, bytes, mode).await?;
        self.settle(path).await.map(|()| entry)
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry, BackendError> {
        self.make_ready(path).await?;
        let entry = self.files.append(path, bytes).await?;
        self.settle(path).await.map(|()| entry)
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited, BackendError> {
        self.make_ready(path).await?;
        let edited = self.files.edit(path, edit).await?;
        self.settle(path).await.map(|()| edited)
    }

    async fn swap(&self, path: &VirtualPath, before: Bytes, after: Bytes) -> Result<Entry, BackendError> {
        self.make_ready(path).await?;
        let entry = self.files.swap(path, before, after).await?;
        self.settle(path).await.map(|()| entry)
    }

    async fn delete(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.make_ready(path).await?;
        self.files.delete(path).await?;
        self.settle(path).await
    }

    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport, BackendError> {
        self.files.glob(base, query).await
    }

    async fn grep(&self, base: &VirtualPath, query: &GrepQuery) -> Result<GrepReport, BackendError> {
        self.files.grep(base, query).await
    }

    async fn check_change(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.files.check_change(path).await
    }

    fn known_as(&self, path: &VirtualPath) -> VirtualPath {
        self.files.known_as(path)
    }

    async fn target(&self, path: &VirtualPath) -> Target {
        self.files.target(path).await
    }

    fn executor(&self) -> Option<&dyn Execute> {
        self.files.executor()
    }
}
