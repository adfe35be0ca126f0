//! Artifacts: files that outlive the run that made them, each save a version of its own.

mod blobs;
mod disk;
mod index;
mod memory;
mod name;
#[cfg(feature = "object")]
mod object;
#[cfg(feature = "s3")]
mod s3;
mod scope;
#[cfg(feature = "testing")]
pub(crate) mod testing;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use blobs::BlobStore;
pub use disk::{DiskBlobs, DiskIndex};
pub use index::{ArtifactIndex, ArtifactRecord};
pub use memory::{MemoryBlobs, MemoryIndex};
pub use name::{ArtifactName, ArtifactNameProblem, MAX_ARTIFACT_NAME};
#[cfg(feature = "object")]
pub use object::{ObjectBlobs, ObjectIndex};
#[cfg(feature = "s3")]
pub use s3::S3Bucket;
pub use scope::{ArtifactKey, MAX_SCOPE, Scope, ScopeProblem};

/// How often a save is tried that others are in the way of.
const MAX_SAVES: u32 = 16;
/// The largest artifact, in bytes.
pub const MAX_ARTIFACT_BYTES: u64 = 256 << 20;

/// Why an artifact could not be saved, loaded or deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// There is no such artifact, or not in that version.
    #[error("there is no artifact `{name}`{}", version.map(|version| format!(" in version {version}")).unwrap_or_default())]
    NotFound {
        /// Its name.
        name: String,
        /// The version, if one was asked for.
        version: Option<u64>,
    },
    /// It has more than [`MAX_ARTIFACT_BYTES`].
    #[error("the artifact `{name}` has {size} bytes, more than {MAX_ARTIFACT_BYTES}")]
    TooLarge {
        /// Its name.
        name: String,
        /// Its size.
        size: u64,
    },
    /// Others save under the same name so often that no version could be had.
    #[error("the artifact `{name}` is saved by too many at once; try again")]
    Busy {
        /// Its name.
        name: String,
    },
    /// What is stored is not what was saved.
    #[error("the artifact `{name}` is damaged in version {version}: {problem}")]
    Damaged {
        /// Its name.
        name: String,
        /// The version.
        version: u64,
        /// What is wrong.
        problem: String,
    },
    /// The store did not do its part.
    #[error("{action}: {error}")]
    Store {
        /// What was to be done.
        action: String,
        /// What the store said.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ArtifactError {
    /// A failure of what lies below.
    pub fn store(
        action: impl Into<String>,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Store { action: action.into(), error: error.into() }
    }
}

/// An artifact that was saved, as answers name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactFile {
    /// Its name.
    pub name: String,
    /// Its version, from 0.
    pub version: u64,
}

/// A version of an artifact, read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedArtifact {
    /// Its version.
    pub version: u64,
    /// What it is.
    pub mime_type: String,
    /// Its bytes.
    pub bytes: Bytes,
}

/// Keeps artifacts.
///
/// Versions of a name are numbered from 0 in the order of their saves; each save has one, no two share one,
/// whoever saves at the same time, and none is ever changed. A version that is listed can be loaded whole.
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
    /// Saves a new version, and says which.
    ///
    /// # Errors
    ///
    /// Nothing was saved.
    async fn save(&self, name: &ArtifactName, bytes: Bytes, mime_type: &str) -> Result<u64, ArtifactError>;

    /// Reads a version; the latest when none is given.
    ///
    /// # Errors
    ///
    /// [`ArtifactError::NotFound`], or the store did not do its part.
    async fn load(&self, name: &ArtifactName, version: Option<u64>) -> Result<LoadedArtifact, ArtifactError>;

    /// The latest version of every artifact, by name.
    ///
    /// # Errors
    ///
    /// The store did not do its part.
    async fn list(&self) -> Result<Vec<ArtifactRecord>, ArtifactError>;

    /// Every version of a name, oldest first; none when there is no such artifact.
    ///
    /// # Errors
    ///
    /// The store did not do its part.
    async fn versions(&self, name: &ArtifactName) -> Result<Vec<u64>, ArtifactError>;

    /// Deletes every version of a name. A later save goes on with the next number: a version that was named once
    /// never becomes another.
    ///
    /// # Errors
    ///
    /// [`ArtifactError::NotFound`], or the store did not do its part.
    async fn delete(&self, name: &ArtifactName) -> Result<(), ArtifactError>;
}

/// Artifacts of one [`Scope`], whose bytes are in one place and whose index is in another.
///
/// A new value has the shared scope, which all have who name none. Give each thread, session or client its own with
/// [`Artifacts::in_scope`]: then none of them reads or replaces what another saved.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use prowess_workspace::{ArtifactName, ArtifactStore, Artifacts, Scope};
///
/// let artifacts = Artifacts::in_memory();
/// let name = ArtifactName::parse("reports/june.txt")?;
/// assert_eq!(artifacts.save(&name, "one".into(), "text/plain").await?, 0);
/// assert_eq!(artifacts.save(&name, "two".into(), "text/plain").await?, 1);
/// assert_eq!(artifacts.load(&name, Some(0)).await?.bytes, "one");
///
/// let other = artifacts.in_scope(Scope::thread("another")?);
/// assert!(other.load(&name, None).await.is_err());
/// assert_eq!(other.save(&name, "three".into(), "text/plain").await?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Artifacts {
    blobs: Arc<dyn BlobStore>,
    index: Arc<dyn ArtifactIndex>,
    scope: Scope,
}

