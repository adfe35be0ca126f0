//! The lock files that a transaction writes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use prowess_base::beneath::{self, Follow, NotOpened};
use prowess_catalog::Digest;
use rustix::fs::{self, AtFlags, Mode};
use rustix::io::Errno;

use super::PlaceError;
use crate::disk;

/// The most bytes of a lock file.
const MAX_LOCK_BYTES: u64 = 32 * 1024 * 1024;
/// The mode of a new lock file, before the person's umask.
const MODE: u32 = 0o644;

/// The directory of a lock file. It is made if needed.
pub(super) fn make_parent(path: &Path) -> Result<(), PlaceError> {
    let parent = path.parent().ok_or_else(|| PlaceError::LockFile(path.to_owned()))?;
    std::fs::create_dir_all(parent).map_err(|error| PlaceError::io("create", parent, error))
}

/// The digest of a lock file's text. `None` if there is no file.
pub(super) fn digest(path: &Path) -> Result<Option<Digest>, PlaceError> {
    let (directory, name) = open(path)?;
    Ok(read(&directory, &name, path)?.map(|(digest, _)| digest))
}

/// Writes a lock file as a whole, if its text is as it was before. Returns whether it was.
pub(super) fn write(path: &Path, before: Option<Digest>, text: &str) -> Result<bool, PlaceError> {
    let (directory, name) = open(path)?;
    let found = read(&directory, &name, path)?;
    let mut unfinished = OsString::from(".");
    unfinished.push(&name);
    unfinished.push(".prowess-unfinished");
    // A killed process may have left a part.
    let unfinished = unfinished.to_str().ok_or_else(|| PlaceError::NotUtf8(path.to_owned()))?;
    let failed = |error: io::Error| PlaceError::io("write", path, error);
    disk::remove(&directory, unfinished).map_err(failed)?;
    let digest = found.as_ref().map(|(digest, _)| *digest);
    if digest == Some(Digest::of(text.as_bytes())) {
        return Ok(true);
    }
    if digest != before {
        return Ok(false);
    }
    disk::write_new(&directory, unfinished, text.as_bytes(), MODE).map_err(failed)?;
    if let Some((_, mode)) = found {
        let changed = fs::chmodat(&directory, unfinished, mode, AtFlags::empty());
        changed.map_err(|error| failed(error.into()))?;
    }
    fs::renameat(&directory, unfinished, &directory, &*name).map_err(|error| failed(error.into()))?;
    Ok(true)
}

/// Opens the directory of a lock file, which a person chose.
fn open(path: &Path) -> Result<(OwnedFd, OsString), PlaceError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(PlaceError::LockFile(path.to_owned()));
    };
    let directory = beneath::open_directory(parent).map_err(|error| PlaceError::io("open", parent, error))?;
    Ok((directory, name.to_owned()))
}

fn read(directory: &OwnedFd, name: &OsString, path: &Path) -> Result<Option<(Digest, Mode)>, PlaceError> {
    let (file, stat) = match beneath::open_file(directory, name, Follow::Never) {
        Ok(opened) => opened,
        Err(NotOpened::Refused(Errno::NOENT)) => return Ok(None),
        Err(NotOpened::Refused(Errno::LOOP | Errno::NXIO) | NotOpened::NotAFile(_)) => {
            return Err(PlaceError::LockFile(path.to_owned()));
        }
        Err(NotOpened::Refused(error)) => return Err(PlaceError::io("read", path, error)),
    };
    let mut bytes = Vec::new();
    let mut limited = File::from(file).take(MAX_LOCK_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(|error| PlaceError::io("read", path, error))?;
    if bytes.len() as u64 > MAX_LOCK_BYTES {
        return Err(PlaceError::io("read", path, io::Error::other("it is too large")));
    }
    let mode = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
    Ok(Some((Digest::of(&bytes), mode)))
}
