//! The standard artifact store: bytes in one place, an index of versions in another.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
#[cfg(feature = "s3")]
use prowess_backend::object::{S3Config, S3Defaults};

use super::{
    ArtifactError, ArtifactIndex, ArtifactKey, ArtifactName, ArtifactRecord, ArtifactStore, BlobStore,
    DiskBlobs, DiskIndex, LoadedArtifact, MemoryBlobs, MemoryIndex, Scope,
};
#[cfg(feature = "object")]
use super::{ObjectBlobs, ObjectIndex};

/// The largest artifact, in bytes.
pub const MAX_ARTIFACT_BYTES: u64 = 256 << 20;

/// How often a save is tried while others save under the same name.
const MAX_SAVES: u32 = 16;

/// The artifacts of one [`Scope`]: bytes in a [`BlobStore`], versions in an [`ArtifactIndex`].
///
/// A new value has the shared scope. Give each thread, session or client its own scope with [`Artifacts::in_scope`]:
/// then none of them sees or replaces what another saved.
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
    /// Artifacts with these two stores, in the shared scope.
    pub fn new(blobs: Arc<dyn BlobStore>, index: Arc<dyn ArtifactIndex>) -> Self {
        Self { blobs, index, scope: Scope::shared() }
    }

    /// The artifacts of another scope in the same stores.
    #[must_use]
    pub fn in_scope(&self, scope: Scope) -> Self {
        Self { scope, ..self.clone() }
    }

    /// The scope of these artifacts.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Lists the scopes that have, or had, artifacts, in order.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn scopes(&self) -> Result<Vec<Scope>, ArtifactError> {
        let mut scopes = self.index.scopes().await?;
        scopes.sort();
        scopes.dedup();
        Ok(scopes)
    }

    fn key(&self, name: &ArtifactName) -> ArtifactKey {
        ArtifactKey::new(self.scope.clone(), name.clone())
    }

    /// Artifacts below a local directory, which is created if it is missing. Several processes can use it at the
    /// same time.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or opened.
    pub fn on_disk(root: impl AsRef<Path>) -> Result<Self, ArtifactError> {
        let root = root.as_ref();
        let blobs = DiskBlobs::open(root.join("blobs"))?;
        Ok(Self::new(Arc::new(blobs), Arc::new(DiskIndex::open(root.join("index"))?)))
    }

    /// Artifacts in memory, gone with this value.
    pub fn in_memory() -> Self {
        Self::new(Arc::new(MemoryBlobs::default()), Arc::new(MemoryIndex::default()))
    }

    /// Artifacts in an object store, below `prefix`. The store must support conditional creation.
    #[cfg(feature = "object")]
    pub fn in_object_store(store: Arc<dyn object_store::ObjectStore>, prefix: &str) -> Self {
        let blobs = ObjectBlobs::new(Arc::clone(&store), prefix);
        Self::new(Arc::new(blobs), Arc::new(ObjectIndex::new(store, prefix)))
    }

    /// Artifacts in a bucket of Amazon S3, or of a compatible store with conditional writes. The first use sends the
    /// first request.
    ///
    /// Missing settings come from the environment: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
    /// `AWS_REGION` and `AWS_ENDPOINT_URL`. Without keys, requests use those of the instance or the task.
    ///
    /// ```
    /// use prowess_workspace::Artifacts;
    /// use prowess_workspace::artifact::S3Config;
    ///
    /// let mut bucket = S3Config::new("reports");
    /// bucket.endpoint = Some("http://localhost:9000".to_owned());
    /// bucket.access_key_id = Some("example".to_owned());
    /// bucket.secret_access_key = Some("not to be shown".into());
    /// let artifacts = Artifacts::in_s3(bucket)?;
    /// assert!(!format!("{artifacts:?}").contains("not to be shown"));
    /// # Ok::<(), prowess_workspace::ArtifactError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The settings contradict each other or are not a valid address.
    #[cfg(feature = "s3")]
    pub fn in_s3(bucket: S3Config) -> Result<Self, ArtifactError> {
        let prefix = bucket.prefix.clone();
        let store = bucket.store(S3Defaults::Environment);
        let store = store.map_err(|error| ArtifactError::store("opening the bucket", error))?;
        Ok(Self::in_object_store(store, prefix.as_str()))
    }

    async fn save_once(
        &self,
        name: &ArtifactName,
        bytes: Bytes,
        mime_type: &str,
    ) -> Result<u64, ArtifactError> {
        let (size, digest) = (bytes.len() as u64, crate::digest::digest(&bytes));
        let key = self.key(name);
        // First the bytes, then the record: a crash in between leaves unused bytes, never a version without bytes.
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
            // If only the answer was lost, the record exists and needs its bytes.
            let is_known = match self.index.versions(&key).await {
                Ok(records) => records.iter().any(|record| record.blob == blob),
                Err(_) => true,
            };
            if !is_known {
                self.blobs.remove(&blob).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "could not remove the bytes of a failed save");
                });
            }
        }
        added
    }

    /// The size of a version in bytes.
    ///
    /// # Errors
    ///
    /// [`ArtifactError::NotFound`], or the store failed.
    pub async fn size(&self, name: &ArtifactName, version: u64) -> Result<u64, ArtifactError> {
        let found = self.index.get(&self.key(name), version).await?;
        let missing = || ArtifactError::NotFound { name: name.to_string(), version: Some(version) };
        found.map(|record| record.size).ok_or_else(missing)
    }

    /// The records of all versions of a name, oldest first; empty if there is no such artifact.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn version_records(&self, name: &ArtifactName) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        self.index.versions(&self.key(name)).await
    }

    /// All versions of all artifacts in this scope; the versions of a name oldest first.
    async fn records(&self) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let mut records = Vec::new();
        for latest in self.index.list(&self.scope).await? {
            let name = ArtifactName::parse(&latest.name);
            let name = name.map_err(|problem| ArtifactError::store("reading the index", problem))?;
            records.extend(self.version_records(&name).await?);
        }
        Ok(records)
    }

    /// Copies all versions to another scope, with the same names and numbers. Numbers that are in use there are
    /// skipped. Returns how many versions were copied.
    ///
    /// # Errors
    ///
    /// The store failed. Versions copied before stay.
    pub async fn copy_all(&self, to: &Scope) -> Result<usize, ArtifactError> {
        let mut copied = 0;
        for record in self.records().await? {
            copied += usize::from(self.copy_record(record, to).await?);
        }
        Ok(copied)
    }

    /// Copies one version to another scope. Returns whether it was copied.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn copy(&self, name: &ArtifactName, version: u64, to: &Scope) -> Result<bool, ArtifactError> {
        match self.index.get(&self.key(name), version).await? {
            Some(record) => self.copy_record(record, to).await,
            None => Ok(false),
        }
    }

    async fn copy_record(&self, mut record: ArtifactRecord, to: &Scope) -> Result<bool, ArtifactError> {
        let name = ArtifactName::parse(&record.name);
        let name = name.map_err(|problem| ArtifactError::store("reading the index", problem))?;
        // Each record has its own bytes, so that either can be deleted.
        let Some(blob) = self.blobs.copy(&record.blob, record.size).await? else { return Ok(false) };
        record.blob.clone_from(&blob);
        let added = self.index.add_as(&ArtifactKey::new(to.clone(), name), record).await;
        if matches!(added, Ok(false)) {
            self.blobs.remove(&blob).await?;
        }
        added
    }

    /// Checks that the store can be listed, written and read: it lists the versions of one name, and saves some bytes for a
    /// moment.
    ///
    /// ```
    /// use prowess_workspace::Artifacts;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let artifacts = Artifacts::in_memory();
    /// artifacts.check().await?;
    /// assert_eq!(artifacts.scopes().await?.len(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn check(&self) -> Result<(), ArtifactError> {
        let name = ArtifactName::parse("check");
        let name = name.map_err(|problem| ArtifactError::store("naming the check", problem))?;
        self.index.latest(&self.key(&name)).await?;
        let bytes = Bytes::from_static(b"check");
        let blob = self.blobs.put(bytes.clone()).await?;
        let read = self.blobs.get(&blob, bytes.len() as u64).await;
        self.blobs.remove(&blob).await?;
        match read? {
            Some(read) if read == bytes => Ok(()),
            _ => Err(ArtifactError::store("reading bytes", "the store returned other bytes than it got")),
        }
    }

    /// Removes bytes that no version in any scope uses and that are older than `older_than`. Crashes during saves and
    /// deletions leave such bytes. Returns how many were removed.
    ///
    /// A save that takes longer than `older_than` loses its bytes, so allow an hour or more.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn sweep(&self, older_than: Duration) -> Result<usize, ArtifactError> {
        // List the bytes first: anything that gets a record later is younger.
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
                // Deleted since the index was read, and perhaps saved again.
                _ => ArtifactError::NotFound { name: name.to_string(), version: Some(version) },
            });
        };
        if crate::digest::digest(&bytes) != record.digest {
            return Err(damaged("its bytes have changed"));
        }
        Ok(LoadedArtifact { version, mime_type: record.mime_type, bytes })
    }

    async fn list(&self) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let mut records = self.index.list(&self.scope).await?;
        records.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(records)
    }

    async fn versions(&self, name: &ArtifactName) -> Result<Vec<u64>, ArtifactError> {
        Ok(self.version_records(name).await?.iter().map(|record| record.version).collect())
    }

    async fn delete(&self, name: &ArtifactName) -> Result<(), ArtifactError> {
        let removed = self.index.remove(&self.key(name)).await?;
        if removed.is_empty() {
            return Err(ArtifactError::NotFound { name: name.to_string(), version: None });
        }
        for record in removed {
            // Without a record nobody sees the artifact; its bytes only take space.
            if let Err(error) = self.blobs.remove(&record.blob).await {
                tracing::warn!(%error, name = %name, "could not remove the bytes of a deleted artifact");
            }
        }
        Ok(())
    }
}
