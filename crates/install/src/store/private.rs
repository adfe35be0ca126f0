//! The directory of the store, which is this user's alone.

use std::fs::DirBuilder;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use prowess_base::beneath::{self, DIRECTORY};
use rustix::fs::{self, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::StoreError;
use crate::disk;

/// Opens the directory of a store, or creates it. Only this user can read it afterwards.
pub(super) fn open(path: &Path) -> Result<OwnedFd, StoreError> {
    let failed = |source| StoreError::Io { action: "open", path: path.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let handle =
        fs::open(path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).map_err(|error| failed(error.into()))?;
    let stat = fs::fstat(&handle).map_err(|error| failed(error.into()))?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    let is_mine = stat.st_uid == rustix::process::geteuid().as_raw();
    if !is_mine || mode.intersects(Mode::WGRP | Mode::WOTH) {
        return Err(StoreError::NotPrivate(path.to_owned()));
    }
    if mode.intersects(Mode::RWXG | Mode::RWXO) {
        fs::fchmod(&handle, Mode::RWXU).map_err(|error| failed(error.into()))?;
    }
    Ok(handle)
}

/// Makes a new directory in the store, and opens it.
pub(super) fn make_directory(store: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    fs::mkdirat(store, name, Mode::RWXU)?;
    Ok(disk::open_directory(store, name)?)
}

/// Marks an entry as used now.
pub(super) fn touch(entry: &OwnedFd) {
    let now = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    // On a disk that is read-only, entries are removed in the order in which they were written.
    let _ = fs::futimens(entry, &now);
}

/// The entries of the store, and when they were used last. Other files are none.
pub(super) fn entries(store: &OwnedFd) -> io::Result<Vec<(String, SystemTime)>> {
    let mut entries = Vec::new();
    // Another descriptor, because the position of this one is at its end after the first list.
    let listed = disk::open_directory(store, ".")?;
    beneath::list(&listed, |name, kind| {
        if let (Some(name), FileType::Directory) = (name.to_str(), kind)
            && let Ok(stat) = beneath::stat(store.as_fd(), name)
        {
            entries.push((name.to_owned(), modified(&stat)));
        }
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

/// The bytes of all files below an entry. What cannot be read counts as nothing.
pub(super) fn bytes_below(at: &OwnedFd, name: &str) -> u64 {
    let Ok(directory) = disk::open_directory(at, name) else { return 0 };
    let mut directories = Vec::new();
    let mut bytes = 0_u64;
    let _ = beneath::list(&directory, |name, kind| {
        match (kind, name.to_str()) {
            (FileType::Directory, Some(name)) => directories.push(name.to_owned()),
            (FileType::RegularFile, Some(name)) => {
                let size = beneath::stat(&directory, name).map_or(0, |stat| stat.st_size);
                bytes = bytes.saturating_add(u64::try_from(size).unwrap_or(0));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    directories.iter().fold(bytes, |sum, name| sum.saturating_add(bytes_below(&directory, name)))
}

#[allow(clippy::unnecessary_cast, trivial_numeric_casts, reason = "the types differ between platforms")]
fn modified(stat: &Stat) -> SystemTime {
    let seconds = u64::try_from(stat.st_mtime as i64).unwrap_or(0);
    let nanoseconds = u64::try_from(stat.st_mtime_nsec as i64).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds)
}
