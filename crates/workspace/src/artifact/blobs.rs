//! Storage for the bytes of artifacts.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::ArtifactError;

/// Stores bytes under names that it chooses.
///
/// ```
/// use prowess_workspace::artifact::MemoryBlobs;
/// use prowess_workspace::BlobStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let blobs = MemoryBlobs::default();
/// let blob = blobs.put("june".into()).await?;
/// assert_eq!(blobs.get(&blob, 1024).await?.as_deref(), Some(&b"june"[..]));
/// blobs.remove(&blob).await?;
/// assert_eq!(blobs.get(&blob, 1024).await?, None);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait BlobStore: Send + Sync + Debug {
    /// Stores `bytes` under a new name, completely or not at all. Returns the name.
    ///
    /// # Errors
    ///
    /// Nothing was stored.
    async fn put(&self, bytes: Bytes) -> Result<String, ArtifactError>;

    /// Reads at most `size` bytes of `blob`; `None` if there is no such blob.
    ///
    /// # Errors
    ///
    /// The bytes cannot be read.
    async fn get(&self, blob: &str, size: u64) -> Result<Option<Bytes>, ArtifactError>;

    /// Copies `blob`, which has `size` bytes, and returns the new name; `None` if there is no such blob. Removing one copy
    /// does not affect the other.
    ///
    /// # Errors
    ///
    /// The bytes cannot be read or stored.
    async fn copy(&self, blob: &str, size: u64) -> Result<Option<String>, ArtifactError> {
        match self.get(blob, size).await? {
            Some(bytes) => self.put(bytes).await.map(Some),
            None => Ok(None),
        }
    }

    /// Removes `blob`, if it exists.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    async fn remove(&self, blob: &str) -> Result<(), ArtifactError>;

    /// Lists the blobs that are older than `older_than`. A store that never leaves unused blobs can return nothing.
    ///
    /// # Errors
    ///
    /// The blobs cannot be listed.
    async fn older_than(&self, older_than: Duration) -> Result<Vec<String>, ArtifactError> {
        let _ = older_than;
        Ok(Vec::new())
    }
}
