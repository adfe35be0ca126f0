//! The index of artifacts: which versions exist.

use std::fmt::Debug;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{ArtifactError, ArtifactKey, Scope};

/// The record of one version of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// The artifact's name.
    pub name: String,
    /// The version.
    pub version: u64,
    /// Its media type.
    pub mime_type: String,
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub digest: String,
    /// The name of its bytes in the [`BlobStore`](super::BlobStore).
    pub blob: String,
}

/// An index of artifacts. It gives out version numbers.
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
/// assert_eq!(index.add(&key, record).await?, 1, "the index chooses the version");
/// assert_eq!(index.latest(&key).await?.map(|record| record.version), Some(1));
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait ArtifactIndex: Send + Sync + Debug {
    /// Adds `record` as the next version of `key`, and returns that version. The version in `record` is ignored.
    ///
    /// The first version is 0. Two callers never get the same version, and a removed version is never used again.
    ///
    /// # Errors
    ///
    /// The index failed. With [`ArtifactError::Busy`], others were faster, and nothing was added.
    async fn add(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<u64, ArtifactError>;

    /// Adds `record` under its own version, unless that or a later version was used before. Returns whether it was added.
    ///
    /// # Errors
    ///
    /// The index failed.
    async fn add_as(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<bool, ArtifactError>;

    /// Returns one version.
    ///
    /// # Errors
    ///
    /// The index failed.
    async fn get(&self, key: &ArtifactKey, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError>;

    /// Returns the latest version.
    ///
    /// # Errors
    ///
    /// The index failed.
    async fn latest(&self, key: &ArtifactKey) -> Result<Option<ArtifactRecord>, ArtifactError>;

    /// Lists the versions of `key`, oldest first.
    ///
    /// # Errors
    ///
    /// The index failed.
    async fn versions(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError>;

    /// Lists the latest version of every artifact in a scope, in any order.
    ///
    /// # Errors
    ///
    /// The index failed.
    async fn list(&self, scope: &Scope) -> Result<Vec<ArtifactRecord>, ArtifactError>;

    /// Lists the scopes that have, or had, artifacts, in any order.
    ///
    /// # Errors
    ///
    /// The index failed.
    async fn scopes(&self) -> Result<Vec<Scope>, ArtifactError>;

    /// Removes all versions of `key`, and returns their records.
    ///
    /// # Errors
    ///
    /// The index failed.
    async fn remove(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError>;
}
