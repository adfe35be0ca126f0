//! Opens files and directories below an open directory and follows no link out of it.
//!
//! No path is resolved twice. A caller opens a file below a directory that is already open, then checks and reads it
//! through its descriptor. A link or a replaced directory can make an open fail, but cannot lead it elsewhere.
//!
//! These are functions over descriptors. Stamps, owners, trees and messages belong to the crates that call them.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// The flags that open a directory for listing.
pub const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The flags that open a file for reading. Without `O_NONBLOCK`, opening a FIFO would wait for a writer.
pub const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The flags that open a directory for looking at one entry. The directory need not be readable.
const PARENT: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How often an open is tried if something is renamed meanwhile.
const MAX_ATTEMPTS: usize = 8;

/// How many names [`with_unused_name`] tries. An earlier process with the same id may have left some of them.
const MAX_NAMES: usize = 64;

/// Which links are followed, on the way to a file and at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Every link is an error.
    Never,
    /// Links that stay below the directory are followed; others are an error. Without `openat2` in the kernel, every
    /// link is an error.
    Beneath,
}

/// Why [`open_file`] did not open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// The system refused. `ELOOP` means a link, `EXDEV` a link or path that leads out, `ENXIO` a socket or device.
    Refused(Errno),
    /// The path has something that is not a regular file.
    NotAFile(FileType),
}

/// Opens the directory at `path` and follows links. Use it only for paths that a person chose.
///
/// ```
/// use prowess_base::beneath::{Follow, open, open_directory, DIRECTORY};
///
/// # let scratch = tempfile::tempdir()?;
/// # let root = scratch.path();
/// std::fs::create_dir_all(root.join("a/b"))?;
/// std::os::unix::fs::symlink("/etc", root.join("out"))?;
/// let directory = open_directory(root)?;
/// assert!(open(&directory, "a/b", DIRECTORY, Follow::Never).is_ok());
/// assert!(open(&directory, "out", DIRECTORY, Follow::Beneath).is_err());
/// assert!(open(&directory, "a/../..", DIRECTORY, Follow::Beneath).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// The error of the system.
pub fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    fs::openat(CWD, path, DIRECTORY, Mode::empty())
}