impl Artifacts {
    /// Artifacts in these two places.
    pub fn new(blobs: Arc<dyn BlobStore>, index: Arc<dyn ArtifactIndex>) -> Self {
        Self { blobs, index, scope: Scope::shared() }
    }

    /// The same place with the artifacts of this scope.
    #[must_use]
    pub fn in_scope(&self, scope: Scope) -> Self {
        Self { scope, ..self.clone() }
    }

    /// Whose artifacts these are.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// All scopes of this place that have, or had, artifacts, in order.
    ///
    /// # Errors
    ///
    /// The store did not do its part.
    pub async fn scopes(&self) -> Result<Vec<Scope>, ArtifactError> {
        let mut scopes = self.index.scopes().await?;
        scopes.sort();
        scopes.dedup();
        Ok(scopes)
    }

    fn key(&self, name: &ArtifactName) -> ArtifactKey {
        ArtifactKey::new(self.scope.clone(), name.clone())
    }

    /// Artifacts below a directory of the local disk, which is made if it is missing. Several processes may
    /// use it at the same time.
    ///
    /// # Errors
    ///
    /// The directory cannot be made or opened.
    pub fn on_disk(root: impl AsRef<Path>) -> Result<Self, ArtifactError> {
        let root = root.as_ref();
        let blobs = DiskBlobs::open(root.join("blobs"))?;
        Ok(Self::new(Arc::new(blobs), Arc::new(DiskIndex::open(root.join("index"))?)))
    }

    /// Artifacts that are gone with this value.
    pub fn in_memory() -> Self {
        Self::new(Arc::new(MemoryBlobs::default()), Arc::new(MemoryIndex::default()))
    }

    /// Artifacts in an object store below `prefix`, which must support conditional creation.
    #[cfg(feature = "object")]
    pub fn in_object_store(store: Arc<dyn object_store::ObjectStore>, prefix: &str) -> Self {
        let blobs = ObjectBlobs::new(Arc::clone(&store), prefix);
        Self::new(Arc::new(blobs), Arc::new(ObjectIndex::new(store, prefix)))
    }

    /// Artifacts in a bucket of Amazon S3, or of what speaks its protocol and knows conditional writes. Nothing is
    /// sent until the first use.
    ///
    /// # Errors
    ///
    /// The settings contradict each other or make no address.
    #[cfg(feature = "s3")]
    pub fn in_s3(bucket: S3Bucket) -> Result<Self, ArtifactError> {
        let prefix = bucket.prefix.clone();
        Ok(Self::in_object_store(bucket.open()?, &prefix))
    }

