//! Changes to the disk through directory descriptors. Nothing here follows a link.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use prowess_base::beneath::{self, DIRECTORY};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// How many directories are open at a time while a directory is removed. Trees of skills are less deep. What is deeper is moved up.
const MAX_REMOVED_DEPTH: usize = 64;
/// The mode of directories, before the person's umask.
const DIRECTORY_MODE: Mode =
    Mode::RWXU.union(Mode::RGRP).union(Mode::XGRP).union(Mode::ROTH).union(Mode::XOTH);

/// Opens the directory `name`, which must not be a link.
pub(crate) fn open_directory(at: impl AsFd, name: impl AsRef<OsStr>) -> Result<OwnedFd, Errno> {
    fs::openat(at, name.as_ref(), DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
}

/// Makes the directory `name` if nothing is there.
pub(crate) fn make_directory(at: impl AsFd, name: impl AsRef<OsStr>) -> Result<(), Errno> {
    match fs::mkdirat(at, name.as_ref(), DIRECTORY_MODE) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes the entry `name` with everything below it. An entry that is not there is no error.
pub(crate) fn remove(at: impl AsFd, name: impl AsRef<OsStr>) -> io::Result<()> {
    let (at, name) = (at.as_fd(), name.as_ref());
    if unlink(&at, name)? {
        return Ok(());
    }
    let top = open_to_empty(&at, name)?;
    let mut deep = Deep { top: &top, moved: 0 };
    loop {
        let before = deep.moved;
        // Another descriptor, because the position of the first is at its end after a list.
        deep.empty(&open_directory(&top, ".")?, 1)?;
        match fs::unlinkat(at, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) if deep.moved > before => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes an entry that is no directory. Returns whether nothing is there now.
fn unlink(at: &impl AsFd, name: &OsStr) -> io::Result<bool> {
    match fs::unlinkat(at, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        // Linux says ISDIR, other systems PERM.
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory whose entries are to be removed. Somebody may have protected it. It was chosen for removal all the same.
fn open_to_empty(at: &impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let directory = open_directory(at, name)?;
    if !Mode::from_raw_mode(fs::fstat(&directory)?.st_mode).contains(Mode::WUSR | Mode::XUSR) {
        fs::fchmod(&directory, Mode::RWXU)?;
    }
    Ok(directory)
}

/// A removal of a directory that may be deeper than descriptors can be open.
struct Deep<'a> {
    top: &'a OwnedFd,
    /// How many directories were moved to the top.
    moved: usize,
}

impl Deep<'_> {
    fn empty(&mut self, directory: &OwnedFd, depth: usize) -> io::Result<()> {
        let mut names = Vec::new();
        beneath::list(directory, |name, kind| {
            names.push((name.to_owned(), kind));
            ControlFlow::Continue(())
        })?;
        for (name, kind) in names {
            if kind != FileType::Directory {
                fs::unlinkat(directory, &*name, AtFlags::empty())?;
                continue;
            }
            let inner = open_to_empty(directory, &name)?;
            if depth > MAX_REMOVED_DEPTH {
                let renamed = |new: &str| Ok(rename_new(directory, &name, self.top, new)?);
                beneath::with_unused_name(".deep-", "", renamed)?;
                self.moved += 1;
                continue;
            }
            self.empty(&inner, depth + 1)?;
            match fs::unlinkat(directory, &*name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Renames an entry. It is an error if something has the new name.
pub(crate) fn rename_new(
    from: impl AsFd,
    old: impl AsRef<OsStr>,
    to: impl AsFd,
    new: impl AsRef<OsStr>,
) -> Result<(), Errno> {
    let (old, new) = (old.as_ref(), new.as_ref());
    match fs::renameat_with(&from, old, &to, new, RenameFlags::NOREPLACE) {
        // The file system does not have the flag. Another process may then lose an empty directory or a file that it
        // makes at this very moment.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            if fs::statat(&to, new, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                return Err(Errno::EXIST);
            }
            fs::renameat(from, old, to, new)
        }
        // Network file systems say so instead of EXIST.
        Err(Errno::NOTEMPTY) => Err(Errno::EXIST),
        result => result,
    }
}

/// Creates a file of this mode, before the umask, and writes `bytes` to it.
pub(crate) fn write_new(at: impl AsFd, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    File::from(beneath::create_file(at, name, mode)?).write_all(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn removal_follows_no_link_and_needs_nothing_to_be_there() {
        let scratch = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("file"), "").unwrap();
        std::fs::create_dir_all(scratch.path().join("a/b/c/d")).unwrap();
        std::fs::write(scratch.path().join("a/b/file"), "").unwrap();
        std::fs::set_permissions(scratch.path().join("a/b/c"), PermissionsExt::from_mode(0o500)).unwrap();
        std::os::unix::fs::symlink(outside.path(), scratch.path().join("a/b/link")).unwrap();
        std::os::unix::fs::symlink(outside.path(), scratch.path().join("link")).unwrap();
        let at = beneath::open_directory(scratch.path()).unwrap();
        for name in ["a", "link", "gone"] {
            remove(&at, name).unwrap();
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        assert!(outside.path().join("file").exists());
        std::fs::create_dir_all(scratch.path().join("x/".repeat(300))).unwrap();
        remove(&at, "x").unwrap();
        assert!(!scratch.path().join("x").exists());
    }

    #[test]
    fn a_rename_replaces_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let at = beneath::open_directory(scratch.path()).unwrap();
        for name in ["a", "b"] {
            make_directory(&at, name).unwrap();
            make_directory(&at, name).unwrap();
        }
        assert_eq!(rename_new(&at, "a", &at, "b"), Err(Errno::EXIST));
        assert_eq!(rename_new(&at, "a", &at, "c"), Ok(()));
    }
}
