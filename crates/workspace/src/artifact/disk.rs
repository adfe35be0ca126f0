//! Artifacts on the local disk.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use prowess_base::hex::encode;
use rustix::fs::{AtFlags, FileType, Timespec, Timestamps, UTIME_NOW, linkat};
use rustix::io::Errno;

use super::{ArtifactError, ArtifactIndex, ArtifactKey, ArtifactRecord, BlobStore, MAX_SCOPE, Scope};
use crate::blocking::blocking;
use crate::digest::digest;
use crate::dir::{Dir, NoFile, OWN_PREFIX};

/// The most that is read of a record.
const MAX_RECORD: u64 = 16 * 1024;
/// How often a version is tried for while others take it.
const MAX_ATTEMPTS: u32 = 10_000;
/// The directory of all scopes but the shared one, whose names lie beside it, and the file that says which scope it is.
const SCOPES: &str = "scopes";
const SCOPE: &str = "scope";
/// How many random bytes are in a blob's name. Names with 16, of earlier versions, are read; those versions remove what
/// no record of the shared scope names, and know nothing of longer names.
const BLOB_BYTES: usize = 20;
const OLDER_BLOB_BYTES: usize = 16;
const RECORD: &str = ".json";
const GONE: &str = ".gone";

/// Bytes in files of one directory.
///
/// ```
/// use std::sync::Arc;
/// use prowess_workspace::artifact::{DiskBlobs, MemoryIndex};
/// use prowess_workspace::{ArtifactName, ArtifactStore, Artifacts};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// let blobs = DiskBlobs::open(place.path())?;
/// let artifacts = Artifacts::new(Arc::new(blobs), Arc::new(MemoryIndex::default()));
/// let name = ArtifactName::parse("june.txt")?;
/// artifacts.save(&name, "june".into(), "text/plain").await?;
/// assert_eq!(artifacts.load(&name, None).await?.bytes, "june");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DiskBlobs {
    root: Arc<Dir>,
}

/// An index in files: one directory per scope, in it one per name, in it one file per version. No directory has a name
/// that somebody chose: it is a digest.
///
/// A version is given by creating its file, which the system lets one caller do. So savers take no lock, in
/// one process or in many, and there is none that a crash could leave behind. Versions are removed all at once by a
/// mark of the last of them, which stays: they are gone with it, and no later one has their numbers.
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
/// assert_eq!(open()?.versions(&name).await?, [0], "in the next process too");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DiskIndex {
    root: Arc<Dir>,
}

fn open(path: &Path) -> Result<Arc<Dir>, ArtifactError> {
    let opened = (|| {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Dir::open(path)
    })();
    let failed = |error| ArtifactError::store(format!("opening the artifacts at {}", path.display()), error);
    opened.map(Arc::new).map_err(failed)
}

impl DiskBlobs {
    /// The bytes below `root`, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// It cannot be made or opened.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, ArtifactError> {
        Ok(Self { root: open(root.as_ref())? })
    }
}

impl DiskIndex {
    /// The index below `root`, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// It cannot be made or opened.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, ArtifactError> {
        Ok(Self { root: open(root.as_ref())? })
    }

    async fn with<T: Send + 'static>(
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

    /// The same where something is added.
    async fn adding<T: Send + 'static>(
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
impl BlobStore for DiskBlobs {
    async fn put(&self, bytes: Bytes) -> Result<String, ArtifactError> {
        let root = Arc::clone(&self.root);
        let put = blocking(move || -> io::Result<String> {
            // Chosen at random: two processes on two machines that share the disk never meet.
            let blob = new_blob()?;
            let directory = root.make_dir(&blob[..2], 0o700, None)?;
            directory.replace_durably(&blob, &bytes, 0o600, None)?;
            Ok(blob)
        });
        put.await.flatten().map_err(|error| ArtifactError::store("writing an artifact's bytes", error))
    }

