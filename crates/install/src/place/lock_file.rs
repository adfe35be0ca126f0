//! The lock files that a transaction writes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use prowess_base::beneath::{self, Follow, NotOpened};
use prowess_catalog::Digest;
use rustix::fs::{self, Access, AtFlags, Mode};
use rustix::io::Errno;

use super::PlaceError;
use crate::disk;

/// The most bytes of a lock file.
const MAX_LOCK_BYTES: u64 = 32 * 1024 * 1024;
/// The mode of a new lock file, before the person's umask.
const MODE: u32 = 0o644;
/// What of the mode of an old lock file the new one keeps: never more than that everybody may read it, and its group write it.
const MOST: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::WGRP).union(Mode::ROTH);

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
    let unfinished = unfinished_name(&name, path)?;
    let failed = |error: io::Error| PlaceError::io("write", path, error);
    // A killed process may have left a part. What cannot be removed is in nobody's way: another name is used then.
    let _ = disk::remove(&directory, &unfinished);
    let digest = found.as_ref().map(|(digest, _)| *digest);
    if digest == Some(Digest::of(text.as_bytes())) {
        return Ok(true);
    }
    if digest != before {
        return Ok(false);
    }
    let create = |name: &str| beneath::create_file(&directory, name, MODE);
    let (unfinished, file) = match create(&unfinished) {
        Err(Errno::EXIST) => {
            beneath::with_unused_name(&format!("{unfinished}-"), "", |name| Ok(create(name)?))
                .map_err(failed)?
        }
        created => (unfinished, created.map_err(|error| failed(error.into()))?),
    };
    let old = found.map(|(_, mode)| mode);
    let written =
        fill(file, text, old).and_then(|()| Ok(fs::renameat(&directory, &*unfinished, &directory, &*name)?));
    if written.is_err() {
        let _ = fs::unlinkat(&directory, &*unfinished, AtFlags::empty());
    }
    written.map_err(failed)?;
    Ok(true)
}

/// Checks that a lock file can be written, and removes what a killed process has left.
pub(super) fn check_writable(path: &Path) -> Result<(), PlaceError> {
    let (directory, name) = open(path)?;
    let unfinished = unfinished_name(&name, path)?;
    disk::remove(&directory, &unfinished).map_err(|error| PlaceError::io("write", path, error))?;
    fs::accessat(&directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty())
        .map_err(|error| PlaceError::io("write", path, error))
}

/// The name of a lock file until it is complete.
fn unfinished_name(name: &OsString, path: &Path) -> Result<String, PlaceError> {
    let name = name.to_str().ok_or_else(|| PlaceError::NotUtf8(path.to_owned()))?;
    Ok(format!(".{name}.prowess-unfinished"))
}

/// Writes a new file. Its mode is set through its descriptor: others may be able to put a link under its name.
fn fill(file: OwnedFd, text: &str, old: Option<Mode>) -> io::Result<()> {
    if let Some(old) = old {
        fs::fchmod(&file, old & MOST)?;
    }
    File::from(file).write_all(text.as_bytes())
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
    Ok(Some((Digest::of(&bytes), Mode::from_raw_mode(stat.st_mode))))
}
