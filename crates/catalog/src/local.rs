//! Opens and reads manifests on a local disk, through directory descriptors.
//!
//! No path is resolved twice. A file is opened below a directory that is already open, then checked and read through its
//! descriptor. A link or a replaced directory can make an open fail, but cannot lead it elsewhere.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

pub(crate) use prowess_base::beneath::Follow;
use prowess_base::beneath::{self, DIRECTORY, NotOpened};
use rustix::fs::{self, AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;

use crate::root::Root;
use crate::skill::MAX_MANIFEST;

/// Identifies the version of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileStamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    /// Nanoseconds since 1970. They fit until the year 2262.
    modified: i64,
    changed: i64,
}

impl FileStamp {
    /// The stamp as bytes, for a digest.
    pub(crate) fn to_bytes(self) -> [u8; 40] {
        let fields =
            [self.device, self.inode, self.size, self.modified.cast_unsigned(), self.changed.cast_unsigned()];
        let mut bytes = [0; 40];
        for (to, field) in bytes.chunks_exact_mut(8).zip(fields) {
            to.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        trivial_numeric_casts,
        reason = "the fields' types differ between platforms; every value fits where it goes"
    )]
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

/// Why a manifest was not opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// It does not exist.
    Absent,
    /// It is a link, or is reached through one.
    Link,
    /// A link leads out of the directory.
    Outside,
    /// It is a directory, a FIFO, a socket or a device.
    NotAFile(FileType),
    /// It cannot be opened.
    Io(io::Error),
}

/// Opens a directory by its path and follows links. Use it only for roots, which the user chose.
pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(beneath::open_directory(path)?)
}

/// Opens a root. If it must be within a directory, a link cannot lead out of that directory.
pub(crate) fn open_root(root: &Root) -> io::Result<OwnedFd> {
    let Some(within) = &root.within else { return open_directory(&root.path) };
    let relative = root.path.strip_prefix(within).ok().and_then(Path::to_str);
    let Some(relative) = relative else { return Err(Errno::INVAL.into()) };
    let base = open_directory(within)?;
    Ok(open_directory_at(base.as_fd(), relative, Follow::Beneath)?)
}

/// Opens the directory at `relative` below `base`.
pub(crate) fn open_directory_at(
    base: BorrowedFd<'_>,
    relative: &str,
    follow: Follow,
) -> Result<OwnedFd, Errno> {
    let relative = if relative.is_empty() { "." } else { relative };
    beneath::open(base, relative, DIRECTORY, follow)
}

/// Opens the directory at `relative` and follows links anywhere.
pub(crate) fn open_directory_anywhere(base: BorrowedFd<'_>, relative: &str) -> Result<OwnedFd, Errno> {
    fs::openat(base, relative, DIRECTORY, Mode::empty())
}

/// Opens the regular file at `relative` below `base`.
pub(crate) fn open_file(
    base: BorrowedFd<'_>,
    relative: &str,
    follow: Follow,
) -> Result<(OwnedFd, FileStamp), OpenError> {
    let (file, stat) = beneath::open_file(base, relative, follow).map_err(|refused| match refused {
        NotOpened::NotAFile(kind) => OpenError::NotAFile(kind),
        NotOpened::Refused(Errno::NOENT | Errno::NOTDIR) => OpenError::Absent,
        NotOpened::Refused(Errno::LOOP) => OpenError::Link,
        NotOpened::Refused(Errno::XDEV) => OpenError::Outside,
        // A socket, or a device without a driver.
        NotOpened::Refused(Errno::NXIO) => OpenError::NotAFile(FileType::Unknown),
        NotOpened::Refused(error) => OpenError::Io(error.into()),
    })?;
    Ok((file, FileStamp::of(&stat)))
}

/// The stamp of the file at `relative`, if it is a regular file and not a link.
///
/// A rescan asks this for every skill, so it is one system call, and follows links in the directories of `relative`. Use
/// the stamp only to compare it with that of a file from [`open_file`]: equal stamps mean the same file.
pub(crate) fn stamp(base: BorrowedFd<'_>, relative: &str) -> Option<FileStamp> {
    let stat = fs::statat(base, relative, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| FileStamp::of(&stat))
}

/// The stamp of the directory at `relative`, if it is a directory and not a link. As with [`stamp`], only compare it.
pub(crate) fn directory_stamp(base: BorrowedFd<'_>, relative: &str) -> Option<FileStamp> {
    let relative = if relative.is_empty() { "." } else { relative };
    let stat = fs::statat(base, relative, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::Directory).then(|| FileStamp::of(&stat))
}

