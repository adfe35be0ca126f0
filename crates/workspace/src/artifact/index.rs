//! Which artifacts there are.

use std::fmt::Debug;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{ArtifactError, ArtifactKey, Scope};

/// What is known of a version of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// The artifact's name.
    pub name: String,
    /// The version.
    pub version: u64,
    /// What it is.
    pub mime_type: String,
    /// How many bytes it has.
    pub size: u64,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub digest: String,
    /// Where its bytes are, as the [`BlobStore`](super::BlobStore) named them.
    pub blob: String,
}

/// Knows which artifacts there are, and gives versions.
///
/// ```
/// use prowess_workspace::artifact::{ArtifactRecord, MemoryIndex};
/// use prowess_workspace::{ArtifactIndex, ArtifactKey, ArtifactName, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let index = MemoryIndex::default();
/// let key = ArtifactKey::new(Scope::user(), ArtifactName::parse("reports/june.txt")?);
/// let record = ArtifactRecord {
///     name: key.name.as_str().into(),
///     version: 0,
///     mime_type: "text/plain".into(),
///     size: 3,
///     digest: "e3b0…".into(),
///     blob: "blob-1".into(),
/// };
/// assert_eq!(index.add(&key, record.clone()).await?, 0);
/// assert_eq!(index.add(&key, record).await?, 1, "the index gives the version");
/// assert_eq!(index.latest(&key).await?.map(|record| record.version), Some(1));
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait ArtifactIndex: Send + Sync + Debug {
    /// Adds `record` under the next version of `key`, whatever version it has, and says which that is.
    ///
    /// The first is 0. No two callers get the same, and one that was given is never given again, not even after
    /// it was removed.
    ///
    /// # Errors
    ///
    /// The index did not do its part; [`ArtifactError::Busy`] when others were in the way, and nothing was added.
    async fn add(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<u64, ArtifactError>;

    /// Adds `record` under the version that it has, unless that or a later one was given before. Says whether it did.
    ///
    /// # Errors
    ///
    /// The index did not do its part.
    async fn add_as(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<bool, ArtifactError>;

    /// One version.
    ///
    /// # Errors
    ///
    /// The index did not do its part.
    async fn get(&self, key: &ArtifactKey, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError>;

    /// The latest version.
    ///
    /// # Errors
    ///
    /// The index did not do its part.
    async fn latest(&self, key: &ArtifactKey) -> Result<Option<ArtifactRecord>, ArtifactError>;

    /// Every version of `key`, oldest first.
    ///
    /// # Errors
    ///
    /// The index did not do its part.
    async fn versions(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError>;

    /// The latest version of every artifact of a scope, in any order.
    ///
    /// # Errors
    ///
    /// The index did not do its part.
    async fn list(&self, scope: &Scope) -> Result<Vec<ArtifactRecord>, ArtifactError>;

    /// Every scope that has, or had, artifacts, in any order.
    ///
    /// # Errors
    ///
    /// The index did not do its part.
    async fn scopes(&self) -> Result<Vec<Scope>, ArtifactError>;

    /// Forgets every version of `key`, and says what they were.
    ///
    /// # Errors
    ///
    /// The index did not do its part.
    async fn remove(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError>;
}
