//! The index of artifacts on the local disk: which versions exist.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::{AtFlags, FileType, linkat};
use rustix::io::Errno;

use super::open;
use crate::artifact::versions::VersionNumbers;
use crate::artifact::{ArtifactError, ArtifactIndex, ArtifactKey, ArtifactRecord, MAX_SCOPE, Scope};
use crate::blocking::blocking;
use crate::digest::digest;
use crate::dir::{Dir, NoFile, OWN_PREFIX};

/// The most bytes that are read of a record.
const MAX_RECORD: u64 = 16 * 1024;
/// How often a save tries for a version while others take it.
const MAX_ATTEMPTS: u32 = 10_000;
/// The directory of all scopes except the shared one, whose artifacts lie beside it.
const SCOPES: &str = "scopes";
/// The file that names the scope of its directory.
const SCOPE: &str = "scope";
/// The end of a record's file name.
const RECORD: &str = ".json";
/// The end of a deletion mark's file name.
const DELETED: &str = ".gone";

/// An index of artifacts in files: one directory per scope, in it one per name, in it one file per version. The names of
/// directories are digests, never text that somebody chose.
///
/// A saver gets a version by creating its file, which succeeds for one saver only. So savers need no lock, in one
/// process or in many. A deletion writes a mark with the last deleted version. The mark stays, so no later version gets
/// a deleted number.
///
/// ```
/// use std::sync::Arc;
/// use prowess_workspace::artifact::{DiskBlobs, DiskIndex};
/// use prowess_workspace::{ArtifactName, ArtifactStore, Artifacts};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// let open = || {
///     let blobs = DiskBlobs::open(place.path().join("blobs"))?;
///     let index = DiskIndex::open(place.path().join("index"))?;
///     Ok::<_, prowess_workspace::ArtifactError>(Artifacts::new(Arc::new(blobs), Arc::new(index)))
/// };
/// let name = ArtifactName::parse("june.txt")?;
/// open()?.save(&name, "june".into(), "text/plain").await?;
/// assert_eq!(open()?.versions(&name).await?, [0], "also in the next process");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DiskIndex {
    root: Arc<Dir>,
}

