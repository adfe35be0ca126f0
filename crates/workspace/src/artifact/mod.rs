//! Artifacts: files that runs saved, each save as a new version.
//!
//! [`Artifacts`] joins a [`BlobStore`], which holds bytes, and an [`ArtifactIndex`], which gives
//! version numbers. Both exist in memory, on disk and in object stores.

mod artifacts;
mod blobs;
mod disk;
mod index;
mod memory;
mod name;
#[cfg(feature = "object")]
mod object;
mod scope;
#[cfg(feature = "testing")]
pub(crate) mod testing;
mod versions;

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use artifacts::{Artifacts, MAX_ARTIFACT_BYTES};
pub use blobs::BlobStore;
pub use disk::{DiskBlobs, DiskIndex};
pub use index::{ArtifactIndex, ArtifactRecord};
pub use memory::{MemoryBlobs, MemoryIndex};
pub use name::{ArtifactName, ArtifactNameProblem, MAX_ARTIFACT_NAME};
#[cfg(feature = "object")]
pub use object::{ObjectBlobs, ObjectIndex};
#[cfg(feature = "s3")]
pub use prowess_backend::object::S3Config;
pub use scope::{ArtifactKey, MAX_SCOPE, Scope, ScopeProblem};

/// Why an artifact could not be saved, loaded or deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// There is no such artifact, or not in this version.
    #[error("there is no artifact `{name}`{}", version.map(|version| format!(" in version {version}")).unwrap_or_default())]
    NotFound {
        /// Its name.
        name: String,
        /// The requested version, if there was one.
        version: Option<u64>,
    },
    /// It is larger than [`MAX_ARTIFACT_BYTES`].
    #[error("the artifact `{name}` has {size} bytes; the limit is {MAX_ARTIFACT_BYTES}")]
    TooLarge {
        /// Its name.
        name: String,
        /// Its size.
        size: u64,
    },
    /// Too many others save under the same name at the same time.
    #[error("too many callers are saving the artifact `{name}` at the same time; try again")]
    Busy {
        /// Its name.
        name: String,
    },
    /// The stored bytes or record are not those that were saved.
    #[error("version {version} of the artifact `{name}` is damaged: {problem}")]
    Damaged {
        /// Its name.
        name: String,
        /// The version.
        version: u64,
        /// The problem.
        problem: String,
    },
    /// The disk, database or object store failed.
    #[error("{action}: {error}")]
    Store {
        /// The failed action, such as `listing artifacts`.
        action: String,
        /// The error of the store.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ArtifactError {
    /// An error of the disk, database or object store.
    pub fn store(
        action: impl Into<String>,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Store { action: action.into(), error: error.into() }
    }
}

/// A saved artifact, as a report names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactFile {
    /// Its name.
    pub name: String,
    /// Its version, counted from 0.
    pub version: u64,
}

/// One version of an artifact with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedArtifact {
    /// Its version.
    pub version: u64,
    /// Its media type.
    pub mime_type: String,
    /// Its bytes.
    pub bytes: Bytes,
}

/// A store for artifacts.
///
/// Each save of a name gets the next version number, counted from 0. Two saves never share a number, even if they
/// happen at the same time. A saved version never changes, and a listed version can always be loaded.
///
/// ```
/// use prowess_workspace::{ArtifactError, ArtifactName, ArtifactStore, Artifacts};
///
/// async fn publish(store: &dyn ArtifactStore, text: &'static str) -> Result<u64, ArtifactError> {
///     let name = ArtifactName::parse("notes.txt").expect("a name");
///     store.save(&name, text.into(), "text/plain").await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let artifacts = Artifacts::in_memory();
/// publish(&artifacts, "draft").await?;
/// assert_eq!(publish(&artifacts, "final").await?, 1);
/// assert_eq!(artifacts.list().await?[0].version, 1);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait ArtifactStore: Send + Sync + Debug {
    /// Saves a new version and returns its number.
    ///
    /// # Errors
    ///
    /// Nothing was saved.
    async fn save(&self, name: &ArtifactName, bytes: Bytes, mime_type: &str) -> Result<u64, ArtifactError>;

    /// Loads a version; the latest if none is given.
    ///
    /// # Errors
    ///
    /// [`ArtifactError::NotFound`], or the store failed.
    async fn load(&self, name: &ArtifactName, version: Option<u64>) -> Result<LoadedArtifact, ArtifactError>;

    /// Lists the latest version of every artifact, sorted by name.
    ///
    /// # Errors
    ///
    /// The store failed.
    async fn list(&self) -> Result<Vec<ArtifactRecord>, ArtifactError>;

    /// Lists the versions of a name, oldest first; empty if there is no such artifact.
    ///
    /// # Errors
    ///
    /// The store failed.
    async fn versions(&self, name: &ArtifactName) -> Result<Vec<u64>, ArtifactError>;

    /// Deletes all versions of a name. A later save gets the next number: a number is never used twice.
    ///
    /// # Errors
    ///
    /// [`ArtifactError::NotFound`], or the store failed.
    async fn delete(&self, name: &ArtifactName) -> Result<(), ArtifactError>;
}