    async fn get(&self, blob: &str, size: u64) -> Result<Option<Bytes>, ArtifactError> {
        let Some(path) = path_of(blob) else { return Ok(None) };
        let root = Arc::clone(&self.root);
        let get = blocking(move || match root.file(path) {
            Ok((file, _)) => {
                let mut bytes = Vec::new();
                file.take(size).read_to_end(&mut bytes)?;
                Ok(Some(Bytes::from(bytes)))
            }
            Err(NoFile::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        });
        get.await.flatten().map_err(|error| ArtifactError::store("reading an artifact's bytes", error))
    }

    async fn copy(&self, blob: &str, size: u64) -> Result<Option<String>, ArtifactError> {
        let Some(path) = path_of(blob) else { return Ok(None) };
        let root = Arc::clone(&self.root);
        let copied = blocking(move || copy(&root, &path)).await.flatten();
        match copied.map_err(|error| ArtifactError::store("copying an artifact's bytes", error))? {
            Copied::Done(blob) => Ok(Some(blob)),
            Copied::Missing => Ok(None),
            Copied::Unlinkable => match self.get(blob, size).await? {
                Some(bytes) => self.put(bytes).await.map(Some),
                None => Ok(None),
            },
        }
    }

    async fn remove(&self, blob: &str) -> Result<(), ArtifactError> {
        let Some(path) = path_of(blob) else { return Ok(()) };
        let root = Arc::clone(&self.root);
        let remove = blocking(move || match rustix::fs::unlinkat(&*root, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(io::Error::from(error)),
        });
        remove.await.flatten().map_err(|error| ArtifactError::store("removing an artifact's bytes", error))
    }

    async fn older_than(&self, older_than: Duration) -> Result<Vec<String>, ArtifactError> {
        let root = Arc::clone(&self.root);
        let list = blocking(move || old_blobs(&root, older_than));
        list.await.flatten().map_err(|error| ArtifactError::store("listing the bytes of artifacts", error))
    }
}

/// The blobs that were written so long ago. What a crash left half written goes at once.
fn old_blobs(root: &Dir, older_than: Duration) -> io::Result<Vec<String>> {
    let limit = SystemTime::now().checked_sub(older_than).unwrap_or(UNIX_EPOCH);
    let limit = limit.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut old = Vec::new();
    for (part, kind) in root.entries(usize::MAX)?.0 {
        if kind != FileType::Directory {
            continue;
        }
        let directory = root.dir(&part)?;
        for (name, _) in directory.entries(usize::MAX)?.0 {
            let Some(stat) = directory.entry(&name)? else { continue };
            let name = name.to_string_lossy();
            if u64::try_from(stat.st_mtime).unwrap_or(0) > limit {
                continue;
            }
            if name.starts_with(OWN_PREFIX) {
                directory.discard(&name);
            } else if path_of(&name).is_some() {
                old.push(name.into_owned());
            }
        }
    }
    Ok(old)
}

/// What came of a second name for a blob.
enum Copied {
    Done(String),
    Missing,
    /// The file system has no second names for files.
    Unlinkable,
}

/// Gives a blob a second name: blobs are never changed.
fn copy(root: &Dir, path: &str) -> io::Result<Copied> {
    // What was written just now is not swept before a record names it.
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    match rustix::fs::utimensat(root, path, &times, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(Copied::Missing),
        Err(error) => return Err(error.into()),
    }
    let blob = new_blob()?;
    let directory = root.make_dir(&blob[..2], 0o700, None)?;
    match linkat(root, path, &directory, &*blob, AtFlags::empty()) {
        Ok(()) => {
            rustix::fs::fsync(&directory)?;
            Ok(Copied::Done(blob))
        }
        Err(Errno::NOENT) => Ok(Copied::Missing),
        Err(Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP) => Ok(Copied::Unlinkable),
        Err(error) => Err(error.into()),
    }
}

fn new_blob() -> io::Result<String> {
    let mut random = [0; BLOB_BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(encode(&random))
}

/// Where a blob is; `None` for what no blob is called.
fn path_of(blob: &str) -> Option<String> {
    let is_length = [2 * BLOB_BYTES, 2 * OLDER_BLOB_BYTES].contains(&blob.len());
    let is_name = is_length && blob.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| format!("{}/{blob}", &blob[..2]))
}

#[async_trait]
impl ArtifactIndex for DiskIndex {
    async fn add(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<u64, ArtifactError> {
        let added = self.adding(key, move |scope, entry| add(scope, entry, record)).await?;
        added.ok_or_else(|| ArtifactError::Busy { name: key.to_string() })
    }

    async fn add_as(&self, key: &ArtifactKey, record: ArtifactRecord) -> Result<bool, ArtifactError> {
        self.adding(key, move |scope, entry| {
            let directory = scope.make_dir(entry, 0o700, None)?;
            if record.version < Numbers::of(&directory)?.next() {
                return Ok(false);
            }
            let is_named = named(&directory, &record)?;
            rustix::fs::fsync(scope)?;
            Ok(is_named)
        })
        .await
    }

    async fn get(&self, key: &ArtifactKey, version: u64) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let found = self.with("looking up", key, move |scope, entry| match open_entry(scope, entry)? {
            Some(directory) if !Numbers::of(&directory)?.is_gone(version) => read(&directory, version),
            _ => Ok(None),
        });
        Ok(found.await?.flatten())
    }

    async fn latest(&self, key: &ArtifactKey) -> Result<Option<ArtifactRecord>, ArtifactError> {
        let found = self.with("looking up", key, |scope, entry| match open_entry(scope, entry)? {
            Some(directory) => latest(&directory),
            None => Ok(None),
        });
        Ok(found.await?.flatten())
    }

