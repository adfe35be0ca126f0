//! Reads and writes whole lock files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use prowess_base::beneath::{self, Follow, NotOpened};
use rustix::fs::{self, AtFlags, Mode};
use rustix::io::Errno;

use super::error::LockError;

/// The mode of a new lock file. It has no secrets, and others on a team read it.
const MODE: u32 = 0o644;
/// The start of a lock file's name until it is complete.
const UNFINISHED: &str = ".prowess-lock-";

/// The bytes of a lock file. `None` if there is none.
pub(super) fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, LockError> {
    let failed = |source: io::Error| LockError::Read { path: path.to_owned(), source };
    let (directory, name) = match parts(path) {
        Ok(parts) => parts,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let file = match beneath::open_file(&directory, name, Follow::Never) {
        Ok((file, _)) => file,
        Err(NotOpened::Refused(Errno::NOENT)) => return Ok(None),
        Err(NotOpened::NotAFile(_) | NotOpened::Refused(Errno::LOOP | Errno::NXIO)) => {
            return Err(LockError::NotAFile { path: path.to_owned() });
        }
        Err(NotOpened::Refused(error)) => return Err(failed(error.into())),
    };
    let mut bytes = Vec::new();
    File::from(file).take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(LockError::TooLarge { path: path.to_owned(), most });
    }
    Ok(Some(bytes))
}

/// Writes a lock file. A reader sees the old file or the new one, never a part. The mode of an old file stays.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), LockError> {
    try_write(path, bytes).map_err(|source| LockError::Write { path: path.to_owned(), source })
}

fn try_write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (directory, name) = parts(path)?;
    let old = beneath::open_file(&directory, name, Follow::Never).ok().map(|(_, stat)| stat.st_mode);
    let (unfinished, file) = beneath::with_unused_name(UNFINISHED, ".tmp", |name| {
        Ok(beneath::create_file(&directory, name, MODE)?)
    })?;
    let written = fill(file, bytes, old.map(Mode::from_raw_mode))
        .and_then(|()| Ok(fs::renameat(&directory, unfinished.as_str(), &directory, name)?));
    if written.is_err() {
        let _ = fs::unlinkat(&directory, unfinished.as_str(), AtFlags::empty());
    }
    written?;
    // A power failure must not undo the rename. A file system that cannot sync directories keeps its own promise.
    let _ = fs::fsync(&directory);
    Ok(())
}

fn fill(file: OwnedFd, bytes: &[u8], mode: Option<Mode>) -> io::Result<()> {
    if let Some(mode) = mode {
        // Nobody runs a lock file, and a stranger's is not writable by everybody.
        fs::fchmod(&file, mode & (Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH))?;
    }
    let mut file = File::from(file);
    file.write_all(bytes)?;
    file.sync_data()
}

/// The open directory of a file, and the file's name.
fn parts(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((beneath::open_directory(parent)?, name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_lock_is_replaced_as_a_whole_and_keeps_its_mode() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        assert!(read(&path, 10).unwrap().is_none());
        assert!(read(&scratch.path().join("gone/lock"), 10).unwrap().is_none());
        write(&path, b"one").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(read(&path, 3).unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1, "no temporary file is left");
        assert!(matches!(read(&path, 2), Err(LockError::TooLarge { .. })));
        assert!(matches!(write(&scratch.path().join("gone/lock"), b""), Err(LockError::Write { .. })));
    }

    #[test]
    fn links_and_devices_are_not_read() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("secret"), "secret").unwrap();
        symlink(at("secret"), at("link")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        fs::mkfifoat(fs::CWD, at("fifo"), Mode::RUSR).unwrap();
        for name in ["link", "directory", "fifo"] {
            assert!(matches!(read(&at(name), 10), Err(LockError::NotAFile { .. })), "{name}");
        }
        // Writing replaces the link, and leaves its target alone.
        write(&at("link"), b"new").unwrap();
        assert_eq!(std::fs::read(at("secret")).unwrap(), b"secret");
        assert_eq!(std::fs::read(at("link")).unwrap(), b"new");
    }
}
