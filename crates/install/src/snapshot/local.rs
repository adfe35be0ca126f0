//! A directory on this machine as a snapshot.
//!
//! The directory can change at any time. So a file is read only if it is still the file that was listed: the same inode with
//! the same size and times. No link is followed, neither when the directory is listed nor when a file is read.

use std::fs::File;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use prowess_base::beneath::{self, DIRECTORY, Follow, NotOpened};
use rustix::fs::{FileType, Stat, fstat};
use thiserror::Error;

use super::entries::{Collected, Collector, is_git_directory};
use super::{Entry, EntryKind, MAX_DEPTH, MAX_ENTRIES, MAX_FILE_BYTES, Snapshot, SnapshotError};

/// Directories that programs make and that never belong to a skill. They may have a very large number of files.
const LEFT_OUT: [&str; 3] = ["node_modules", "__pycache__", ".venv"];

/// Why a directory cannot be listed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LocalError {
    /// The directory cannot be opened or listed.
    #[error("cannot list {path}: {source}", path = path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The directory has too many files.
    #[error("{path} has more than {most} files; name the directory of the skill itself", path = path.display())]
    TooMany {
        /// The directory.
        path: PathBuf,
        /// The most files and directories.
        most: usize,
    },
}

/// A directory on this machine.
#[derive(Debug)]
pub struct LocalSnapshot {
    root: OwnedFd,
    collected: Collected<Option<Stamp>>,
}

/// Tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
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
            mode: stat.st_mode as u32,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

impl LocalSnapshot {
    /// Lists the directory at `path`. Links in `path` itself are followed, because a person chose it.
    ///
    /// # Errors
    ///
    /// The directory cannot be listed, or has too many files.
    pub fn open(path: &Path) -> Result<Self, LocalError> {
        Self::open_with(path, MAX_ENTRIES)
    }

    fn open_with(path: &Path, most: usize) -> Result<Self, LocalError> {
        let failed =
            |errno: rustix::io::Errno| LocalError::Io { path: path.to_owned(), source: errno.into() };
        let root = beneath::open_directory(path).map_err(failed)?;
        let mut collector = Collector::default();
        let mut directories = 0;
        let mut pending: Vec<(Vec<u8>, usize)> = vec![(Vec::new(), 0)];
        while let Some((directory, depth)) = pending.pop() {
            let relative = if directory.is_empty() { b".".as_slice() } else { &directory };
            let relative = std::ffi::OsStr::from_bytes(relative);
            let opened = match beneath::open(&root, relative, DIRECTORY, Follow::Never) {
                Ok(opened) => opened,
                Err(errno) if directory.is_empty() => return Err(failed(errno)),
                Err(errno) => {
                    // A skill with a directory that cannot be listed must not be taken for a whole one.
                    collector.notice(format!("{}: cannot be listed: {errno}", relative.display()));
                    collector.add(&directory, EntryKind::Other, None);
                    continue;
                }
            };
            beneath::list(&opened, |name, kind| {
                let mut path = directory.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(name.as_bytes());
                let shown = name.to_string_lossy();
                if is_git_directory(&shown) {
                    return ControlFlow::Continue(());
                }
                match kind {
                    FileType::Directory if LEFT_OUT.contains(&&*shown) => {
                        let path = String::from_utf8_lossy(&path);
                        collector.notice(format!("{path}: left out: never part of a skill"));
                    }
                    FileType::Directory if depth + 1 >= MAX_DEPTH => {
                        collector.notice(format!("{}: left out: too deep", String::from_utf8_lossy(&path)));
                        collector.add(&path, EntryKind::Other, None);
                    }
                    FileType::Directory => {
                        directories += 1;
                        pending.push((path, depth + 1));
                    }
                    FileType::Symlink => collector.add(&path, EntryKind::Link, None),
                    FileType::RegularFile => match beneath::stat(&opened, name) {
                        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                            let stamp = Stamp::of(&stat);
                            let is_executable = stamp.mode & 0o100 != 0;
                            let kind = EntryKind::File { size: stamp.size, is_executable };
                            collector.add(&path, kind, Some(stamp));
                        }
                        Ok(_) | Err(_) => collector.add(&path, EntryKind::Other, None),
                    },
                    _ => collector.add(&path, EntryKind::Other, None),
                }
                if collector.len() + directories > most {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })
            .map_err(failed)?;
            if collector.len() + directories > most {
                return Err(LocalError::TooMany { path: path.to_owned(), most });
            }
        }
        Ok(Self { root, collected: collector.finish() })
    }
}

