//! An open directory, and operations on everything below it.
//!
//! No path is resolved twice, and no link in a path is followed. Files that a command left behind can make an operation
//! fail, but cannot lead it elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use prowess_base::beneath::{self, DIRECTORY, Follow, NotOpened, with_unused_name};
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

/// The prefix of temporary names that this crate uses.
pub(crate) const OWN_PREFIX: &str = ".prowess-";

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

/// Removes a directory with all its contents, or a file.
///
/// Links are removed, not followed. Read-only directories, such as staged skills, are made writable first. A tree may have
/// any depth. It is not an error if nothing exists at `path`.
///
/// ```
/// # let place = tempfile::tempdir()?;
/// let tree = place.path().join("tree");
/// std::fs::create_dir_all(tree.join("deep/er"))?;
/// std::os::unix::fs::symlink("/", tree.join("root"))?;
/// prowess_workspace::dir::remove_tree(&tree)?;
/// assert!(!tree.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// The system refused. Some of the contents may be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this path cannot be removed"));
    };
    let parent = if parent == Path::new("") { Path::new(".") } else { parent };
    match Dir::open(parent) {
        Ok(parent) => parent.remove_tree(name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
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
        Ok(fs::chownat(&self.0, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?)
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

    /// Writes a file and replaces an existing one. A reader finds the whole old or the whole new file, even after a crash of
    /// this process.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8], mode: u32, owner: Owner) -> io::Result<()> {
        let (temporary, mut file) = self.temporary_file()?;
        let written = file.write_all(bytes).and_then(|()| finish(&file, mode, owner));
        let renamed = written.and_then(|()| self.rename(&temporary, name));
        renamed.inspect_err(|_| self.discard(&temporary))
    }

    /// Like [`Self::replace`], but also safe if the machine crashes.
    pub(crate) fn replace_durably(
        &self,
        name: &str,
        bytes: &[u8],
        mode: u32,
        owner: Owner,
    ) -> io::Result<()> {
        let temporary = self.temporary(bytes, mode, owner)?;
        fs::renameat(&self.0, &temporary, &self.0, name).inspect_err(|_| self.discard(&temporary))?;
        Ok(fs::fsync(&self.0)?)
    }

    /// Writes a complete file under a temporary name and flushes it to disk.
    pub(crate) fn temporary(&self, bytes: &[u8], mode: u32, owner: Owner) -> io::Result<String> {
        let (name, mut file) = self.temporary_file()?;
        let written = file.write_all(bytes).and_then(|()| finish(&file, mode, owner));
        written.and_then(|()| file.sync_all()).inspect_err(|_| self.discard(&name))?;
        Ok(name)
    }

    /// Makes an empty file with a temporary name.
    pub(crate) fn temporary_file(&self) -> io::Result<(String, File)> {
        unused(|name| beneath::create_file(&self.0, name, 0o600).map(File::from))
    }

    /// Makes an empty directory with a temporary name.
    pub(crate) fn temporary_dir(&self) -> io::Result<(String, Self)> {
        let (name, ()) = unused(|name| fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o700)))?;
        let directory = self.dir(&name)?;
        Ok((name, directory))
    }

    /// Makes a link with a temporary name.
    pub(crate) fn temporary_link(&self, target: &str) -> io::Result<String> {
        Ok(unused(|name| fs::symlinkat(target, &self.0, name))?.0)
    }

    /// Renames an entry of this directory and replaces an existing file.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file if it exists.
    pub(crate) fn discard(&self, name: &str) {
        // Nothing can be done about a failure. The name shows that the file is from prowess.
        let _ = fs::unlinkat(&self.0, name, AtFlags::empty());
    }

    /// Removes the directory `name` with all its contents. Links are removed, not followed.
    ///
    /// Directories are moved up beside `name` before they are emptied, so that a tree of any depth needs two descriptors.
    pub(crate) fn remove_tree(&self, name: &OsStr) -> io::Result<()> {
        const BATCH: usize = 4096;
        let mut pending = vec![name.to_owned()];
        while let Some(name) = pending.pop() {
            self.make_accessible(&name);
            let directory = match self.dir(&name) {
                Ok(directory) => directory,
                Err(Errno::NOENT) => continue,
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    gone(fs::unlinkat(&self.0, &name, AtFlags::empty()))?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            loop {
                let (entries, more) = directory.entries(BATCH)?;
                for (entry, kind) in entries {
                    if kind != FileType::Directory {
                        gone(fs::unlinkat(&directory.0, &entry, AtFlags::empty()))?;
                    } else if fs::unlinkat(&directory.0, &entry, AtFlags::REMOVEDIR).is_err() {
                        directory.make_accessible(&entry);
                        let (up, ()) = unused(|up| fs::renameat(&directory.0, &entry, &self.0, up))?;
                        pending.push(up.into());
                    }
                }
                if !more {
                    break;
                }
            }
            match fs::unlinkat(&self.0, &name, AtFlags::REMOVEDIR) {
                // Another process added an entry meanwhile.
                Err(Errno::NOTEMPTY) => pending.push(name),
                removed => gone(removed)?,
            }
        }
        Ok(())
    }

    /// Gives the owner all permissions on a directory, so that it can be removed.
    fn make_accessible(&self, name: &OsStr) {
        use std::os::fd::AsRawFd as _;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(found) = fs::openat(&self.0, name, flags, Mode::empty()) else { return };
        let closed = fs::fstat(&found).is_ok_and(|stat| stat.st_mode & 0o700 != 0o700);
        if closed {
            // The path names the descriptor. The entry could be a link by now.
            let path = format!("/proc/self/fd/{}", found.as_raw_fd());
            let _ = fs::chmod(path, Mode::from_raw_mode(0o700));
        }
    }
}

/// Accepts that an entry does not exist any more.
fn gone(removed: rustix::io::Result<()>) -> io::Result<()> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sets the mode and the owner of a new file.
pub(crate) fn finish(file: &File, mode: u32, owner: Owner) -> io::Result<()> {
    if let Some((user, group)) = owner {
        fs::fchown(file, Some(user), Some(group))?;
    }
    // After the owner, because a change of owner clears bits of the mode.
    Ok(fs::fchmod(file, Mode::from_raw_mode(mode))?)
}

/// Calls `make` with an unused temporary name.
fn unused<T>(make: impl Fn(&str) -> rustix::io::Result<T>) -> io::Result<(String, T)> {
    with_unused_name(OWN_PREFIX, "", |name| Ok(make(name)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

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

    #[test]
    fn trees_of_any_depth_are_removed_and_links_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "text").unwrap();
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open(place.path()).unwrap();
        let mut below = dir.make_dir("tree", 0o755, None).unwrap();
        fs::symlinkat(outside.path(), &below, "link").unwrap();
        for depth in 0..3000 {
            below = below.make_dir("d", 0o755, None).unwrap();
            if depth % 1000 == 0 {
                below.replace("file", b"text", 0o444, None).unwrap();
                fs::symlinkat("/", &below, "root").unwrap();
            }
        }
        let closed = place.path().join("tree/closed");
        std::fs::create_dir_all(closed.join("inner")).unwrap();
        std::fs::write(closed.join("inner/file"), "").unwrap();
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
        dir.remove_tree(OsStr::new("tree")).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        assert!(outside.path().join("kept").exists());
    }
}
