//! Contents in an object store.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt as _};

use super::{ContentStore, StoredContent, too_large};
use crate::inventory::error::BoxError;

/// Contents as objects below a prefix. The store need not support conditional writes.
///
/// ```
/// use std::sync::Arc;
/// use object_store::memory::InMemory;
/// use prowess_workspace::inventory::{ContentStore, ObjectContents};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let store = ObjectContents::new(Arc::new(InMemory::new()), "team");
/// store.put("one", "low tide".into()).await?;
/// assert_eq!(store.get("one", 8).await?.as_deref(), Some(&b"low tide"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ObjectContents {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

// The `Debug` of a store may show its credentials; its `Display` shows its name.
impl fmt::Debug for ObjectContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectContents({}, {})", self.store, self.prefix)
    }
}

impl ObjectContents {
    /// Contents in `store` below `prefix`.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self { store, prefix: Path::from(prefix) }
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), Path::join)
    }
}

/// When an object was written, in whole seconds: some answers of stores have no parts of them.
fn written(meta: &ObjectMeta) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(meta.last_modified.timestamp()).unwrap_or(0))
}

#[async_trait]
impl ContentStore for ObjectContents {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), BoxError> {
        self.store.put(&self.path(name), bytes.into()).await?;
        Ok(())
    }

    async fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, BoxError> {
        match self.store.get(&self.path(name)).await {
            // Known before any byte arrives.
            Ok(found) if found.meta.size > most => Err(too_large(most)),
            Ok(found) => Ok(Some(found.bytes().await?)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn size(&self, name: &str) -> Result<Option<u64>, BoxError> {
        match self.store.head(&self.path(name)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn written(&self, name: &str) -> Result<Option<SystemTime>, BoxError> {
        match self.store.head(&self.path(name)).await {
            Ok(found) => Ok(Some(written(&found))),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn remove(&self, name: &str) -> Result<(), BoxError> {
        match self.store.delete(&self.path(name)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn list(&self, directory: &str) -> Result<Vec<StoredContent>, BoxError> {
        let skip = match self.prefix.as_ref() {
            "" => 0,
            prefix => prefix.len() + 1,
        };
        let stored = |meta: ObjectMeta| {
            let name = meta.location.as_ref().get(skip..).unwrap_or_default().to_owned();
            StoredContent { name, written: written(&meta) }
        };
        let mut found: Vec<_> =
            self.store.list(Some(&self.path(directory))).map_ok(stored).try_collect().await?;
        found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }
}
