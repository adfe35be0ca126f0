//! Artifacts in object stores: S3, memory, and others that the crate `object_store` supports.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions};
use prowess_base::hex::encode;

use super::versions::VersionNumbers;
use super::{ArtifactError, ArtifactIndex, ArtifactKey, ArtifactRecord, BlobStore, Scope};
use crate::digest::digest;

/// How often a save tries for a version while others take it.
const MAX_ATTEMPTS: u32 = 10_000;
/// The object that names the scope of those beside it.
const SCOPE: &str = "scope";
/// The end of a deletion mark's key.
const DELETED: &str = ".gone";
/// How many random names are tried for a blob. One is enough unless the random source is broken.
const MAX_NAMES: u32 = 4;

/// The bytes of artifacts as objects, below `<prefix>/blobs/`.
///
/// ```
/// use std::sync::Arc;
/// use object_store::memory::InMemory;
/// use prowess_workspace::artifact::ObjectBlobs;
/// use prowess_workspace::BlobStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let blobs = ObjectBlobs::new(Arc::new(InMemory::new()), "team");
/// let blob = blobs.put("june".into()).await?;
/// assert_eq!(blobs.get(&blob, 1024).await?.as_deref(), Some(&b"june"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ObjectBlobs {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

/// An index of artifacts as objects. The shared scope has the keys `<prefix>/index/<name>/<version>`, with the name in
/// hexadecimal. Other scopes have `<prefix>/scopes/<digest of the scope>/<name>/<version>`, and an object `scope` that
/// names the scope.
///
/// A saver gets a version by creating its object if there is none. The store must support such conditional creation, as
/// Amazon S3 and compatible stores do. A deletion writes a mark with the last deleted version. The mark stays, so no
/// later version gets a deleted number.
///
/// ```
/// use std::sync::Arc;
/// use object_store::memory::InMemory;
/// use prowess_workspace::artifact::{ObjectBlobs, ObjectIndex};
/// use prowess_workspace::{ArtifactName, ArtifactStore, Artifacts};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(InMemory::new()); // or any other that can create on a condition
/// let blobs = ObjectBlobs::new(store.clone(), "team");
/// let artifacts = Artifacts::new(Arc::new(blobs), Arc::new(ObjectIndex::new(store, "team")));
/// let name = ArtifactName::parse("june.txt")?;
/// assert_eq!(artifacts.save(&name, "june".into(), "text/plain").await?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ObjectIndex {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    scopes: Path,
}

// The `Debug` of a store may show its credentials; its `Display` shows its name.
impl fmt::Debug for ObjectBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectBlobs({}, {})", self.store, self.prefix)
    }
}

impl fmt::Debug for ObjectIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectIndex({}, {})", self.store, self.prefix)
    }
}

fn failed(action: &str) -> impl Fn(Error) -> ArtifactError {
    move |error| ArtifactError::store(format!("{action} in the object store"), error)
}

fn creating() -> PutOptions {
    PutOptions { mode: PutMode::Create, ..PutOptions::default() }
}

impl ObjectBlobs {
    /// Bytes in `store` below `prefix`.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self { store, prefix: Path::from(prefix).join("blobs") }
    }
}

#[async_trait]
impl BlobStore for ObjectBlobs {
    async fn put(&self, bytes: Bytes) -> Result<String, ArtifactError> {
        for _ in 0..MAX_NAMES {
            let blob = random_name()?;
            let path = self.prefix.clone().join(blob.as_str());
            match self.store.put_opts(&path, bytes.clone().into(), creating()).await {
                Ok(_) => return Ok(blob),
                Err(Error::AlreadyExists { .. }) => {}
                Err(error) => return Err(failed("writing bytes")(error)),
            }
        }
        Err(ArtifactError::store("writing bytes in the object store", "all random names are taken"))
    }

