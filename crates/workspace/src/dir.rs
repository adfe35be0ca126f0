//! An open directory, and operations on everything below it.
//!
//! No path is resolved twice, and no link in a path is followed. Files that a command left behind can make an operation
//! fail, but cannot lead it elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use prowess_base::beneath::{self, DIRECTORY, Follow, NotOpened};
use rustix::fs::{self, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

mod remove_tree;
mod write;

pub use self::remove_tree::remove_tree;
pub(crate) use self::write::{OWN_PREFIX, finish};

/// The owner of new files: the user that commands run as, or `None` for the user of this process.
pub(crate) type Owner = Option<(Uid, Gid)>;

/// Why a file was not opened.
#[derive(Debug)]
pub(crate) enum NoFile {
    /// It, or a directory on the way to it, is a link.
    Link,
    /// It is a directory.
    Directory,
    /// It is a FIFO, a socket or a device.
    Special(&'static str),
    /// The system refused.
    Io(io::Error),
}

impl NoFile {
    /// The end of a sentence that begins with the name of the file.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Link => "is a link, or is reached through one".to_owned(),
            Self::Directory => "is a directory".to_owned(),
            Self::Special(kind) => format!("is a {kind}"),
            Self::Io(error) => format!("cannot be opened: {error}"),
        }
    }
}

impl From<NoFile> for io::Error {
    fn from(refused: NoFile) -> Self {
        match refused {
            NoFile::Io(error) => error,
            other => Self::other(format!("it {}", other.reason())),
        }
    }
}

/// The name of a file type that is neither a regular file nor a directory.
pub(crate) fn special(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Symlink => "link",
        _ => "special file",
    }
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct Dir(OwnedFd);

impl AsFd for Dir {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The flags that open a directory and refuse a link in its place.
pub(crate) const OWN_DIRECTORY: OFlags = DIRECTORY.union(OFlags::NOFOLLOW);

impl Dir {
    /// Opens the directory at `path` and follows links. Use it only for paths that the user chose.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(beneath::open_directory(path)?))
    }

    /// Wraps the descriptor of a directory.
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Another descriptor of this directory, for a lock on it.
    pub(crate) fn descriptor(&self) -> io::Result<File> {
        Ok(File::from(self.dir("")?.0))
    }

    /// Opens the directory at `relative` and follows no link. An empty path is this directory.
    pub(crate) fn dir(&self, relative: impl AsRef<OsStr>) -> Result<Self, Errno> {
        let relative = relative.as_ref();
        let relative = if relative.is_empty() { OsStr::new(".") } else { relative };
        Ok(Self(beneath::open(&self.0, relative, OWN_DIRECTORY, Follow::Never)?))
    }

    /// Opens the regular file at `relative` for reading and follows no link. It never waits.
    pub(crate) fn file(&self, relative: impl AsRef<OsStr>) -> Result<(File, Stat), NoFile> {
        self.regular(relative.as_ref(), Follow::Never)
    }

    /// Opens the regular file at `relative` and follows links that stay below this directory.
    pub(crate) fn file_through_links(&self, relative: impl AsRef<OsStr>) -> Result<(File, Stat), NoFile> {
        self.regular(relative.as_ref(), Follow::Beneath)
    }

    /// Opens the directory at `relative` and follows links that stay below this one.
    pub(crate) fn dir_through_links(&self, relative: impl AsRef<OsStr>) -> Result<Self, Errno> {
        Ok(Self(beneath::open(&self.0, relative, DIRECTORY, Follow::Beneath)?))
    }

    fn regular(&self, relative: &OsStr, follow: Follow) -> Result<(File, Stat), NoFile> {
        match beneath::open_file(&self.0, relative, follow) {
            Ok((file, stat)) => Ok((File::from(file), stat)),
            Err(NotOpened::Refused(Errno::LOOP | Errno::XDEV)) => Err(NoFile::Link),
            // A socket, or a device without a driver.
            Err(NotOpened::Refused(Errno::NXIO | Errno::NODEV)) => Err(NoFile::Special("socket or device")),
            Err(NotOpened::Refused(error)) => Err(NoFile::Io(error.into())),
            Err(NotOpened::NotAFile(FileType::Directory)) => Err(NoFile::Directory),
            Err(NotOpened::NotAFile(other)) => Err(NoFile::Special(special(other))),
        }
    }

