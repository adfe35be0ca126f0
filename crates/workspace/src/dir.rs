//! A directory that is open, and everything beneath it.
//!
//! Nothing here resolves a path twice, and no link is followed on the way: what a command left behind can
//! make an operation fail; it cannot lead it elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use prowess_base::beneath::{self, DIRECTORY, Follow, NotOpened, with_unused_name};
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

/// What files of this crate's own begin with while they are not what they will be.
pub(crate) const OWN_PREFIX: &str = ".prowess-";

/// Whose files are made: those of this process, or of the user that commands run as.
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
    /// The system says why.
    Io(io::Error),
}

impl NoFile {
    /// What it is, for a sentence that begins with its name.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Link => "is a link, or lies behind one".to_owned(),
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

/// What a file that is neither a regular one nor a directory is called.
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

/// Removes a directory with all that it holds, or a file. Links are removed, not followed; directories that their mode
/// closes, as those of staged skills are, are opened first; and a tree may be of any depth. What is not there is no error.
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
/// The system refused. A part of it may be gone.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this cannot be removed"));
    };
    let parent = if parent == Path::new("") { Path::new(".") } else { parent };
    match Dir::open(parent) {
        Ok(parent) => parent.remove_tree(name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The flags that open a directory and refuse a link in its place.
const OWN_DIRECTORY: OFlags = DIRECTORY.union(OFlags::NOFOLLOW);

impl Dir {
    /// The directory at `path`, links followed: for places that the user named.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(beneath::open_directory(path)?))
    }

    /// Wraps a descriptor that is known to be a directory's.
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// The directory at `relative`, reached without a link; this one when it is empty.
    pub(crate) fn dir(&self, relative: impl AsRef<OsStr>) -> Result<Self, Errno> {
        let relative = relative.as_ref();
        let relative = if relative.is_empty() { OsStr::new(".") } else { relative };
        Ok(Self(beneath::open(&self.0, relative, OWN_DIRECTORY, Follow::Never)?))
    }

    /// The regular file at `relative`, reached without a link, for reading. It never waits.
    pub(crate) fn file(&self, relative: impl AsRef<OsStr>) -> Result<(File, Stat), NoFile> {
        self.regular(relative.as_ref(), Follow::Never)
    }

    /// The regular file at `relative`, through links that stay beneath this directory.
    pub(crate) fn file_through_links(&self, relative: impl AsRef<OsStr>) -> Result<(File, Stat), NoFile> {
        self.regular(relative.as_ref(), Follow::Beneath)
    }

    /// The directory at `relative`, through links that stay beneath this one.
    pub(crate) fn dir_through_links(&self, relative: impl AsRef<OsStr>) -> Result<Self, Errno> {
        Ok(Self(beneath::open(&self.0, relative, DIRECTORY, Follow::Beneath)?))
    }

    fn regular(&self, relative: &OsStr, follow: Follow) -> Result<(File, Stat), NoFile> {
        match beneath::open_file(&self.0, relative, follow) {
            Ok((file, stat)) => Ok((File::from(file), stat)),
            Err(NotOpened::Refused(Errno::LOOP | Errno::XDEV)) => Err(NoFile::Link),
            // Sockets, and devices with nothing behind them, cannot be opened.
            Err(NotOpened::Refused(Errno::NXIO | Errno::NODEV)) => Err(NoFile::Special("socket or device")),
            Err(NotOpened::Refused(error)) => Err(NoFile::Io(error.into())),
            Err(NotOpened::NotAFile(FileType::Directory)) => Err(NoFile::Directory),
            Err(NotOpened::NotAFile(other)) => Err(NoFile::Special(special(other))),
        }
    }

    /// The entry `name` of this directory itself, and not what it leads to if it is a link.
    pub(crate) fn entry(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Stat>> {
        match beneath::stat(&self.0, name) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What this directory is.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(fs::fstat(&self.0)?)
    }

    /// At most `max` of the directory's entries, by name; and whether there are more.
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

    /// Makes the directory `name` unless it is there; an error if something else is.
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

    /// Gives what has a name here to a user, unless it is theirs. A link is given itself, and not followed.
    #[cfg(feature = "backend")]
    pub(crate) fn give(&self, name: &str, user: Uid, group: Gid) -> io::Result<()> {
        let stat = beneath::stat(&self.0, name)?;
        if (stat.st_uid, stat.st_gid) == (user.as_raw(), group.as_raw()) {
            return Ok(());
        }
        Ok(fs::chownat(&self.0, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// The directory that this one lies in by now.
    pub(crate) fn parent(&self) -> io::Result<Self> {
        Ok(Self(fs::openat(&self.0, "..", OWN_DIRECTORY, Mode::empty())?))
    }

    /// Changes the mode of what has a name here. A link is left alone, and not followed.
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
        // By its descriptor: nothing else can be in its place by now.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&found));
        Ok(fs::chmod(path, Mode::from_raw_mode(mode))?)
    }

    /// Lets the user into a directory of theirs again.
    pub(crate) fn open_up(&self, name: &str) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = fs::openat(&self.0, name, flags, Mode::empty())?;
        // By its descriptor: nothing else can be in its place by now.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&directory));
        Ok(fs::chmod(path, Mode::RWXU)?)
    }

    /// Makes every directory of the path `relative` that is missing.
    pub(crate) fn make_dirs(&self, relative: &str, mode: u32, owner: Owner) -> io::Result<Self> {
        let mut directory = self.dir("")?;
        for name in relative.split('/').filter(|name| !name.is_empty()) {
            directory = directory.make_dir(name, mode, owner)?;
        }
        Ok(directory)
    }

    /// Gives this directory its mode and its owner, unless it has them: a change costs much more than a look.
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

    /// Writes a new file whole, and puts it in the place of whatever file has that name. Who reads it
    /// meanwhile, and a crash of this process, find the old or the new one.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8], mode: u32, owner: Owner) -> io::Result<()> {
        let (temporary, mut file) = self.temporary_file()?;
        let written = file.write_all(bytes).and_then(|()| finish(&file, mode, owner));
        let renamed = written.and_then(|()| self.rename(&temporary, name));
        renamed.inspect_err(|_| self.discard(&temporary))
    }

    /// Does what [`Self::replace`] does, and a crash of the whole machine is none the worse.
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

    /// Writes a complete file under a name of its own, durably.
    pub(crate) fn temporary(&self, bytes: &[u8], mode: u32, owner: Owner) -> io::Result<String> {
        let (name, mut file) = self.temporary_file()?;
        let written = file.write_all(bytes).and_then(|()| finish(&file, mode, owner));
        written.and_then(|()| file.sync_all()).inspect_err(|_| self.discard(&name))?;
        Ok(name)
    }

    /// An empty file under a name of its own.
    pub(crate) fn temporary_file(&self) -> io::Result<(String, File)> {
        unused(|name| beneath::create_file(&self.0, name, 0o600).map(File::from))
    }

    /// An empty directory under a name of its own.
    pub(crate) fn temporary_dir(&self) -> io::Result<(String, Self)> {
        let (name, ()) = unused(|name| fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o700)))?;
        let directory = self.dir(&name)?;
        Ok((name, directory))
    }

    /// A link under a name of its own.
    pub(crate) fn temporary_link(&self, target: &str) -> io::Result<String> {
        Ok(unused(|name| fs::symlinkat(target, &self.0, name))?.0)
    }

    /// Renames an entry of this directory, in the place of a file of that name if there is one.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file; one that is not there is removed already.
    pub(crate) fn discard(&self, name: &str) {
        // Nothing is left to do about a failure; the name says whose it is.
        let _ = fs::unlinkat(&self.0, name, AtFlags::empty());
    }

    /// Removes the directory `name` with all that it holds. Links are removed, not followed.
    ///
    /// Directories are moved up beside `name` before they are emptied, so that a tree of any depth takes
    /// two descriptors.
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
                // Somebody put something into it meanwhile.
                Err(Errno::NOTEMPTY) => pending.push(name),
                removed => gone(removed)?,
            }
        }
        Ok(())
    }

    /// Lets the owner into a directory that its mode keeps out, so that it can be removed.
    fn make_accessible(&self, name: &OsStr) {
        use std::os::fd::AsRawFd as _;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(found) = fs::openat(&self.0, name, flags, Mode::empty()) else { return };
        let closed = fs::fstat(&found).is_ok_and(|stat| stat.st_mode & 0o700 != 0o700);
        if closed {
            // The descriptor is named, and not the entry, which might be a link by now.
            let path = format!("/proc/self/fd/{}", found.as_raw_fd());
            let _ = fs::chmod(path, Mode::from_raw_mode(0o700));
        }
    }
}

/// What is not there any more is removed, be it by somebody else.
fn gone(removed: rustix::io::Result<()>) -> io::Result<()> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Gives a file that was just written its mode and its owner.
pub(crate) fn finish(file: &File, mode: u32, owner: Owner) -> io::Result<()> {
    if let Some((user, group)) = owner {
        fs::fchown(file, Some(user), Some(group))?;
    }
    // After the owner: a change of owner takes bits away.
    Ok(fs::fchmod(file, Mode::from_raw_mode(mode))?)
}

/// Does `make` with a name that nothing has.
fn unused<T>(make: impl Fn(&str) -> rustix::io::Result<T>) -> io::Result<(String, T)> {
    with_unused_name(OWN_PREFIX, "", |name| Ok(make(name)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn links_are_followed_only_if_they_stay_inside_and_may_be() {
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
