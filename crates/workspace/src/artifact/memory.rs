//! Artifacts in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use super::{ArtifactError, ArtifactIndex, ArtifactKey, ArtifactRecord, BlobStore, Scope};

/// The bytes of artifacts in memory.
///
/// ```
/// use std::sync::Arc;
/// use prowess_workspace::artifact::{MemoryBlobs, MemoryIndex};
/// use prowess_workspace::Artifacts;
///
/// // The same as `Artifacts::in_memory()`.
/// let artifacts = Artifacts::new(Arc::new(MemoryBlobs::default()), Arc::new(MemoryIndex::default()));
/// ```
#[derive(Debug, Default)]
pub struct MemoryBlobs(Mutex<(u64, HashMap<String, Bytes>)>);

/// An index of artifacts in memory.
///
/// ```
/// use prowess_workspace::artifact::MemoryIndex;
/// use prowess_workspace::{ArtifactIndex, ArtifactKey, ArtifactName, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let index = MemoryIndex::default();
/// let key = ArtifactKey::new(Scope::user(), ArtifactName::parse("june.txt")?);
/// assert_eq!(index.latest(&key).await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MemoryIndex(Mutex<BTreeMap<ArtifactKey, Versions>>);

/// The versions of one name. It stays after a removal, so that no number is used again.
#[derive(Debug, Default)]
struct Versions {
    next: u64,
    records: Vec<ArtifactRecord>,
}

/// Locks a mutex. A panic never leaves its data half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl BlobStore for MemoryBlobs {
    async fn put(&self, bytes: Bytes) -> Result<String, ArtifactError> {
        let mut inner = lock(&self.0);
        inner.0 += 1;
        let blob = inner.0.to_string();
        inner.1.insert(blob.clone(), bytes);
        Ok(blob)
    }

    async fn get(&self, blob: &str, size: u64) -> Result<Option<Bytes>, ArtifactError> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        Ok(lock(&self.0).1.get(blob).map(|bytes| bytes.slice(..bytes.len().min(size))))
    }

    async fn remove(&self, blob: &str) -> Result<(), ArtifactError> {
        lock(&self.0).1.remove(blob);
        Ok(())
    }
}

#[async_trait]
impl ArtifactIndex for MemoryIndex {
    async fn add(&self, key: &ArtifactKey, mut record: ArtifactRecord) -> Result<u64, ArtifactError> {
        let mut inner = lock(&self.0);
        let versions = inner.entry(key.clone()).or_default();
        let version = versions.next;
        versions.next += 1;
        record.version = version;
        versions.records.push(record);
        Ok(version)
    }

    async fn add_as(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<bool, ArtifactError> {
        let mut inner = lock(&self.0);
        let versions = inner.entry(key.clone()).or_default();
        let is_new = record.version >= versions.next;
        if is_new {
            versions.next = record.version + 1;
            versions.records.push(record);
        }
        Ok(is_new)
    }

    async fn get(&self, key: &ArtifactKey, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError> {
        Ok(self.versions(key).await?.into_iter().find(|record| record.version == version))
    }

    async fn latest(&self, key: &ArtifactKey) -> Result<Option<ArtifactRecord>, ArtifactError> {
        Ok(lock(&self.0).get(key).and_then(|all| all.records.last()).cloned())
    }

    async fn versions(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        Ok(lock(&self.0).get(key).map(|all| all.records.clone()).unwrap_or_default())
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let inner = lock(&self.0);
        let own = inner.iter().filter(|(key, _)| key.scope == *scope);
        Ok(own.filter_map(|(_, all)| all.records.last()).cloned().collect())
    }

    async fn scopes(&self) -> Result<Vec<Scope>, ArtifactError> {
        let mut scopes: Vec<Scope> = lock(&self.0).keys().map(|key| key.scope.clone()).collect();
        scopes.dedup();
        Ok(scopes)
    }

    async fn remove(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let mut inner = lock(&self.0);
        Ok(inner.get_mut(key).map(|all| std::mem::take(&mut all.records)).unwrap_or_default())
    }
}