/// Opens the file or directory at `relative` below `directory`. A link, `..` or an absolute path cannot lead out of it.
///
/// ```
/// use prowess_base::beneath::{FILE, Follow, open, open_directory};
///
/// # let scratch = tempfile::tempdir()?;
/// std::fs::write(scratch.path().join("note"), "low tide")?;
/// let directory = open_directory(scratch.path())?;
/// assert!(open(&directory, "note", FILE, Follow::Never).is_ok());
/// assert!(open(&directory, "/etc/passwd", FILE, Follow::Never).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// The error of the system: `ELOOP` for a link, `EXDEV` for a path that leads out.
#[cfg(target_os = "linux")]
pub fn open(
    directory: impl AsFd,
    relative: impl AsRef<OsStr>,
    flags: OFlags,
    follow: Follow,
) -> Result<OwnedFd, Errno> {
    use std::sync::atomic::AtomicBool;

    use rustix::fs::ResolveFlags;

    static STEPWISE: AtomicBool = AtomicBool::new(false);
    let (directory, relative) = (directory.as_fd(), relative.as_ref());
    if STEPWISE.load(Ordering::Relaxed) {
        return open_stepwise(directory, relative, flags);
    }
    let resolve = match follow {
        // Without links, only these paths could lead out. The kernel is faster without the check.
        Follow::Never if !may_lead_out(relative) => ResolveFlags::NO_SYMLINKS,
        Follow::Never => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        Follow::Beneath => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
    };
    for _ in 0..MAX_ATTEMPTS {
        match fs::openat2(directory, relative, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS) => {
                STEPWISE.store(true, Ordering::Relaxed);
                return open_stepwise(directory, relative, flags);
            }
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens the file or directory at `relative` below `directory`. On this system every link is an error.
///
/// # Errors
///
/// The error of the system: `ELOOP` for a link, `EXDEV` for a path that leads out.
#[cfg(not(target_os = "linux"))]
pub fn open(
    directory: impl AsFd,
    relative: impl AsRef<OsStr>,
    flags: OFlags,
    _follow: Follow,
) -> Result<OwnedFd, Errno> {
    open_stepwise(directory, relative.as_ref(), flags)
}

/// Whether a path is absolute or has two dots in a row.
#[cfg(target_os = "linux")]
fn may_lead_out(relative: &OsStr) -> bool {
    let bytes = relative.as_bytes();
    bytes.starts_with(b"/") || bytes.windows(2).any(|pair| pair == b"..")
}

/// Opens one component at a time and follows no link. [`open`] uses it if the kernel has no `openat2`.
fn open_stepwise(directory: impl AsFd, relative: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut names: Vec<&[u8]> =
        relative.as_bytes().split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    if relative.as_bytes().starts_with(b"/") || names.contains(&&b".."[..]) {
        return Err(Errno::XDEV);
    }
    let last = names.pop().ok_or(Errno::NOENT)?;
    let mut at: Option<OwnedFd> = None;
    for name in names {
        let from = at.as_ref().map_or(directory.as_fd(), AsFd::as_fd);
        at = Some(fs::openat(from, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?);
    }
    let from = at.as_ref().map_or(directory.as_fd(), AsFd::as_fd);
    fs::openat(from, last, flags | OFlags::NOFOLLOW, Mode::empty())
}

/// Opens the regular file at `relative` for reading. It never waits, even for a FIFO.
///
/// ```
/// use prowess_base::beneath::{Follow, NotOpened, open_directory, open_file};
///
/// # let scratch = tempfile::tempdir()?;
/// std::fs::write(scratch.path().join("note"), "low tide")?;
/// std::fs::create_dir(scratch.path().join("notes"))?;
/// let directory = open_directory(scratch.path())?;
/// let (_file, stat) = open_file(&directory, "note", Follow::Never).unwrap();
/// assert_eq!(stat.st_size, 8);
/// let refused = open_file(&directory, "notes", Follow::Never);
/// assert!(matches!(refused, Err(NotOpened::NotAFile(_))));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// The system refused, or the path has something that is not a regular file.
pub fn open_file(
    directory: impl AsFd,
    relative: impl AsRef<OsStr>,
    follow: Follow,
) -> Result<(OwnedFd, Stat), NotOpened> {
    let file = open(directory, relative, FILE, follow).map_err(NotOpened::Refused)?;
    let stat = fs::fstat(&file).map_err(NotOpened::Refused)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((file, stat)),
        other => Err(NotOpened::NotAFile(other)),
    }
}

/// Returns the metadata of the entry at `relative` below `directory`. If the entry is a link, these are the metadata of
/// the link. A link before the last name is an error.
///
/// ```
/// use prowess_base::beneath::{open_directory, stat};
/// use rustix::fs::FileType;
/// use rustix::io::Errno;
///
/// # let scratch = tempfile::tempdir()?;
/// std::os::unix::fs::symlink("/", scratch.path().join("link"))?;
/// let directory = open_directory(scratch.path())?;
/// let found = stat(&directory, "link")?;
/// assert_eq!(FileType::from_raw_mode(found.st_mode), FileType::Symlink);
/// assert!(stat(&directory, "link/etc").is_err());
/// assert_eq!(stat(&directory, "..").unwrap_err(), Errno::XDEV);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// The error of the system: `ENOENT` if the entry does not exist, `ELOOP` or `ENOTDIR` for a link on the way, `EXDEV`
/// for an absolute path and for one that leads out or ends with `..`.
pub fn stat(directory: impl AsFd, relative: impl AsRef<OsStr>) -> Result<Stat, Errno> {
    let (directory, bytes) = (directory.as_fd(), relative.as_ref().as_bytes());
    let (parent, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(0) => return Err(Errno::XDEV),
        Some(at) => (Some(OsStr::from_bytes(&bytes[..at])), &bytes[at + 1..]),
        None => (None, bytes),
    };
    if name == b".." {
        return Err(Errno::XDEV);
    }
    let name = OsStr::from_bytes(name);
    match parent {
        None => fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW),
        Some(parent) => {
            let parent = open(directory, parent, PARENT, Follow::Never)?;
            fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        }
    }
}

/// Calls `each` with the name and type of every entry, in no particular order, until it breaks.
///
/// The list starts at the position of the descriptor, so pass one that was just opened.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use prowess_base::beneath::{list, open_directory};
///
/// # let scratch = tempfile::tempdir()?;
/// std::fs::write(scratch.path().join("note"), "low tide")?;
/// let mut names = Vec::new();
/// list(open_directory(scratch.path())?, |name, _kind| {
///     names.push(name.to_owned());
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(names, ["note"]);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// The error of the system. `each` may have been called for some entries.
pub fn list(
    directory: impl AsFd,
    mut each: impl FnMut(&OsStr, FileType) -> ControlFlow<()>,
) -> Result<(), Errno> {
    let directory = directory.as_fd();
    let mut buffer = Vec::with_capacity(32 * 1024);
    let mut entries = fs::RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            kind = stat(directory, name)
                .map_or(FileType::Unknown, |found| FileType::from_raw_mode(found.st_mode));
        }
        if each(name, kind).is_break() {
            break;
        }
    }
    Ok(())
}

