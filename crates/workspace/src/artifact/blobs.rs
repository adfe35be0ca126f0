//! Where the bytes of artifacts are.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::ArtifactError;

/// Keeps bytes under names that it chooses.
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
    /// Keeps `bytes` under a new name, and says which. They are there whole or not at all.
    ///
    /// # Errors
    ///
    /// Nothing is kept.
    async fn put(&self, bytes: Bytes) -> Result<String, ArtifactError>;

    /// What is kept under `blob`, of which no more than `size` bytes are read; `None` when there is nothing.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    async fn get(&self, blob: &str, size: u64) -> Result<Option<Bytes>, ArtifactError>;

    /// Keeps what is kept under `blob`, which has `size` bytes, under another name as well, and says which; `None` when
    /// there is nothing. Removing one of them leaves the other.
    ///
    /// # Errors
    ///
    /// It cannot be read, or nothing more is kept.
    async fn copy(&self, blob: &str, size: u64) -> Result<Option<String>, ArtifactError> {
        match self.get(blob, size).await? {
            Some(bytes) => self.put(bytes).await.map(Some),
            None => Ok(None),
        }
    }

    /// Removes what is kept under `blob`, if anything is.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    async fn remove(&self, blob: &str) -> Result<(), ArtifactError>;

    /// The names of what was put longer than `older_than` ago. A store that cannot leave anything behind has
    /// nothing to say.
    ///
    /// # Errors
    ///
    /// It cannot be listed.
    async fn older_than(&self, older_than: Duration) -> Result<Vec<String>, ArtifactError> {
        let _ = older_than;
        Ok(Vec::new())
    }
}
