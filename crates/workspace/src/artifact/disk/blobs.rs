//! The bytes of artifacts on the local disk.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use prowess_base::hex::encode;
use rustix::fs::{AtFlags, FileType, Timespec, Timestamps, UTIME_NOW, linkat};
use rustix::io::Errno;

use super::open;
use crate::artifact::{ArtifactError, BlobStore};
use crate::blocking::blocking;
use crate::dir::{Dir, NoFile, OWN_PREFIX};

/// How many random bytes a blob's name has. Names with 16, of earlier versions, are still read. Those versions remove
/// blobs that no record of the shared scope uses, but only blobs with short names.
const BLOB_BYTES: usize = 20;
const OLDER_BLOB_BYTES: usize = 16;

/// The bytes of artifacts as files below one directory.
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

impl DiskBlobs {
    /// The bytes below `root`, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or opened.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, ArtifactError> {
        Ok(Self { root: open(root.as_ref())? })
    }
}

#[async_trait]
impl BlobStore for DiskBlobs {
    async fn put(&self, bytes: Bytes) -> Result<String, ArtifactError> {
        let root = Arc::clone(&self.root);
        let put = blocking(move || -> io::Result<String> {
            // Random, so that processes on machines that share the disk never choose the same name.
            let blob = new_blob()?;
            let directory = root.make_dir(&blob[..2], 0o700, None)?;
            directory.replace_durably(&blob, &bytes, 0o600, None)?;
            Ok(blob)
        });
        put.await.flatten().map_err(|error| ArtifactError::store("writing an artifact's bytes", error))
    }

    async fn get(&self, blob: &str, size: u64) -> Result<Option<Bytes>, ArtifactError> {
        let Some(path) = blob_path(blob) else { return Ok(None) };
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
        let Some(path) = blob_path(blob) else { return Ok(None) };
        let root = Arc::clone(&self.root);
        let copied = blocking(move || copy(&root, &path)).await.flatten();
        match copied.map_err(|error| ArtifactError::store("copying an artifact's bytes", error))? {
            CopiedBlob::Done(blob) => Ok(Some(blob)),
            CopiedBlob::Missing => Ok(None),
            CopiedBlob::Unlinkable => match self.get(blob, size).await? {
                Some(bytes) => self.put(bytes).await.map(Some),
                None => Ok(None),
            },
        }
    }

    async fn remove(&self, blob: &str) -> Result<(), ArtifactError> {
        let Some(path) = blob_path(blob) else { return Ok(()) };
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

/// The blobs older than this. Half-written files that a crash left are removed at once.
fn old_blobs(root: &Dir, older_than: Duration) -> io::Result<Vec<String>> {
    let limit = SystemTime::now().checked_sub(older_than).unwrap_or(UNIX_EPOCH);
    let limit = limit.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut old = Vec::new();
    for (name, kind) in root.entries(usize::MAX)?.0 {
        if kind != FileType::Directory {
            continue;
        }
        let directory = root.dir(&name)?;
        for (name, _) in directory.entries(usize::MAX)?.0 {
            let Some(stat) = directory.entry(&name)? else { continue };
            let name = name.to_string_lossy();
            if u64::try_from(stat.st_mtime).unwrap_or(0) > limit {
                continue;
            }
            if name.starts_with(OWN_PREFIX) {
                directory.discard(&name);
            } else if blob_path(&name).is_some() {
                old.push(name.into_owned());
            }
        }
    }
    Ok(old)
}

/// The result of a second name for a blob.
enum CopiedBlob {
    Done(String),
    Missing,
    /// The file system has no hard links.
    Unlinkable,
}

/// Gives a blob a second name, which is safe because blobs never change.
fn copy(root: &Dir, path: &str) -> io::Result<CopiedBlob> {
    // A fresh time keeps the sweep away until a record uses the blob.
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    match rustix::fs::utimensat(root, path, &times, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(CopiedBlob::Missing),
        Err(error) => return Err(error.into()),
    }
    let blob = new_blob()?;
    let directory = root.make_dir(&blob[..2], 0o700, None)?;
    match linkat(root, path, &directory, &*blob, AtFlags::empty()) {
        Ok(()) => {
            rustix::fs::fsync(&directory)?;
            Ok(CopiedBlob::Done(blob))
        }
        Err(Errno::NOENT) => Ok(CopiedBlob::Missing),
        Err(Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP) => Ok(CopiedBlob::Unlinkable),
        Err(error) => Err(error.into()),
    }
}

fn new_blob() -> io::Result<String> {
    let mut random = [0; BLOB_BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(encode(&random))
}

/// The path of a blob; `None` if this is not the name of a blob.
fn blob_path(blob: &str) -> Option<String> {
    let is_length = [2 * BLOB_BYTES, 2 * OLDER_BLOB_BYTES].contains(&blob.len());
    let is_name = is_length && blob.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| format!("{}/{blob}", &blob[..2]))
}