/// The stamp of an open directory.
pub(crate) fn stamp_of(directory: &OwnedFd) -> io::Result<FileStamp> {
    Ok(FileStamp::of(&fs::fstat(directory)?))
}

/// The size of the file `name` in `directory`, or 0 if it cannot be read.
pub(crate) fn size(directory: &OwnedFd, name: &str) -> u64 {
    beneath::stat(directory, name).map_or(0, |stat| FileStamp::of(&stat).size)
}

/// Whether `directory` has an entry of this name. A broken link counts.
pub(crate) fn has_entry(directory: &OwnedFd, name: &str) -> bool {
    beneath::stat(directory, name).is_ok()
}

/// When a scan began, in nanoseconds since 1970. It decides which stamps are reliable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(i64);

/// If a file changed more recently than this, a second change may leave its times as they are.
const UNSETTLED_NANOSECONDS: i64 = 50_000_000;

impl Clock {
    pub(crate) fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Returns `stamp`, unless a later version of the file could have the same one.
    pub(crate) fn settled(self, stamp: FileStamp) -> Option<FileStamp> {
        (self.0.saturating_sub(stamp.changed) > UNSETTLED_NANOSECONDS).then_some(stamp)
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// Reads until `buffer` is full or the file ends. Returns how many bytes were read.
///
/// `size` is the size of the file when it was opened. After that many bytes, no further read looks for the end.
pub(crate) fn read_up_to(file: &OwnedFd, size: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::read(file, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => {
                filled += count;
                if filled as u64 == size {
                    break;
                }
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

/// A whole manifest.
#[derive(Debug)]
pub(crate) enum WholeFile {
    Bytes(Vec<u8>),
    /// It has more than [`MAX_MANIFEST`] bytes, even if it was smaller when it was opened.
    TooLarge,
}

/// Reads a whole file, but at most one byte more than [`MAX_MANIFEST`].
pub(crate) fn read_whole(file: OwnedFd, size: u64) -> io::Result<WholeFile> {
    if size > MAX_MANIFEST {
        return Ok(WholeFile::TooLarge);
    }
    let bytes = read_first(file, size, MAX_MANIFEST + 1)?;
    Ok(if bytes.len() as u64 > MAX_MANIFEST { WholeFile::TooLarge } else { WholeFile::Bytes(bytes) })
}

/// Reads the first `max` bytes of a file, or all if it is shorter. `size` is its size when it was opened, for which
/// memory is reserved.
pub(crate) fn read_first(file: OwnedFd, size: u64, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(max)).unwrap_or(0));
    let mut limited = io::Read::take(std::fs::File::from(file), max);
    io::Read::read_to_end(&mut limited, &mut bytes)?;
    Ok(bytes)
}

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Directory,
    Link,
    File,
    Other,
}

/// Calls `each` for every entry of `directory`, in no particular order.
pub(crate) fn list(directory: &OwnedFd, mut each: impl FnMut(&[u8], EntryKind)) -> io::Result<()> {
    list_while(directory, |name, kind| {
        each(name, kind);
        true
    })
}

/// Like [`list`], but stops when `each` returns `false`.
pub(crate) fn list_while(
    directory: &OwnedFd,
    mut each: impl FnMut(&[u8], EntryKind) -> bool,
) -> io::Result<()> {
    Ok(beneath::list(directory, |name, kind| {
        let kind = match kind {
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Link,
            FileType::RegularFile => EntryKind::File,
            _ => EntryKind::Other,
        };
        if each(name.as_bytes(), kind) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?)
}

/// Whether `directory` is on a disk or in the memory of this machine. A file system of the network, of another process or
/// of an unknown type is not.
pub(crate) fn is_of_this_machine(directory: &OwnedFd) -> bool {
    #[cfg(target_os = "linux")]
    {
        // ext2 to ext4, XFS, Btrfs, F2FS, tmpfs and overlayfs.
        const OURS: [u64; 6] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994, 0x794C_7630];
        #[allow(
            clippy::unnecessary_cast,
            clippy::cast_sign_loss,
            trivial_numeric_casts,
            reason = "the type of this field differs between platforms; the numbers fit into 32 bits"
        )]
        fs::fstatfs(directory).is_ok_and(|found| OURS.contains(&(found.f_type as u64 & 0xFFFF_FFFF)))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = directory;
        false
    }
}
