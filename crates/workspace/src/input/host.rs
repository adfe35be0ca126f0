//! Files of the host, which only come in when somebody allows it.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rustix::fs::{FileType, Mode, OFlags, Stat};

use crate::dir::Dir;

/// Says which files of the host may come into a workspace.
///
/// It is asked for the path as it was given, before anything is looked at, and again for where it leads when
/// there is a link on the way.
#[async_trait]
pub trait HostGate: Send + Sync {
    /// Whether the file or directory at this absolute path, with all that it holds, may be read.
    async fn allow_host(&self, path: &Path) -> bool;
}

#[async_trait]
impl<F: Fn(&Path) -> bool + Send + Sync> HostGate for F {
    async fn allow_host(&self, path: &Path) -> bool {
        self(path)
    }
}

/// Allows these paths and everything below them; none when it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPaths(pub Vec<PathBuf>);

#[async_trait]
impl HostGate for HostPaths {
    async fn allow_host(&self, path: &Path) -> bool {
        self.0.iter().any(|allowed| path.starts_with(allowed))
    }
}

/// A file or directory of the host, found and not yet opened.
#[derive(Debug)]
pub(super) struct HostFile {
    found: OwnedFd,
    /// Where it is, with every link resolved.
    pub(super) path: PathBuf,
    stat: Stat,
}

impl HostFile {
    /// Finds what is at `path`, links followed, without opening it: opening a device does things.
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

    /// Opens what was found, be its path another's by now.
    pub(super) fn open(&self) -> io::Result<Opened> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(own_path(&self.found), flags, Mode::empty())?;
        Ok(if self.is_directory() {
            Opened::Directory(Dir::from_descriptor(opened))
        } else {
            Opened::File(opened.into(), self.stat)
        })
    }
}

fn own_path(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// What an input is copied from.
#[derive(Debug)]
pub(super) enum Opened {
    File(std::fs::File, Stat),
    Directory(Dir),
}
