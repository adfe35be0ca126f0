//! A local file as an input: found, checked and opened without races.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};

use crate::dir::Dir;
use crate::path::escaped_name;
use crate::workspace::is_same;

/// A local file or directory, found but not yet opened.
#[derive(Debug)]
pub(super) struct LocalFile {
    found: OwnedFd,
    /// Where it is, with every link resolved.
    pub(super) path: PathBuf,
    stat: Stat,
}

impl LocalFile {
    /// Finds the file at `path` and follows links. It is not opened, because opening a device has effects.
    pub(super) fn find(path: &Path) -> io::Result<Self> {
        let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&found)?;
        let path = std::fs::read_link(own_path(&found))?;
        Ok(Self { found, path, stat })
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind() == FileType::Directory
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub(super) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Checks that nobody else can replace the file. A linked input is found by its path again when the command
    /// starts. `safe` keeps the directories that were found safe. The error says why.
    pub(super) fn check_irreplaceable(&self, safe: &mut SafeDirectories) -> Result<(), String> {
        let stat_of = |path: &Path| {
            let stat = rustix::fs::lstat(path);
            stat.map_err(|error| {
                format!("cannot read the state of {}: {error}", escaped_name(path.as_os_str()))
            })
        };
        let mut below = stat_of(&self.path)?;
        if !is_same(&below, &self.stat) {
            return Err("it was moved or replaced".to_owned());
        }
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut passed = Vec::new();
        for directory in self.path.ancestors().skip(1) {
            let known = safe.0.get(directory).copied();
            let stat = known.map_or_else(|| stat_of(directory), Ok)?;
            if may_be_replaced(&stat, &below, own) {
                return Err(format!(
                    "other users can write to {} and could replace the linked file; use the mode `copy`",
                    escaped_name(directory.as_os_str())
                ));
            }
            if known.is_some() {
                break;
            }
            passed.push((directory.to_owned(), stat));
            below = stat;
        }
        safe.0.extend(passed);
        Ok(())
    }

    /// Opens the file that was found, even if its path now leads elsewhere.
    pub(super) fn open(&self) -> io::Result<OpenedInput> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(own_path(&self.found), flags, Mode::empty())?;
        Ok(if self.is_directory() {
            OpenedInput::Directory(Dir::from_descriptor(opened))
        } else {
            OpenedInput::File(opened.into(), self.stat)
        })
    }
}

/// Directories that nobody else can replace, and that lie in such directories. They are kept while the inputs of one
/// command are checked.
#[derive(Debug, Default)]
pub(super) struct SafeDirectories(HashMap<PathBuf, Stat>);

/// Whether a user other than root and this one can replace the entry `below` of a directory.
fn may_be_replaced(directory: &Stat, below: &Stat, (user, group): (u32, u32)) -> bool {
    let is_ours = |stat: &Stat| stat.st_uid == 0 || stat.st_uid == user;
    let mode = Mode::from_raw_mode(directory.st_mode);
    let others_write = mode.contains(Mode::WOTH) || (mode.contains(Mode::WGRP) && directory.st_gid != group);
    // In a sticky directory, such as /tmp, only the owner can replace an entry.
    let is_kept = mode.contains(Mode::SVTX) && is_ours(below);
    !is_ours(directory) || (others_write && !is_kept)
}

fn own_path(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// An opened input, from which it is copied.
#[derive(Debug)]
pub(super) enum OpenedInput {
    File(std::fs::File, Stat),
    Directory(Dir),
}
