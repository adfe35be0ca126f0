//! Files and directories below an open directory, without following links out of it.
//!
//! Nothing here resolves a path twice. A file is opened below a directory that is already open, checked through its own
//! descriptor, and read from it. A link or a swapped directory can make an open fail; it cannot lead it elsewhere.
//!
//! These are functions over descriptors. What a crate does with them (stamps, owners, trees, messages) is its own.

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

/// The flags that open a file for reading. Without `O_NONBLOCK` a FIFO would wait for its writer.
pub const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// How often an open is tried again when something was renamed while the kernel looked.
const MAX_ATTEMPTS: usize = 8;

/// How many names [`with_unused_name`] tries. Files that a process of the same number left behind are in the way.
const MAX_NAMES: usize = 64;

/// Which links are followed, on the way to a file and at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Every link is an error.
    Never,
    /// Links that stay below the directory are followed; others are an error. If the kernel has no `openat2`, every link
    /// is one.
    Beneath,
}

/// Why [`open_file`] gave no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// The system refused. `ELOOP` means a link, `EXDEV` a link or path that leads out, `ENXIO` a socket or device.
    Refused(Errno),
    /// Something else than a regular file is there.
    NotAFile(FileType),
}

/// Opens the directory at `path` and follows links: for places that a person named.
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
/// What the system says.
pub fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    fs::openat(CWD, path, DIRECTORY, Mode::empty())
}

/// Opens what is at `relative` below `directory`. Neither a link nor `..` nor an absolute path leads out of it.
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
/// What the system says: `ELOOP` of a link, `EXDEV` of a way out.
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
        // Without links only these could lead out; the kernel is faster without the check.
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

/// Opens what is at `relative` below `directory`. No link is followed on this system.
///
/// # Errors
///
/// What the system says: `ELOOP` of a link, `EXDEV` of a way out.
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

/// Opens one component at a time and follows no link at all: what [`open`] does if the kernel has no `openat2`.
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

/// Opens the regular file at `relative` for reading. It never waits, whatever is there.
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
/// The system refused, or something else than a regular file is there.
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

/// Looks at the entry `name` itself, and not at what it leads to if it is a link.
///
/// ```
/// use prowess_base::beneath::{open_directory, stat};
/// use rustix::fs::FileType;
///
/// # let scratch = tempfile::tempdir()?;
/// std::os::unix::fs::symlink("/", scratch.path().join("link"))?;
/// let directory = open_directory(scratch.path())?;
/// let found = stat(&directory, "link")?;
/// assert_eq!(FileType::from_raw_mode(found.st_mode), FileType::Symlink);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// What the system says: `ENOENT` when there is no such entry.
pub fn stat(directory: impl AsFd, name: impl AsRef<OsStr>) -> Result<Stat, Errno> {
    fs::statat(directory, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW)
}

/// Calls `each` with the name and kind of every entry, in the order of the disk, until it breaks.
///
/// It reads through the given descriptor, from where that stands: give it one that was just opened.
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
/// What the system says; `each` has seen some entries by then.
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

/// Creates the file `name` for writing. If anything has that name, also a link, it is an error.
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
/// What the system says: `EEXIST` when something has that name.
pub fn create_file(directory: impl AsFd, name: impl AsRef<OsStr>, mode: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(directory, name.as_ref(), flags, Mode::from_raw_mode(mode))
}

/// Calls `make` with names until one is unused, and returns that name with what was made.
///
/// A name has `prefix`, the number of this process, a number that this process gives once, and `suffix`.
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
/// What `make` says, unless that is that something has the name; and that, when it says so too often.
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
            // `real/..` stays inside; the kernel knows that, and one component at a time does not.
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