    async fn save_once(
        &self,
        name: &ArtifactName,
        bytes: Bytes,
        mime_type: &str,
    ) -> Result<u64, ArtifactError> {
        let (size, digest) = (bytes.len() as u64, crate::digest::digest(&bytes));
        let key = self.key(name);
        // First the bytes, then the record: a crash between leaves bytes that nobody names, and never a
        // version without its bytes.
        let blob = self.blobs.put(bytes).await?;
        let record = ArtifactRecord {
            name: name.to_string(),
            version: 0,
            mime_type: mime_type.to_owned(),
            size,
            digest,
            blob: blob.clone(),
        };
        let added = self.index.add(&key, record).await;
        if added.is_err() {
            // The record may be there all the same if the answer was lost: only then are the bytes needed.
            let is_known = match self.index.versions(&key).await {
                Ok(records) => records.iter().any(|record| record.blob == blob),
                Err(_) => true,
            };
            if !is_known {
                self.blobs.remove(&blob).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "bytes of a failed save are left behind");
                });
            }
        }
        added
    }

    /// How many bytes a version has.
    ///
    /// # Errors
    ///
    /// [`ArtifactError::NotFound`], or the store did not do its part.
    pub async fn size(&self, name: &ArtifactName, version: u64) -> Result<u64, ArtifactError> {
        let found = self.index.get(&self.key(name), version).await?;
        let missing = || ArtifactError::NotFound { name: name.to_string(), version: Some(version) };
        found.map(|record| record.size).ok_or_else(missing)
    }

    /// Every version of every artifact of this scope, of a name the oldest first.
    async fn records(&self) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let mut records = Vec::new();
        for latest in self.index.list(&self.scope).await? {
            let name = ArtifactName::parse(&latest.name);
            let name = name.map_err(|problem| ArtifactError::store("reading the index", problem))?;
            records.extend(self.index.versions(&self.key(&name)).await?);
        }
        Ok(records)
    }

    /// Gives another scope a copy of every version there is here, under the same name and number. A number that was
    /// given there already is left as it is. Says how many were copied.
    ///
    /// # Errors
    ///
    /// The store did not do its part. What was copied before stays.
    pub async fn copy_all(&self, to: &Scope) -> Result<usize, ArtifactError> {
        let mut copied = 0;
        for record in self.records().await? {
            copied += usize::from(self.copy_record(record, to).await?);
        }
        Ok(copied)
    }

    /// The same for one version. Says whether it was copied.
    ///
    /// # Errors
    ///
    /// The store did not do its part.
    pub async fn copy(&self, name: &ArtifactName, version: u64, to: &Scope) -> Result<bool, ArtifactError> {
        match self.index.get(&self.key(name), version).await? {
            Some(record) => self.copy_record(record, to).await,
            None => Ok(false),
        }
    }

    async fn copy_record(&self, mut record: ArtifactRecord, to: &Scope) -> Result<bool, ArtifactError> {
        let name = ArtifactName::parse(&record.name);
        let name = name.map_err(|problem| ArtifactError::store("reading the index", problem))?;
        // Each record has bytes of its own, so that either can be deleted.
        let Some(blob) = self.blobs.copy(&record.blob, record.size).await? else { return Ok(false) };
        record.blob.clone_from(&blob);
        let added = self.index.add_as(&ArtifactKey::new(to.clone(), name), record).await;
        if matches!(added, Ok(false)) {
            self.blobs.remove(&blob).await?;
        }
        added
    }

    /// Removes bytes that no version in any scope names and that were written longer than `older_than` ago: what a crash in the
    /// middle of a save left, or a deletion that did not end. Says how many.
    ///
    /// A save that takes longer than that loses its bytes, so give it an hour or more.
    ///
    /// # Errors
    ///
    /// The store did not do its part.
    pub async fn sweep(&self, older_than: Duration) -> Result<usize, ArtifactError> {
        // First the bytes: what is named after this look was younger.
        let mut left: BTreeSet<String> = self.blobs.older_than(older_than).await?.into_iter().collect();
        if left.is_empty() {
            return Ok(0);
        }
        for scope in self.scopes().await? {
            for record in self.in_scope(scope).records().await? {
                left.remove(&record.blob);
            }
        }
        for blob in &left {
            self.blobs.remove(blob).await?;
        }
        Ok(left.len())
    }
}

#[async_trait]
impl ArtifactStore for Artifacts {
    async fn save(&self, name: &ArtifactName, bytes: Bytes, mime_type: &str) -> Result<u64, ArtifactError> {
        let size = bytes.len() as u64;
        if size > MAX_ARTIFACT_BYTES {
            return Err(ArtifactError::TooLarge { name: name.to_string(), size });
        }
        for _ in 1..MAX_SAVES {
            match self.save_once(name, bytes.clone(), mime_type).await {
                Err(ArtifactError::Busy { .. }) => {}
                saved => return saved,
            }
        }
        self.save_once(name, bytes, mime_type).await
    }

    async fn load(&self, name: &ArtifactName, version: Option<u64>) -> Result<LoadedArtifact, ArtifactError> {
        let key = self.key(name);
        let found = match version {
            Some(version) => self.index.get(&key, version).await?,
            None => self.index.latest(&key).await?,
        };
        let Some(record) = found else {
            return Err(ArtifactError::NotFound { name: name.to_string(), version });
        };
        let version = record.version;
        let damaged = |problem: &str| ArtifactError::Damaged {
            name: name.to_string(),
            version,
            problem: problem.to_owned(),
        };
        let Some(bytes) = self.blobs.get(&record.blob, record.size).await? else {
            return Err(match self.index.get(&key, version).await? {
                Some(same) if same.blob == record.blob => damaged("its bytes are missing"),
                // Deleted between the look at the index and this, and perhaps saved anew.
                _ => ArtifactError::NotFound { name: name.to_string(), version: Some(version) },
            });
        };
        if crate::digest::digest(&bytes) != record.digest {
            return Err(damaged("its bytes are not those that were saved"));
        }
        Ok(LoadedArtifact { version, mime_type: record.mime_type, bytes })
    }

    async fn list(&self) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let mut records = self.index.list(&self.scope).await?;
        records.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(records)
    }

    async fn versions(&self, name: &ArtifactName) -> Result<Vec<u64>, ArtifactError> {
        Ok(self.index.versions(&self.key(name)).await?.iter().map(|record| record.version).collect())
    }

    async fn delete(&self, name: &ArtifactName) -> Result<(), ArtifactError> {
        let removed = self.index.remove(&self.key(name)).await?;
        if removed.is_empty() {
            return Err(ArtifactError::NotFound { name: name.to_string(), version: None });
        }
        for record in removed {
            // Without its record it is gone for everybody; bytes that stay only take room.
            if let Err(error) = self.blobs.remove(&record.blob).await {
                tracing::warn!(%error, name = %name, "bytes of a deleted artifact are left behind");
            }
        }
        Ok(())
    }
}
