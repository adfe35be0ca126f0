//! Files of the host, which only come in when somebody allows it.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rustix::fs::{FileType, Mode, OFlags, Stat};

use crate::dir::Dir;
use crate::path::printable;
use crate::workspace::is_same;

/// Says which files of the host may come into a workspace.
///
/// It is asked for the path as it was given, before anything is looked at, and again for where it leads when
/// there is a link on the way.
///
/// ```
/// use std::path::Path;
/// use prowess_workspace::input::InputGate;
/// use prowess_workspace::stage::StageSource;
/// use prowess_workspace::RunContext;
///
/// let pictures = |path: &Path| path.extension().is_some_and(|extension| extension == "png");
/// let skills = |_: &str| None::<StageSource>;
/// let mut context = RunContext::new(&skills);
/// context.input_gate = &pictures; // any function of a path is one
/// ```
#[async_trait]
pub trait InputGate: Send + Sync {
    /// Whether the file or directory at this absolute path, with all that it holds, may be read.
    async fn allows(&self, path: &Path) -> bool;
}

#[async_trait]
impl<F: Fn(&Path) -> bool + Send + Sync> InputGate for F {
    async fn allows(&self, path: &Path) -> bool {
        self(path)
    }
}

/// Allows these paths and everything below them; none when it is empty.
///
/// ```
/// use std::path::Path;
/// use prowess_workspace::input::{InputGate, InputPaths};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gate = InputPaths(vec!["/srv/invoices".into()]);
/// assert!(gate.allows(Path::new("/srv/invoices/june.pdf")).await);
/// assert!(!gate.allows(Path::new("/etc/passwd")).await);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputPaths(pub Vec<PathBuf>);

#[async_trait]
impl InputGate for InputPaths {
    async fn allows(&self, path: &Path) -> bool {
        self.0.iter().any(|allowed| path.starts_with(allowed))
    }
}

/// A file or directory of the host, found and not yet opened.
#[derive(Debug)]
pub(super) struct LocalFile {
    found: OwnedFd,
    /// Where it is, with every link resolved.
    pub(super) path: PathBuf,
    stat: Stat,
}

impl LocalFile {
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

    /// Checks that the path leads here and goes on doing so: what is linked is found by its path once more,
    /// when the command starts. Says otherwise why not.
    pub(super) fn check_stays(&self) -> Result<(), String> {
        let look = |path: &Path| {
            let stat = rustix::fs::lstat(path);
            stat.map_err(|error| format!("{} cannot be looked at: {error}", printable(path.as_os_str())))
        };
        let mut below = look(&self.path)?;
        if !is_same(&below, &self.stat) {
            return Err("it was moved or replaced meanwhile".to_owned());
        }
        for directory in self.path.ancestors().skip(1) {
            let stat = look(directory)?;
            if may_be_replaced(&stat, &below) {
                return Err(format!(
                    "others may write in {} and could replace what is linked; use the mode `copy`",
                    printable(directory.as_os_str())
                ));
            }
            below = stat;
        }
        Ok(())
    }

    /// Opens what was found, be its path another's by now.
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

/// Whether somebody else than the superuser and this user can replace the entry `below` of a directory.
fn may_be_replaced(directory: &Stat, below: &Stat) -> bool {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let is_ours = |stat: &Stat| stat.st_uid == 0 || stat.st_uid == user;
    let mode = Mode::from_raw_mode(directory.st_mode);
    let others_write = mode.contains(Mode::WOTH) || (mode.contains(Mode::WGRP) && directory.st_gid != group);
    // In a sticky directory, such as /tmp, an entry is its owner's.
    let is_kept = mode.contains(Mode::SVTX) && is_ours(below);
    !is_ours(directory) || (others_write && !is_kept)
}

fn own_path(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// What an input is copied from.
#[derive(Debug)]
pub(super) enum OpenedInput {
    File(std::fs::File, Stat),
    Directory(Dir),
}
