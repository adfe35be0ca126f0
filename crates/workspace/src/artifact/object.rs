//! Artifacts in object stores: S3, memory, and whatever else `object_store` speaks to.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions};

use super::{ArtifactError, ArtifactIndex, ArtifactName, ArtifactRecord, BlobStore};
use crate::digest::hex;

/// How often a version is tried for while others take it.
const MAX_ATTEMPTS: u32 = 10_000;
/// How many names are tried for a blob. One is enough unless chance is broken.
const MAX_NAMES: u32 = 4;

/// Bytes as objects, below `<prefix>/blobs/`.
#[derive(Clone)]
pub struct ObjectBlobs {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

/// An index as objects: `<prefix>/index/<name>/<version>`, the name in hexadecimal.
///
/// A version is given by creating its object on the condition that there is none, which the store must
/// support; Amazon's and those that speak its protocol do.
#[derive(Clone)]
pub struct ObjectIndex {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

// A store's own `Debug` may show its credentials; its `Display` is its name.
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
        Err(ArtifactError::store("writing bytes in the object store", "every name is taken"))
    }

    async fn get(&self, blob: &str, size: u64) -> Result<Option<Bytes>, ArtifactError> {
        let path = self.prefix.clone().join(blob);
        if size == 0 {
            // No range is that small.
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
}

fn random_name() -> Result<String, ArtifactError> {
    let mut random = [0; 16];
    let read = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut random));
    read.map_err(|error| ArtifactError::store("reading random bytes", error))?;
    Ok(hex(&random))
}

impl ObjectIndex {
    /// An index in `store` below `prefix`.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self { store, prefix: Path::from(prefix).join("index") }
    }

    fn directory(&self, name: &ArtifactName) -> Path {
        self.prefix.clone().join(hex(name.as_str().as_bytes()))
    }

    fn path(&self, name: &ArtifactName, version: u64) -> Path {
        self.directory(name).join(format!("{version:020}"))
    }

    async fn numbers(&self, name: &ArtifactName) -> Result<Vec<u64>, ArtifactError> {
        let found = self.store.list(Some(&self.directory(name)));
        let mut numbers: Vec<u64> = found
            .map_ok(|meta| meta.location.filename().and_then(|name| name.parse::<u64>().ok()))
            .try_filter_map(|number| std::future::ready(Ok(number)))
            .try_collect()
            .await
            .map_err(failed("listing versions"))?;
        numbers.sort_unstable();
        Ok(numbers)
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

#[async_trait]
impl ArtifactIndex for ObjectIndex {
    async fn add(&self, name: &ArtifactName, mut record: ArtifactRecord) -> Result<u64, ArtifactError> {
        let mut version = self.numbers(name).await?.last().map_or(0, |last| last + 1);
        for _ in 0..MAX_ATTEMPTS {
            record.version = version;
            let bytes = serde_json::to_vec(&record)
                .map_err(|error| ArtifactError::store("writing a record", error))?;
            match self.store.put_opts(&self.path(name, version), bytes.into(), creating()).await {
                Ok(_) => return Ok(version),
                Err(Error::AlreadyExists { .. }) => {
                    // It may be this very record, when the store's answer to a first try was lost.
                    let found = self.read(&self.path(name, version)).await?;
                    if found.is_some_and(|found| found.blob == record.blob) {
                        return Ok(version);
                    }
                    version += 1;
                }
                Err(error) => return Err(failed("writing a record")(error)),
            }
        }
        Err(ArtifactError::Busy { name: name.to_string() })
    }

    async fn get(&self, name: &ArtifactName, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError> {
        self.read(&self.path(name, version)).await
    }

    async fn latest(&self, name: &ArtifactName) -> Result<Option<ArtifactRecord>, ArtifactError> {
        match self.numbers(name).await?.last() {
            Some(version) => self.get(name, *version).await,
            None => Ok(None),
        }
    }

    async fn versions(&self, name: &ArtifactName) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let mut records = Vec::new();
        for version in self.numbers(name).await? {
            records.extend(self.get(name, version).await?);
        }
        Ok(records)
    }

    async fn list(&self) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let found: Vec<Path> = self
            .store
            .list(Some(&self.prefix))
            .map_ok(|meta| meta.location)
            .try_collect()
            .await
            .map_err(failed("listing artifacts"))?;
        // Versions are of one width: the last of a name's keys is its latest.
        let mut latest = std::collections::BTreeMap::new();
        for path in found {
            let directory = path.as_ref().rsplit_once('/').map(|(directory, _)| directory.to_owned());
            let newest = latest.entry(directory).or_insert_with(|| path.clone());
            if *newest < path {
                *newest = path;
            }
        }
        let mut records = Vec::new();
        for path in latest.values() {
            records.extend(self.read(path).await?);
        }
        Ok(records)
    }

    async fn remove(&self, name: &ArtifactName) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let records = self.versions(name).await?;
        // From the last to the first: what is left at any time is numbered from 0.
        for record in records.iter().rev() {
            match self.store.delete(&self.path(name, record.version)).await {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(failed("deleting a version")(error)),
            }
        }
        Ok(records)
    }
}