    async fn versions(&self, key: &ArtifactKey) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        let found = self.with("looking up", key, |scope, entry| match open_entry(scope, entry)? {
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
        let removed = self.with("deleting", key, |scope, entry| {
            let Some(directory) = open_entry(scope, entry)? else { return Ok(Vec::new()) };
            let Some(last) = Numbers::of(&directory)?.visible().last().copied() else {
                return Ok(Vec::new());
            };
            directory.replace_durably(&gone_name(last), b"", 0o600, None)?;
            take_away(&directory, last)
        });
        Ok(removed.await?.unwrap_or_default())
    }
}

fn is_own(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with(OWN_PREFIX)
}

/// Where the names of a scope are, if it has any.
fn open_scope(root: &Arc<Dir>, scope: &Scope) -> io::Result<Option<Arc<Dir>>> {
    if scope.is_shared() {
        return Ok(Some(Arc::clone(root)));
    }
    let Some(scopes) = open_entry(root, SCOPES)? else { return Ok(None) };
    Ok(open_entry(&scopes, &digest(scope.as_str().as_bytes()))?.map(Arc::new))
}

/// The same, made if it is missing. Which scope it is lies there before any name does.
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
            // A crash before anything was saved there.
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

/// Creates the file of the next version; `None` when others are always faster.
fn add(root: &Dir, key: &str, mut record: ArtifactRecord) -> io::Result<Option<u64>> {
    let directory = root.make_dir(key, 0o700, None)?;
    let mut version = Numbers::of(&directory)?.next();
    for _ in 0..MAX_ATTEMPTS {
        record.version = version;
        match named(&directory, &record)? {
            true => {
                rustix::fs::fsync(root)?;
                let numbers = Numbers::of(&directory)?;
                // The number may have been given and removed between the look and the link: then it is taken back.
                // One that is not there any more was saved first and then deleted.
                if numbers.is_gone(version) && take(&directory, version)? {
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

/// Creates the file of a version; says whether it was not there.
fn named(directory: &Dir, record: &ArtifactRecord) -> io::Result<bool> {
    let temporary = directory.temporary(&serde_json::to_vec(record)?, 0o600, None)?;
    let named = linkat(directory, &*temporary, directory, file_name(record.version), AtFlags::empty());
    directory.discard(&temporary);
    match named {
        Ok(()) => Ok(rustix::fs::fsync(directory)?).map(|()| true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes the file of a version. Says whether it was this caller who did.
fn take(directory: &Dir, version: u64) -> io::Result<bool> {
    match rustix::fs::unlinkat(directory, file_name(version), AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes the files of what a mark says is gone, and the marks before it. Gives the records that this caller removed:
/// each has one who sees to its bytes.
fn take_away(directory: &Dir, last: u64) -> io::Result<Vec<ArtifactRecord>> {
    let numbers = Numbers::of(directory)?;
    let mut records = Vec::new();
    for version in numbers.records.iter().copied().filter(|version| *version <= last) {
        let record = read(directory, version)?;
        if take(directory, version)? {
            records.extend(record);
        }
    }
    for older in numbers.gone.iter().filter(|older| **older < last) {
        directory.discard(&gone_name(*older));
    }
    Ok(records)
}

fn file_name(version: u64) -> String {
    format!("{version:020}{RECORD}")
}

fn gone_name(version: u64) -> String {
    format!("{version:020}{GONE}")
}

/// The numbers in a directory, in order.
struct Numbers {
    records: Vec<u64>,
    /// The last versions of those that were removed.
    gone: Vec<u64>,
}

impl Numbers {
    fn of(directory: &Dir) -> io::Result<Self> {
        let (entries, _) = directory.entries(usize::MAX)?;
        let numbers = |suffix: &str| {
            let number = |name: &OsStr| name.to_str()?.strip_suffix(suffix)?.parse().ok();
            entries.iter().filter_map(|(name, _)| number(name)).collect()
        };
        Ok(Self { records: numbers(RECORD), gone: numbers(GONE) })
    }

    fn is_gone(&self, version: u64) -> bool {
        self.gone.last().is_some_and(|last| version <= *last)
    }

    /// The versions that are there.
    fn visible(&self) -> &[u64] {
        let first = self.records.partition_point(|version| self.is_gone(*version));
        &self.records[first..]
    }

    /// The first that was never given, as far as can be seen.
    fn next(&self) -> u64 {
        self.records.last().max(self.gone.last()).map_or(0, |last| last + 1)
    }
}

fn latest(directory: &Dir) -> io::Result<Option<ArtifactRecord>> {
    match Numbers::of(directory)?.visible().last() {
        Some(version) => read(directory, *version),
        None => Ok(None),
    }
}

fn read_all(directory: &Dir) -> io::Result<Vec<ArtifactRecord>> {
    let numbers = Numbers::of(directory)?;
    let records = numbers.visible().iter().map(|version| read(directory, *version));
    records.filter_map(Result::transpose).collect()
}

fn read(directory: &Dir, version: u64) -> io::Result<Option<ArtifactRecord>> {
    match directory.file(file_name(version)) {
        Ok((file, _)) => {
            let mut bytes = Vec::new();
            file.take(MAX_RECORD).read_to_end(&mut bytes)?;
            Ok(Some(serde_json::from_slice(&bytes)?))
        }
        Err(NoFile::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