    async fn get(&self, blob: &str, size: u64) -> Result<Option<Bytes>, ArtifactError> {
        let path = self.prefix.clone().join(blob);
        if size == 0 {
            // An empty range is not valid.
            return match self.store.head(&path).await {
                Ok(_) => Ok(Some(Bytes::new())),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(failed("reading bytes")(error)),
            };
        }
        match self.store.get_range(&path, 0..size).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed("reading bytes")(error)),
        }
    }

    async fn remove(&self, blob: &str) -> Result<(), ArtifactError> {
        match self.store.delete(&self.prefix.clone().join(blob)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("removing bytes")(error)),
        }
    }

    async fn older_than(&self, older_than: Duration) -> Result<Vec<String>, ArtifactError> {
        let limit = SystemTime::now().checked_sub(older_than).unwrap_or(UNIX_EPOCH);
        let limit = limit.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let is_old = |meta: &ObjectMeta| u64::try_from(meta.last_modified.timestamp()).unwrap_or(0) <= limit;
        let name =
            |meta: ObjectMeta| is_old(&meta).then(|| meta.location.filename().map(str::to_owned)).flatten();
        let found = self.store.list(Some(&self.prefix)).map_ok(name);
        let found = found.try_filter_map(|name| std::future::ready(Ok(name)));
        found.try_collect().await.map_err(failed("listing bytes"))
    }
}

fn random_name() -> Result<String, ArtifactError> {
    let mut random = [0; 16];
    let read = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut random));
    read.map_err(|error| ArtifactError::store("reading random bytes", error))?;
    Ok(encode(&random))
}

impl ObjectIndex {
    /// An index in `store` below `prefix`.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        let prefix = Path::from(prefix);
        Self { store, scopes: prefix.clone().join("scopes"), prefix: prefix.join("index") }
    }

    /// The prefix of a scope.
    fn scope(&self, scope: &Scope) -> Path {
        if scope.is_shared() {
            return self.prefix.clone();
        }
        self.scopes.clone().join(digest(scope.as_str().as_bytes()))
    }

    /// Writes the name of a scope before its first artifact.
    async fn write_scope(&self, scope: &Scope) -> Result<(), ArtifactError> {
        if scope.is_shared() {
            return Ok(());
        }
        let text = Bytes::from(scope.as_str().to_owned());
        match self.store.put_opts(&self.scope(scope).join(SCOPE), text.into(), creating()).await {
            Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(failed("writing a scope")(error)),
        }
    }

    fn directory(&self, key: &ArtifactKey) -> Path {
        self.scope(&key.scope).join(encode(key.name.as_str().as_bytes()))
    }

    fn path(&self, key: &ArtifactKey, version: u64) -> Path {
        self.directory(key).join(format!("{version:020}"))
    }

    fn mark(&self, key: &ArtifactKey, version: u64) -> Path {
        self.directory(key).join(format!("{version:020}{DELETED}"))
    }

    async fn numbers(&self, key: &ArtifactKey) -> Result<VersionNumbers, ArtifactError> {
        let found = self.store.list(Some(&self.directory(key)));
        let found: Vec<Path> =
            found.map_ok(|meta| meta.location).try_collect().await.map_err(failed("listing versions"))?;
        Ok(version_numbers(&found))
    }

    async fn discard(&self, path: &Path) -> Result<(), ArtifactError> {
        match self.store.delete(path).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("deleting a version")(error)),
        }
    }

    async fn read(&self, path: &Path) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let bytes = match self.store.get(path).await {
            Ok(found) => found.bytes().await.map_err(failed("reading a record"))?,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed("reading a record")(error)),
        };
        let record = serde_json::from_slice(&bytes);
        record.map(Some).map_err(|error| ArtifactError::store(format!("reading the record {path}"), error))
    }
}

/// The version numbers in the keys of these objects.
fn version_numbers<'a>(paths: impl IntoIterator<Item = &'a Path>) -> VersionNumbers {
    let (mut records, mut deleted) = (Vec::new(), Vec::new());
    for name in paths.into_iter().filter_map(Path::filename) {
        match name.strip_suffix(DELETED) {
            Some(number) => deleted.extend(number.parse::<u64>()),
            None => records.extend(name.parse::<u64>()),
        }
    }
    VersionNumbers::new(records, deleted)
}