    /// The metadata of the entry `name`, if it exists. Links are not followed.
    pub(crate) fn entry(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Stat>> {
        match beneath::stat(&self.0, name) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The metadata of this directory.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(fs::fstat(&self.0)?)
    }

    /// At most `max` entries of this directory, sorted by name, and whether there are more.
    pub(crate) fn entries(&self, max: usize) -> io::Result<(Vec<(OsString, FileType)>, bool)> {
        let mut found = Vec::new();
        let mut more = false;
        beneath::list(&self.dir("")?, |name, kind| {
            if found.len() == max {
                more = true;
                return ControlFlow::Break(());
            }
            found.push((name.to_owned(), kind));
            ControlFlow::Continue(())
        })?;
        found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok((found, more))
    }

    /// Makes the directory `name` if it does not exist. It is an error if something else has that name.
    pub(crate) fn make_dir(&self, name: impl AsRef<OsStr>, mode: u32, owner: Owner) -> io::Result<Self> {
        let name = name.as_ref();
        let made = match fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o700)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let directory = self.dir(name)?;
        if made {
            directory.hand_over(mode, owner)?;
        }
        Ok(directory)
    }

    /// Changes the owner of the entry `name`, unless the user owns it already. Links are not followed.
    #[cfg(feature = "backend")]
    pub(crate) fn give(&self, name: &str, user: Uid, group: Gid) -> io::Result<()> {
        let stat = beneath::stat(&self.0, name)?;
        if (stat.st_uid, stat.st_gid) == (user.as_raw(), group.as_raw()) {
            return Ok(());
        }
        Ok(fs::chownat(&self.0, name, Some(user), Some(group), fs::AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// The parent of this directory at this moment.
    pub(crate) fn parent(&self) -> io::Result<Self> {
        Ok(Self(fs::openat(&self.0, "..", OWN_DIRECTORY, Mode::empty())?))
    }

    /// Changes the mode of the entry `name`. Links are not followed and keep their mode.
    pub(crate) fn change_mode(&self, name: &OsStr, change: impl Fn(u32) -> u32) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match fs::openat(&self.0, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            found => found?,
        };
        let before = fs::fstat(&found)?.st_mode;
        let mode = change(before & 0o7777);
        if FileType::from_raw_mode(before) == FileType::Symlink || mode == before & 0o7777 {
            return Ok(());
        }
        // The path names the descriptor, so nothing else can have taken its place.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&found));
        Ok(fs::chmod(path, Mode::from_raw_mode(mode))?)
    }

    /// Gives the owner all permissions on the directory `name`.
    pub(crate) fn open_up(&self, name: &str) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = fs::openat(&self.0, name, flags, Mode::empty())?;
        // The path names the descriptor, so nothing else can have taken its place.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&directory));
        Ok(fs::chmod(path, Mode::RWXU)?)
    }

    /// Makes all missing directories of the path `relative`.
    pub(crate) fn make_dirs(&self, relative: &str, mode: u32, owner: Owner) -> io::Result<Self> {
        let mut directory = self.dir("")?;
        for name in relative.split('/').filter(|name| !name.is_empty()) {
            directory = directory.make_dir(name, mode, owner)?;
        }
        Ok(directory)
    }

    /// Sets the mode and the owner of this directory if they differ. A check is much cheaper than a change.
    pub(crate) fn hand_over(&self, mode: u32, owner: Owner) -> io::Result<()> {
        let stat = self.stat()?;
        let is_owned =
            |(user, group): (Uid, Gid)| (stat.st_uid, stat.st_gid) == (user.as_raw(), group.as_raw());
        if stat.st_mode & 0o7777 == mode && owner.is_none_or(is_owned) {
            return Ok(());
        }
        if let Some((user, group)) = owner {
            fs::fchown(&self.0, Some(user), Some(group))?;
        }
        Ok(fs::fchmod(&self.0, Mode::from_raw_mode(mode))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_only_on_request_and_only_inside() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("file"), "secret").unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::fs::create_dir(inside.path().join("real")).unwrap();
        std::fs::write(inside.path().join("real/file"), "text").unwrap();
        symlink(outside.path(), inside.path().join("directory")).unwrap();
        symlink(outside.path().join("file"), inside.path().join("link")).unwrap();
        let dir = Dir::open(inside.path()).unwrap();
        for path in ["directory/file", "link", "../x", "real/../../x", "/etc/passwd", "gone", ""] {
            assert!(dir.file(path).is_err(), "{path}");
            assert!(dir.file_through_links(path).is_err(), "{path}");
        }
        symlink("real", inside.path().join("within")).unwrap();
        symlink("real/file", inside.path().join("file")).unwrap();
        for path in ["within/file", "file"] {
            assert!(matches!(dir.file(path), Err(NoFile::Link)), "{path}");
            assert!(dir.file_through_links(path).is_ok(), "{path}");
        }
        assert!(dir.dir("within").is_err() && dir.dir_through_links("within").is_ok());
        assert!(dir.file("real/file").is_ok());
    }
}
