//! A backend that is opened when it is first used.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::entry::Target;
use prowess_backend::{
    Backend, BackendError, Contents, Edit, Edited, Entry, GlobQuery, GlobReport, GrepQuery, GrepReport,
    Listing, ReadRange, VirtualPath, WriteMode,
};
use tokio::sync::OnceCell;

/// Opens a backend. It may block.
type Open = dyn Fn() -> Result<Arc<dyn Backend>, Box<dyn std::error::Error + Send + Sync>> + Send + Sync;

/// A backend that is opened when it is first used, such as the workspace of a thread that may never run a command.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::tree_files::LazyBackend;
/// use prowess_backend::{Backend, MemoryBackend, VirtualPath};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), prowess_backend::BackendError> {
/// let files = LazyBackend::new(|| Ok(Arc::new(MemoryBackend::new())));
/// assert!(files.ls(&VirtualPath::root()).await?.entries.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct LazyBackend {
    open: Arc<Open>,
    opened: OnceCell<Arc<dyn Backend>>,
}

impl LazyBackend {
    /// A backend that `open` opens.
    pub fn new(
        open: impl Fn() -> Result<Arc<dyn Backend>, Box<dyn std::error::Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { open: Arc::new(open), opened: OnceCell::new() }
    }

    async fn backend(&self, path: &VirtualPath) -> Result<&Arc<dyn Backend>, BackendError> {
        let failed = |source| BackendError::Io { path: path.clone(), operation: "opening", source };
        let open = || {
            let open = Arc::clone(&self.open);
            async move {
                let opened = tokio::task::spawn_blocking(move || open()).await;
                opened.map_err(|error| failed(error.into()))?.map_err(failed)
            }
        };
        self.opened.get_or_try_init(open).await
    }
}

impl fmt::Debug for LazyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyBackend").field("opened", &self.opened).finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for LazyBackend {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing, BackendError> {
        self.backend(path).await?.ls(path).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry, BackendError> {
        self.backend(path).await?.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents, BackendError> {
        self.backend(path).await?.read(path, range).await
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry, BackendError> {
        self.backend(path).await?.write(path, bytes, mode).await
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry, BackendError> {
        self.backend(path).await?.append(path, bytes).await
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited, BackendError> {
        self.backend(path).await?.edit(path, edit).await
    }

    async fn swap(&self, path: &VirtualPath, before: Bytes, after: Bytes) -> Result<Entry, BackendError> {
        self.backend(path).await?.swap(path, before, after).await
    }

    async fn delete(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.backend(path).await?.delete(path).await
    }

    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport, BackendError> {
        self.backend(base).await?.glob(base, query).await
    }

    async fn grep(&self, base: &VirtualPath, query: &GrepQuery) -> Result<GrepReport, BackendError> {
        self.backend(base).await?.grep(base, query).await
    }

    async fn check_change(&self, path: &VirtualPath) -> Result<(), BackendError> {
        self.backend(path).await?.check_change(path).await
    }

    async fn target(&self, path: &VirtualPath) -> Target {
        match self.backend(path).await {
            Ok(backend) => backend.target(path).await,
            Err(_) => Target::itself(path),
        }
    }
}