#[async_trait]
impl ArtifactIndex for ObjectIndex {
    async fn add(&self, key: &ArtifactKey, mut record: ArtifactRecord) -> Result<u64, ArtifactError> {
        self.write_scope(&key.scope).await?;
        let mut version = self.numbers(key).await?.next();
        for _ in 0..MAX_ATTEMPTS {
            record.version = version;
            let bytes = serde_json::to_vec(&record)
                .map_err(|error| ArtifactError::store("writing a record", error))?;
            match self.store.put_opts(&self.path(key, version), bytes.into(), creating()).await {
                // Others may have used and deleted the number since it was read. Their deletion may have taken this
                // record or another one, so the save starts again with new bytes.
                Ok(_) if self.numbers(key).await?.is_deleted(version) => {
                    self.discard(&self.path(key, version)).await?;
                    return Err(ArtifactError::Busy { name: key.to_string() });
                }
                Ok(_) => return Ok(version),
                Err(Error::AlreadyExists { .. }) => {
                    // It may be this very record, if the answer to a first try was lost.
                    let found = self.read(&self.path(key, version)).await?;
                    if found.is_some_and(|found| found.blob == record.blob) {
                        return Ok(version);
                    }
                    version += 1;
                }
                Err(error) => return Err(failed("writing a record")(error)),
            }
        }
        Err(ArtifactError::Busy { name: key.to_string() })
    }

    async fn add_as(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<bool, ArtifactError> {
        self.write_scope(&key.scope).await?;
        if record.version < self.numbers(key).await?.next() {
            return Ok(false);
        }
        let bytes =
            serde_json::to_vec(&record).map_err(|error| ArtifactError::store("writing a record", error))?;
        match self.store.put_opts(&self.path(key, record.version), bytes.into(), creating()).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(failed("writing a record")(error)),
        }
    }

    async fn get(&self, key: &ArtifactKey, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let found = self.read(&self.path(key, version)).await?;
        // Marked as deleted, but its object still exists.
        Ok(if found.is_some() && self.numbers(key).await?.is_deleted(version) { None } else { found })
    }

    async fn latest(&self, key: &ArtifactKey) -> Result<Option<ArtifactRecord>, ArtifactError> {
        match self.numbers(key).await?.visible().last() {
            Some(version) => self.read(&self.path(key, *version)).await,
            None => Ok(None),
        }
    }

    async fn versions(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let mut records = Vec::new();
        for version in self.numbers(key).await?.visible() {
            records.extend(self.read(&self.path(key, *version)).await?);
        }
        Ok(records)
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let found: Vec<Path> = self
            .store
            .list(Some(&self.scope(scope)))
            .map_ok(|meta| meta.location)
            .try_collect()
            .await
            .map_err(failed("listing artifacts"))?;
        let mut names: BTreeMap<String, Vec<Path>> = BTreeMap::new();
        for path in found {
            if let Some((directory, _)) = path.as_ref().rsplit_once('/') {
                names.entry(directory.to_owned()).or_default().push(path);
            }
        }
        let mut records = Vec::new();
        for (directory, paths) in names {
            if let Some(version) = version_numbers(&paths).visible().last() {
                records.extend(self.read(&Path::from(format!("{directory}/{version:020}"))).await?);
            }
        }
        Ok(records)
    }

    async fn scopes(&self) -> Result<Vec<Scope>, ArtifactError> {
        let listed = self.store.list_with_delimiter(Some(&self.scopes)).await;
        let mut scopes = vec![Scope::shared()];
        for place in listed.map_err(failed("listing scopes"))?.common_prefixes {
            let noted = match self.store.get(&place.clone().join(SCOPE)).await {
                Ok(found) => found.bytes().await.map_err(failed("reading a scope"))?,
                Err(error) => return Err(failed("reading a scope")(error)),
            };
            let scope = String::from_utf8_lossy(&noted).parse::<Scope>();
            scopes.push(scope.map_err(|problem| ArtifactError::store("reading a scope", problem))?);
        }
        Ok(scopes)
    }

    async fn remove(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let before = self.numbers(key).await?;
        let Some(last) = before.visible().last().copied() else { return Ok(Vec::new()) };
        let mark = self.store.put(&self.mark(key, last), Bytes::new().into()).await;
        mark.map_err(failed("deleting versions"))?;
        let mut records = Vec::new();
        for version in before.records.iter().copied() {
            let path = self.path(key, version);
            records.extend(self.read(&path).await?);
            self.discard(&path).await?;
        }
        for older in before.deleted.iter().copied().filter(|older| *older < last) {
            self.discard(&self.mark(key, older)).await?;
        }
        Ok(records)
    }
}