/// Creates the file `name` for writing. It is an error if something has that name, even a link.
///
/// ```
/// use prowess_base::beneath::{create_file, open_directory};
///
/// # let scratch = tempfile::tempdir()?;
/// let directory = open_directory(scratch.path())?;
/// assert!(create_file(&directory, "note", 0o600).is_ok());
/// assert!(create_file(&directory, "note", 0o600).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// The error of the system: `EEXIST` if something has that name.
pub fn create_file(directory: impl AsFd, name: impl AsRef<OsStr>, mode: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(directory, name.as_ref(), flags, Mode::from_raw_mode(mode))
}

/// Calls `make` with new names until one is unused. Returns that name and the result of `make`.
///
/// A name consists of `prefix`, the id of this process, a number that this process uses once, and `suffix`.
///
/// ```
/// use prowess_base::beneath::{create_file, open_directory, with_unused_name};
///
/// # let scratch = tempfile::tempdir()?;
/// let directory = open_directory(scratch.path())?;
/// let (name, _file) = with_unused_name(".new-", ".tmp", |name| Ok(create_file(&directory, name, 0o600)?))?;
/// assert!(name.starts_with(".new-") && scratch.path().join(&name).exists());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// The error of `make`. If the name is in use, another is tried; after 64 names the error is `EEXIST`.
pub fn with_unused_name<T>(
    prefix: &str,
    suffix: &str,
    mut make: impl FnMut(&str) -> io::Result<T>,
) -> io::Result<(String, T)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    for _ in 0..MAX_NAMES {
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}{:x}-{count:x}{suffix}", std::process::id());
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn both_ways_of_opening_refuse_the_same() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("file"), "secret").unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::fs::create_dir(inside.path().join("real")).unwrap();
        std::fs::write(inside.path().join("real/file"), "text").unwrap();
        symlink(outside.path(), inside.path().join("directory")).unwrap();
        symlink(outside.path().join("file"), inside.path().join("link")).unwrap();
        symlink(outside.path().join("file"), inside.path().join("real/link")).unwrap();
        let dir = open_directory(inside.path()).unwrap();
        for path in [
            "directory/file",
            "link",
            "real/link",
            "..",
            "../x",
            "real/..",
            "real/../../x",
            "/etc/passwd",
            "gone",
            "gone/file",
            "",
        ] {
            // `real/..` stays inside. The kernel accepts it; `open_stepwise` refuses it.
            let is_inside = path == "real/..";
            assert_eq!(open(&dir, path, FILE, Follow::Never).is_ok(), is_inside, "{path}");
            assert_eq!(open(&dir, path, FILE, Follow::Beneath).is_ok(), is_inside, "{path}");
            assert!(open_stepwise(&dir, OsStr::new(path), FILE).is_err(), "{path}");
        }
        // Links that stay inside are followed only if they may be.
        symlink("real", inside.path().join("within")).unwrap();
        symlink("real/file", inside.path().join("file")).unwrap();
        for path in ["within/file", "file"] {
            assert_eq!(open(&dir, path, FILE, Follow::Never).unwrap_err(), Errno::LOOP, "{path}");
            assert!(open_stepwise(&dir, OsStr::new(path), FILE).is_err(), "{path}");
            assert!(open(&dir, path, FILE, Follow::Beneath).is_ok(), "{path}");
        }
        assert!(open(&dir, "real/file", FILE, Follow::Never).is_ok());
        assert!(open_stepwise(&dir, OsStr::new("real/file"), FILE).is_ok());
    }
}
