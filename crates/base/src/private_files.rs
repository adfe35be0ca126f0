//! Files in a directory that belongs to this user alone: caches that prowess reads back later.
//!
//! Another user must not be able to plant a file. So the directory and each file must belong to this user, and nobody else may
//! write to them. Links are not followed. A file is written whole or not at all.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use crate::beneath::{self, DIRECTORY, FILE, Follow};

/// The start of a file's name until the file is complete.
const UNFINISHED: &str = "unfinished-";
/// How old an unfinished file must be so that its writer is surely gone.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// A directory of files that only this user can read and write. It is created by the first write.
///
/// ```
/// use prowess_base::private_files::{PrivateFiles, Room};
///
/// # let scratch = tempfile::tempdir()?;
/// let files = PrivateFiles::new(scratch.path().join("cache"));
/// assert!(files.read("a", 100).is_none());
/// files.write("a", b"text", Room::new(2, 1_000))?;
/// assert_eq!(files.read("a", 100).as_deref(), Some(&b"text"[..]));
/// assert!(files.read("a", 3).is_none(), "it is longer");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateFiles {
    directory: PathBuf,
}

/// How much a directory keeps. The files that were unused for longest are removed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    files: usize,
    bytes: u64,
    unused: Duration,
}

impl Room {
    /// Room for so many files with so many bytes together.
    pub const fn new(files: usize, bytes: u64) -> Self {
        Self { files, bytes, unused: Duration::MAX }
    }

    /// Files that were not used for this long are removed.
    #[must_use]
    pub const fn unused_for(mut self, unused: Duration) -> Self {
        self.unused = unused;
        self
    }
}

impl PrivateFiles {
    /// Files in this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The bytes of a file. `None` if there is none, if it or the directory is not only ours, or if it is longer than `most`.
    /// The file then counts as used.
    pub fn read(&self, name: &str, most: u64) -> Option<Vec<u8>> {
        let directory = self.open().ok()?;
        let file = beneath::open(&directory, name, FILE, Follow::Never).ok()?;
        let stat = fs::fstat(&file).ok()?;
        let size = size_of(&stat);
        let is_ours = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && is_ours(&stat);
        if !is_ours || size > most {
            return None;
        }
        let now = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        };
        // On a disk that is read-only, files are removed in the order in which they were written.
        let _ = fs::futimens(&file, &now);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        File::from(file).take(most.saturating_add(1)).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= most).then_some(bytes)
    }

    /// Writes a file, and removes others that have no room. A reader sees the old file or the new one, never a part.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or is not only ours, or the file cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8], room: Room) -> io::Result<()> {
        if name.contains('/') || name.starts_with('.') || name.starts_with(UNFINISHED) {
            return Err(Errno::INVAL.into());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let directory = self.open()?;
        let (unfinished, file) = beneath::with_unused_name(UNFINISHED, "", |name| {
            Ok(beneath::create_file(&directory, name, 0o600)?)
        })?;
        let written = File::from(file)
            .write_all(bytes)
            .and_then(|()| Ok(fs::renameat(&directory, unfinished.as_str(), &directory, name)?));
        if written.is_err() {
            let _ = fs::unlinkat(&directory, unfinished.as_str(), AtFlags::empty());
        }
        written?;
        self.trim(&directory, name, room)
    }

    /// Opens the directory, if it is only ours.
    fn open(&self) -> io::Result<OwnedFd> {
        let directory = fs::open(&self.directory, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        if is_ours(&fs::fstat(&directory)?) { Ok(directory) } else { Err(Errno::PERM.into()) }
    }

    /// Removes files that have no room, but not the file `newest`.
    fn trim(&self, directory: &OwnedFd, newest: &str, room: Room) -> io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        let (mut count, mut sum) = (0, 0_u64);
        let now = SystemTime::now();
        let age = |used: SystemTime| now.duration_since(used).unwrap_or_default();
        for entry in std::fs::read_dir(&self.directory)?.flatten() {
            let name = entry.file_name();
            let Ok(found) = entry.metadata() else { continue };
            let (Ok(used), true) = (found.modified(), found.is_file()) else { continue };
            if name.to_str().is_some_and(|name| name.starts_with(UNFINISHED)) {
                if age(used) > ABANDONED {
                    let _ = fs::unlinkat(directory, &*name, AtFlags::empty());
                }
                continue;
            }
            (count, sum) = (count + 1, sum.saturating_add(found.len()));
            if name.to_str() != Some(newest) {
                files.push((used, found.len(), PathBuf::from(name)));
            }
        }
        files.sort();
        for (used, size, name) in files {
            if count <= room.files && sum <= room.bytes && age(used) <= room.unused {
                break;
            }
            if fs::unlinkat(directory, &name, AtFlags::empty()).is_ok() {
                (count, sum) = (count - 1, sum.saturating_sub(size));
            }
        }
        Ok(())
    }
}

