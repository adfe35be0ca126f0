//! Contents on the local disk.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use rustix::fs::{AtFlags, FileType, Stat, unlinkat};
use rustix::io::Errno;

use super::{ContentStore, StoredContent, too_large};
use crate::blocking::blocking;
use crate::dir::{Dir, NoFile, OWN_PREFIX};
use crate::inventory::error::BoxError;

/// Contents as files below one directory, which several processes can use.
///
/// ```
/// use prowess_workspace::inventory::{ContentStore, DiskContents};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// # let place = tempfile::tempdir()?;
/// let store = DiskContents::open(place.path())?;
/// store.put("notes/one", "low tide".into()).await?;
/// assert!(place.path().join("notes/one").is_file());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DiskContents {
    root: Arc<Dir>,
}

impl DiskContents {
    /// Contents below `root`, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or opened.
    pub fn open(root: impl AsRef<Path>) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(root.as_ref())?;
        Ok(Self { root: Arc::new(Dir::open(root.as_ref())?) })
    }
}

#[async_trait]
impl ContentStore for DiskContents {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), BoxError> {
        let (root, name) = (Arc::clone(&self.root), name.to_owned());
        let put = blocking(move || {
            let (parent, name) = name.rsplit_once('/').unwrap_or(("", &name));
            root.make_dirs(parent, 0o700, None)?.replace_durably(name, &bytes, 0o600, None)
        });
        Ok(put.await.flatten()?)
    }

    async fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, BoxError> {
        let (root, name) = (Arc::clone(&self.root), name.to_owned());
        let get = blocking(move || match root.file(&name) {
            Ok((file, _)) => {
                let mut bytes = Vec::new();
                file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
                Ok(Some(Bytes::from(bytes)))
            }
            Err(NoFile::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io::Error::from(error)),
        });
        match get.await.flatten()? {
            Some(bytes) if bytes.len() as u64 > most => Err(too_large(most)),
            found => Ok(found),
        }
    }

    async fn size(&self, name: &str) -> Result<Option<u64>, BoxError> {
        let (root, name) = (Arc::clone(&self.root), name.to_owned());
        let size = blocking(move || match root.file(&name) {
            Ok((_, stat)) => Ok(Some(stat.st_size.unsigned_abs())),
            Err(NoFile::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io::Error::from(error)),
        });
        Ok(size.await.flatten()?)
    }

    async fn written(&self, name: &str) -> Result<Option<SystemTime>, BoxError> {
        let (root, name) = (Arc::clone(&self.root), name.to_owned());
        let written = blocking(move || match root.file(&name) {
            Ok((_, stat)) => Ok(Some(written(&stat))),
            Err(NoFile::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io::Error::from(error)),
        });
        Ok(written.await.flatten()?)
    }

    async fn remove(&self, name: &str) -> Result<(), BoxError> {
        let (root, name) = (Arc::clone(&self.root), name.to_owned());
        let remove = blocking(move || {
            let (parent, name) = name.rsplit_once('/').unwrap_or(("", &name));
            let removed = root.dir(parent).and_then(|parent| unlinkat(&parent, name, AtFlags::empty()));
            match removed {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(io::Error::from(error)),
            }
            // The directories that this leaves empty. Another process may write to one meanwhile, and makes it again.
            let mut directory = parent;
            while !directory.is_empty() && unlinkat(&*root, directory, AtFlags::REMOVEDIR).is_ok() {
                directory = directory.rsplit_once('/').map_or("", |(above, _)| above);
            }
            Ok(())
        });
        Ok(remove.await.flatten()?)
    }

    async fn list(&self, directory: &str) -> Result<Vec<StoredContent>, BoxError> {
        let (root, directory) = (Arc::clone(&self.root), directory.to_owned());
        Ok(blocking(move || list(&root, directory)).await.flatten()?)
    }
}

fn written(stat: &Stat) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0))
}

fn list(root: &Dir, directory: String) -> io::Result<Vec<StoredContent>> {
    let mut pending = vec![directory];
    let mut found = Vec::new();
    while let Some(path) = pending.pop() {
        let directory = match root.dir(&path) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        for (name, kind) in directory.entries(usize::MAX)?.0 {
            let Some(text) = name.to_str().filter(|name| !name.starts_with(OWN_PREFIX)) else { continue };
            let whole = format!("{path}/{text}");
            if kind == FileType::Directory {
                pending.push(whole);
            } else if let Some(stat) = directory.entry(&name)? {
                found.push(StoredContent { name: whole, written: written(&stat) });
            }
        }
    }
    found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}