impl Snapshot for LocalSnapshot {
    fn entries(&self) -> &[Entry] {
        &self.collected.entries
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, SnapshotError> {
        let Some((size, _, Some(listed))) = self.collected.file(path) else {
            return Err(SnapshotError::NotAFile { path: path.to_owned() });
        };
        if size > MAX_FILE_BYTES {
            return Err(SnapshotError::TooLarge { path: path.to_owned(), size, most: MAX_FILE_BYTES });
        }
        let failed =
            |errno: rustix::io::Errno| SnapshotError::Io { path: path.to_owned(), source: errno.into() };
        let changed = || SnapshotError::Changed { path: path.to_owned() };
        let (file, stat) =
            beneath::open_file(&self.root, path, Follow::Never).map_err(|error| match error {
                NotOpened::Refused(errno @ (rustix::io::Errno::ACCESS | rustix::io::Errno::PERM)) => {
                    failed(errno)
                }
                NotOpened::Refused(_) | NotOpened::NotAFile(_) => changed(),
            })?;
        if Stamp::of(&stat) != *listed {
            return Err(changed());
        }
        let file = File::from(file);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        (&file)
            .take(size + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| SnapshotError::Io { path: path.to_owned(), source })?;
        let after = fstat(&file).map_err(failed)?;
        if bytes.len() as u64 != size || Stamp::of(&after) != *listed {
            return Err(changed());
        }
        Ok(bytes)
    }

    fn commit(&self) -> Option<&str> {
        None
    }

    fn folder_sha1(&self, _path: &str) -> Option<String> {
        None
    }

    fn notices(&self) -> &[String] {
        &self.collected.notices
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn place() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("kit/scripts")).unwrap();
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::create_dir_all(root.join("node_modules/x")).unwrap();
        fs::write(root.join(".git/config"), "secret").unwrap();
        fs::write(root.join("kit/SKILL.md"), "---\n").unwrap();
        fs::write(root.join("kit/scripts/run.sh"), "ls").unwrap();
        fs::set_permissions(root.join("kit/scripts/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("/etc/passwd", root.join("kit/out")).unwrap();
        symlink("/etc", root.join("kit/etc")).unwrap();
        place
    }

    #[test]
    fn a_directory_is_listed_and_no_link_is_followed() {
        let place = place();
        let mut snapshot = LocalSnapshot::open(place.path()).unwrap();
        let entries: Vec<_> =
            snapshot.entries().iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
        assert_eq!(
            entries,
            [
                ("kit/SKILL.md", EntryKind::File { size: 4, is_executable: false }),
                ("kit/etc", EntryKind::Link),
                ("kit/out", EntryKind::Link),
                ("kit/scripts/run.sh", EntryKind::File { size: 2, is_executable: true }),
            ]
        );
        assert_eq!(snapshot.notices(), ["node_modules: left out: never part of a skill"]);
        assert_eq!(snapshot.read("kit/scripts/run.sh").unwrap(), b"ls");
        for path in ["kit/out", "kit/etc/passwd", "kit", "", "gone", "../x", "/etc/passwd", ".git/config"] {
            let read = snapshot.read(path);
            assert!(matches!(read, Err(SnapshotError::NotAFile { .. })), "{path}");
        }
    }

    #[test]
    fn a_file_that_changed_is_not_read() {
        let place = place();
        let file = place.path().join("kit/SKILL.md");
        let mut snapshot = LocalSnapshot::open(place.path()).unwrap();
        fs::write(&file, "-x-\n").unwrap();
        fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        assert!(matches!(snapshot.read("kit/SKILL.md"), Err(SnapshotError::Changed { .. })));
        fs::remove_file(&file).unwrap();
        symlink("/etc/passwd", &file).unwrap();
        assert!(matches!(snapshot.read("kit/SKILL.md"), Err(SnapshotError::Changed { .. })));
        fs::rename(place.path().join("kit"), place.path().join("old")).unwrap();
        symlink("old", place.path().join("kit")).unwrap();
        assert!(matches!(snapshot.read("kit/scripts/run.sh"), Err(SnapshotError::Changed { .. })));
    }

    #[test]
    fn too_many_files_and_missing_directories_are_said() {
        let place = place();
        let error = LocalSnapshot::open_with(place.path(), 3).unwrap_err();
        assert!(matches!(error, LocalError::TooMany { most: 3, .. }), "{error}");
        let error = LocalSnapshot::open(&place.path().join("gone")).unwrap_err();
        assert!(error.to_string().contains("gone: No such file"), "{error}");
    }
}