/// Whether a file or directory belongs to this user, and nobody else can write to it.
fn is_ours(stat: &Stat) -> bool {
    let others = Mode::WGRP | Mode::WOTH;
    stat.st_uid == rustix::process::geteuid().as_raw()
        && !Mode::from_raw_mode(stat.st_mode).intersects(others)
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    trivial_numeric_casts,
    reason = "the type differs between platforms"
)]
fn size_of(stat: &Stat) -> u64 {
    stat.st_size as u64
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const ROOM: Room = Room::new(3, 100);

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_our_own_files_are_read() {
        let scratch = tempfile::tempdir().unwrap();
        let files = PrivateFiles::new(scratch.path().join("cache"));
        files.write("a", b"text", ROOM).unwrap();
        let file = scratch.path().join("cache/a");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(files.directory().metadata().unwrap().permissions().mode() & 0o777, 0o700);

        for mode in [0o620, 0o602] {
            set_mode(&file, mode);
            assert!(files.read("a", 100).is_none(), "others can write to the file");
        }
        set_mode(&file, 0o600);
        set_mode(files.directory(), 0o777);
        assert!(files.read("a", 100).is_none(), "others can write to the directory");
        assert!(files.write("a", b"text", ROOM).is_err());
        set_mode(files.directory(), 0o700);
        assert!(files.read("a", 100).is_some());

        std::fs::write(scratch.path().join("planted"), "text").unwrap();
        symlink(scratch.path().join("planted"), scratch.path().join("cache/link")).unwrap();
        symlink(scratch.path().join("cache"), scratch.path().join("linked")).unwrap();
        assert!(files.read("link", 100).is_none());
        assert!(PrivateFiles::new(scratch.path().join("linked")).read("a", 100).is_none());
        for name in ["../planted", "a/b", ".", "unfinished-1"] {
            assert!(files.read(name, 100).is_none());
            assert!(files.write(name, b"text", ROOM).is_err());
        }
    }

    #[test]
    fn the_files_that_were_unused_for_longest_go_first() {
        let scratch = tempfile::tempdir().unwrap();
        let files = PrivateFiles::new(scratch.path());
        let put = |name: &str, age: u64| {
            files.write(name, &[0; 10], ROOM).unwrap();
            let used = SystemTime::now() - Duration::from_secs(age);
            File::options().write(true).open(scratch.path().join(name)).unwrap().set_modified(used).unwrap();
        };
        let names = || {
            let names = std::fs::read_dir(scratch.path()).unwrap();
            let mut names: Vec<String> =
                names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names.concat()
        };
        put("a", 300);
        put("b", 200);
        put("c", 100);
        assert!(files.read("a", 100).is_some(), "it is used now");
        put("d", 50);
        assert_eq!(names(), "acd");
        files.write("e", &[0; 85], ROOM).unwrap();
        assert_eq!(names(), "ae", "only so many bytes");
        put("a", 300);
        put("e", 20);
        files.write("f", b"", ROOM.unused_for(Duration::from_secs(100))).unwrap();
        assert_eq!(names(), "ef");
    }
}