impl DiskIndex {
    /// The index below `root`, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or opened.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, ArtifactError> {
        Ok(Self { root: open(root.as_ref())? })
    }

    /// Works on the directory of an existing scope; `None` if the scope has no artifacts.
    async fn in_scope<T: Send + 'static>(
        &self,
        action: &'static str,
        key: &ArtifactKey,
        work: impl FnOnce(&Dir, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<Option<T>, ArtifactError> {
        let (root, scope) = (Arc::clone(&self.root), key.scope.clone());
        let entry = digest(key.name.as_str().as_bytes());
        let done = blocking(move || open_scope(&root, &scope)?.map(|found| work(&found, &entry)).transpose());
        let failed = |error| ArtifactError::store(format!("{action} the artifact `{key}`"), error);
        done.await.flatten().map_err(failed)
    }

    /// Works on the directory of a scope, which is created if it is missing.
    async fn in_new_scope<T: Send + 'static>(
        &self,
        key: &ArtifactKey,
        work: impl FnOnce(&Dir, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ArtifactError> {
        let (root, scope) = (Arc::clone(&self.root), key.scope.clone());
        let entry = digest(key.name.as_str().as_bytes());
        let done = blocking(move || work(&*make_scope(&root, &scope)?, &entry));
        let failed = |error| ArtifactError::store(format!("saving the artifact `{key}`"), error);
        done.await.flatten().map_err(failed)
    }
}

#[async_trait]
impl ArtifactIndex for DiskIndex {
    async fn add(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<u64, ArtifactError> {
        let added = self.in_new_scope(key, move |scope, entry| add(scope, entry, record)).await?;
        added.ok_or_else(|| ArtifactError::Busy { name: key.to_string() })
    }

    async fn add_as(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<bool, ArtifactError> {
        self.in_new_scope(key, move |scope, entry| {
            let directory = scope.make_dir(entry, 0o700, None)?;
            if record.version < version_numbers(&directory)?.next() {
                return Ok(false);
            }
            let is_new = create_record(&directory, &record)?;
            rustix::fs::fsync(scope)?;
            Ok(is_new)
        })
        .await
    }

    async fn get(&self, key: &ArtifactKey, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let found = self.in_scope("looking up", key, move |scope, entry| match open_entry(scope, entry)? {
            Some(directory) if !version_numbers(&directory)?.is_deleted(version) => read(&directory, version),
            _ => Ok(None),
        });
        Ok(found.await?.flatten())
    }

    async fn latest(&self, key: &ArtifactKey) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let found = self.in_scope("looking up", key, |scope, entry| match open_entry(scope, entry)? {
            Some(directory) => latest(&directory),
            None => Ok(None),
        });
        Ok(found.await?.flatten())
    }

    async fn versions(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let found = self.in_scope("looking up", key, |scope, entry| match open_entry(scope, entry)? {
            Some(directory) => read_all(&directory),
            None => Ok(Vec::new()),
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let (root, scope) = (Arc::clone(&self.root), scope.clone());
        let list = blocking(move || {
            let mut records = Vec::new();
            let Some(scope) = open_scope(&root, &scope)? else { return Ok(records) };
            for (name, kind) in scope.entries(usize::MAX)?.0 {
                if kind != FileType::Directory || name == SCOPES || is_own(&name) {
                    continue;
                }
                if let Some(directory) = open_entry(&scope, &name.to_string_lossy())? {
                    records.extend(latest(&directory)?);
                }
            }
            Ok(records)
        });
        list.await.flatten().map_err(|error: io::Error| ArtifactError::store("listing artifacts", error))
    }

    async fn scopes(&self) -> Result<Vec<Scope>, ArtifactError> {
        let root = Arc::clone(&self.root);
        let list = blocking(move || scopes(&root));
        list.await.flatten().map_err(|error| ArtifactError::store("listing the scopes of artifacts", error))
    }

    async fn remove(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let removed = self.in_scope("deleting", key, |scope, entry| {
            let Some(directory) = open_entry(scope, entry)? else { return Ok(Vec::new()) };
            let Some(last) = version_numbers(&directory)?.visible().last().copied() else {
                return Ok(Vec::new());
            };
            directory.replace_durably(&deleted_name(last), b"", 0o600, None)?;
            remove_deleted(&directory, last)
        });
        Ok(removed.await?.unwrap_or_default())
    }
}

fn is_own(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with(OWN_PREFIX)
}

/// The directory of a scope, if it has artifacts.
fn open_scope(root: &Arc<Dir>, scope: &Scope) -> io::Result<Option<Arc<Dir>>> {
    if scope.is_shared() {
        return Ok(Some(Arc::clone(root)));
    }
    let Some(scopes) = open_entry(root, SCOPES)? else { return Ok(None) };
    Ok(open_entry(&scopes, &digest(scope.as_str().as_bytes()))?.map(Arc::new))
}

/// The directory of a scope, created if it is missing. A file that names the scope is written first.
fn make_scope(root: &Arc<Dir>, scope: &Scope) -> io::Result<Arc<Dir>> {
    if scope.is_shared() {
        return Ok(Arc::clone(root));
    }
    let scopes = root.make_dir(SCOPES, 0o700, None)?;
    let directory = scopes.make_dir(digest(scope.as_str().as_bytes()), 0o700, None)?;
    if directory.entry(SCOPE)?.is_none() {
        directory.replace_durably(SCOPE, scope.as_str().as_bytes(), 0o600, None)?;
        rustix::fs::fsync(&scopes)?;
        rustix::fs::fsync(root)?;
    }
    Ok(Arc::new(directory))
}

/// The scopes that have a directory.
fn scopes(root: &Dir) -> io::Result<Vec<Scope>> {
    let mut found = vec![Scope::shared()];
    let Some(scopes) = open_entry(root, SCOPES)? else { return Ok(found) };
    for (name, kind) in scopes.entries(usize::MAX)?.0 {
        if kind != FileType::Directory || is_own(&name) {
            continue;
        }
        let directory = scopes.dir(&name)?;
        let mut text = String::new();
        match directory.file(SCOPE) {
            Ok((file, _)) => drop(file.take(MAX_SCOPE as u64 + 1).read_to_string(&mut text)?),
            // A crash came before anything was saved there.
            Err(NoFile::Io(error))
                if error.kind() == io::ErrorKind::NotFound
                    && directory.entries(usize::MAX)?.0.iter().all(|(name, _)| is_own(name)) =>
            {
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        found.push(text.parse().map_err(io::Error::other)?);
    }
    Ok(found)
}

fn open_entry(root: &Dir, key: &str) -> io::Result<Option<Dir>> {
    match root.dir(key) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates the file of the next version; `None` if others were always faster.
fn add(root: &Dir, key: &str, mut record: ArtifactRecord) -> io::Result<Option<u64>> {
    let directory = root.make_dir(key, 0o700, None)?;
    let mut version = version_numbers(&directory)?.next();
    for _ in 0..MAX_ATTEMPTS {
        record.version = version;
        match create_record(&directory, &record)? {
            true => {
                rustix::fs::fsync(root)?;
                let numbers = version_numbers(&directory)?;
                // Others may have used and deleted the number since it was read. Then take the record back and try the
                // next number. If the record is gone already, it was saved and then deleted.
                if numbers.is_deleted(version) && remove_record(&directory, version)? {
                    version = numbers.next();
                } else {
                    return Ok(Some(version));
                }
            }
            false => version += 1,
        }
    }
    Ok(None)
}

/// Creates the file of a version. Returns whether it is new.
fn create_record(directory: &Dir, record: &ArtifactRecord) -> io::Result<bool> {
    let temporary = directory.temporary(&serde_json::to_vec(record)?, 0o600, None)?;
    let linked = linkat(directory, &*temporary, directory, record_name(record.version), AtFlags::empty());
    directory.discard(&temporary);
    match linked {
        Ok(()) => Ok(rustix::fs::fsync(directory)?).map(|()| true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes the file of a version. Returns whether this caller removed it.
fn remove_record(directory: &Dir, version: u64) -> io::Result<bool> {
    match rustix::fs::unlinkat(directory, record_name(version), AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes the records up to a deletion mark, and the older marks. Returns the records that this caller removed, so that
/// exactly one caller removes the bytes of each.
fn remove_deleted(directory: &Dir, last: u64) -> io::Result<Vec<ArtifactRecord>> {
    let numbers = version_numbers(directory)?;
    let mut records = Vec::new();
    for version in numbers.records.iter().copied().filter(|version| *version <= last) {
        let record = read(directory, version)?;
        if remove_record(directory, version)? {
            records.extend(record);
        }
    }
    for older in numbers.deleted.iter().filter(|older| **older < last) {
        directory.discard(&deleted_name(*older));
    }
    Ok(records)
}

fn record_name(version: u64) -> String {
    format!("{version:020}{RECORD}")
}

fn deleted_name(version: u64) -> String {
    format!("{version:020}{DELETED}")
}

/// The version numbers in a directory.
fn version_numbers(directory: &Dir) -> io::Result<VersionNumbers> {
    let (entries, _) = directory.entries(usize::MAX)?;
    let numbers = |suffix: &str| {
        let number = |name: &OsStr| name.to_str()?.strip_suffix(suffix)?.parse().ok();
        entries.iter().filter_map(|(name, _)| number(name)).collect()
    };
    Ok(VersionNumbers::new(numbers(RECORD), numbers(DELETED)))
}

fn latest(directory: &Dir) -> io::Result<Option<ArtifactRecord>> {
    match version_numbers(directory)?.visible().last() {
        Some(version) => read(directory, *version),
        None => Ok(None),
    }
}

fn read_all(directory: &Dir) -> io::Result<Vec<ArtifactRecord>> {
    let numbers = version_numbers(directory)?;
    let records = numbers.visible().iter().map(|version| read(directory, *version));
    records.filter_map(Result::transpose).collect()
}

fn read(directory: &Dir, version: u64) -> io::Result<Option<ArtifactRecord>> {
    match directory.file(record_name(version)) {
        Ok((file, _)) => {
            let mut bytes = Vec::new();
            file.take(MAX_RECORD).read_to_end(&mut bytes)?;
            Ok(Some(serde_json::from_slice(&bytes)?))
        }
        Err(NoFile::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
