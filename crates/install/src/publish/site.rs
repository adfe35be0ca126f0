//! The directory of a site in which the index and the artifacts are.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use prowess_base::beneath::{self, Follow, NotOpened};
use prowess_catalog::Digest;
use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode};
use rustix::io::Errno;
use serde_json::Value;

use super::PublishError;
use super::artifact::digest_in;
use crate::disk;
use crate::snapshot::well_known::{MAX_INDEX_BYTES, MAX_SITE_BYTES};

/// The directories between the top of a site and the index.
const DIRECTORIES: [&str; 2] = [".well-known", "agent-skills"];
/// The name of the index.
const INDEX: &str = "index.json";
/// The name of a file until all of it is written. Only the process that has the lock writes it.
const UNFINISHED: &str = ".prowess-unfinished";
/// The mode of files: a web server must read them.
const MODE: u32 = 0o644;
/// The most directories above a site that are compared with skills.
const MAX_ABOVE: usize = 256;

/// The directory of the index, locked for this process.
pub(super) struct SiteDirectory {
    directory: OwnedFd,
    path: PathBuf,
}

impl SiteDirectory {
    /// Makes the directories that are missing, and locks the last. The system releases the lock when the process ends.
    pub(super) fn open(site: &Path) -> Result<Self, PublishError> {
        std::fs::create_dir_all(site).map_err(|error| PublishError::io("create", site, error))?;
        let mut path = site.to_owned();
        let opened = beneath::open_directory(site);
        let mut directory = opened.map_err(|error| PublishError::io("open", site, error))?;
        for name in DIRECTORIES {
            path.push(name);
            let made = disk::make_directory(&directory, name);
            made.map_err(|error| PublishError::io("create", &path, error))?;
            directory = disk::open_directory(&directory, name).map_err(|error| match error {
                Errno::LOOP | Errno::NOTDIR => PublishError::NotADirectory(path.clone()),
                error => PublishError::io("open", &path, error),
            })?;
        }
        match fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { directory, path }),
            Err(Errno::WOULDBLOCK) => Err(PublishError::Busy(path)),
            Err(error) => Err(PublishError::io("lock", &path, error)),
        }
    }

    pub(super) fn index_path(&self) -> PathBuf {
        self.path.join(INDEX)
    }

    /// Makes sure that the artifact `name` is there. Returns whether it was not.
    pub(super) fn keep(&self, name: &str, digest: Digest, bytes: &[u8]) -> Result<bool, PublishError> {
        if self.digest_of(name) == Some(digest) {
            return Ok(false);
        }
        self.write(name, bytes).map(|()| true)
    }

    /// Removes an artifact that no index names, as well as that is possible.
    pub(super) fn discard(&self, name: &str) {
        let _ = fs::unlinkat(&self.directory, name, AtFlags::empty());
    }

    /// The names of the skills in the present index. None, if it cannot be read: then it is of no use to anybody.
    pub(super) fn earlier_skills(&self) -> BTreeSet<String> {
        let index = self.read(INDEX, MAX_INDEX_BYTES).ok();
        let index: Value = index.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or(Value::Null);
        let skills = index["skills"].as_array().into_iter().flatten();
        skills.filter_map(|skill| skill["name"].as_str()).map(ToOwned::to_owned).collect()
    }

    /// Puts the index in place, if it differs from the present one.
    pub(super) fn write_index(&self, bytes: &[u8]) -> Result<(), PublishError> {
        if self.read(INDEX, MAX_INDEX_BYTES).is_ok_and(|present| present == bytes) {
            return Ok(());
        }
        self.write(INDEX, bytes)
    }

    /// Removes artifacts of earlier publications that are not in `current`. An artifact is a file whose name has the digest
    /// of its bytes. Every other file belongs to somebody else.
    pub(super) fn remove_stale(&self, current: &BTreeSet<&str>) -> Result<Vec<String>, PublishError> {
        let failed = |error: Errno| PublishError::io("list", &self.path, error);
        // A descriptor lists its entries once.
        let listed = disk::open_directory(&self.directory, ".").map_err(failed)?;
        let mut stale = Vec::new();
        beneath::list(&listed, |name, kind| {
            if let (Some(name), FileType::RegularFile) = (name.to_str(), kind)
                && digest_in(name).is_some()
                && !current.contains(name)
            {
                stale.push(name.to_owned());
            }
            ControlFlow::Continue(())
        })
        .map_err(failed)?;
        stale.retain(|name| self.digest_of(name).is_some_and(|digest| digest_in(name) == Some(digest)));
        stale.sort_unstable();
        for name in &stale {
            let removed = disk::remove(&self.directory, name);
            removed.map_err(|error| PublishError::io("remove", &self.path.join(name), error))?;
        }
        Ok(stale)
    }

    /// The digest of a file, if it is a regular file that can be read.
    fn digest_of(&self, name: &str) -> Option<Digest> {
        self.read(name, MAX_SITE_BYTES).ok().map(|bytes| Digest::of(&bytes))
    }

    fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let opened = beneath::open_file(&self.directory, name, Follow::Never);
        let (file, _) = opened.map_err(|refused| match refused {
            NotOpened::Refused(error) => io::Error::from(error),
            NotOpened::NotAFile(_) => io::ErrorKind::InvalidInput.into(),
        })?;
        let mut bytes = Vec::new();
        File::from(file).take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    }

    /// Writes a file as a whole. The bytes are on the disk before the name is, also if the machine stops.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), PublishError> {
        let written = || -> io::Result<()> {
            // A killed process may have left a part.
            disk::remove(&self.directory, UNFINISHED)?;
            let mut file = File::from(beneath::create_file(&self.directory, UNFINISHED, MODE)?);
            file.write_all(bytes)?;
            file.sync_all()?;
            Ok(fs::renameat(&self.directory, UNFINISHED, &self.directory, name)?)
        };
        written().map_err(|error| {
            self.discard(UNFINISHED);
            PublishError::io("write", &self.path.join(name), error)
        })
    }
}

/// Whether the site is in `directory`, however both paths are written. The site need not be there yet.
pub(super) fn is_below(site: &Path, directory: &Path) -> bool {
    let identity = |directory: &OwnedFd| fs::fstat(directory).ok().map(|stat| (stat.st_dev, stat.st_ino));
    let up = |from: &OwnedFd| fs::openat(from, "..", beneath::DIRECTORY, Mode::empty()).ok();
    let sought = beneath::open_directory(directory).ok().and_then(|opened| identity(&opened));
    let site = std::path::absolute(site).unwrap_or_else(|_| site.to_owned());
    let mut at = site.ancestors().find_map(|ancestor| beneath::open_directory(ancestor).ok());
    for _ in 0..MAX_ABOVE {
        let Some(directory) = at else { return false };
        if identity(&directory) == sought {
            return true;
        }
        // The root is above itself.
        at = up(&directory).filter(|above| identity(above) != identity(&directory));
    }
    false
}
