//! Which directories of threads are in use on this machine, by one process each. Those that are not can go: the store has
//! their files.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::fstat;

use crate::dir::Dir;
use crate::workspace::is_same;

/// The end of the name of a lock, beside a note.
const LOCK: &str = "lock";
/// How often a lock is tried while others remove it.
const MAX_ATTEMPTS: usize = 100;

fn lock_of(note: &Path) -> PathBuf {
    note.with_extension(LOCK)
}

/// Takes the directories of a note for one process, until the file is closed. `None` if another one has them. The time of
/// the file is that of the last use.
pub(super) fn hold(note: &Path) -> io::Result<Option<File>> {
    use std::os::unix::fs::DirBuilderExt as _;
    let path = lock_of(note);
    if let Some(parent) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    for _ in 0..MAX_ATTEMPTS {
        let file = File::options().create(true).truncate(false).write(true).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if is_there(&file, &path)? {
            file.set_modified(SystemTime::now())?;
            return Ok(Some(file));
        }
    }
    Err(io::Error::other("others keep removing the thread's directories"))
}

/// Takes the directories of a note that nobody has used for so long, so that nobody uses them before they are removed.
pub(super) fn take_unused(note: &Path, unused_for: Duration) -> io::Result<Option<File>> {
    let path = lock_of(note);
    let file = match File::options().write(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let is_old = file.metadata()?.modified()?.elapsed().is_ok_and(|age| age >= unused_for);
    Ok(if is_old && is_there(&file, &path)? { Some(file) } else { None })
}

/// Removes the lock, which its holder has taken.
pub(super) fn remove(note: &Path) -> io::Result<()> {
    std::fs::remove_file(lock_of(note))
}

/// Whether a file is still the one at its path.
fn is_there(file: &File, path: &Path) -> io::Result<bool> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(false) };
    let found = Dir::open(parent)?.entry(name)?;
    let own = fstat(file)?;
    Ok(found.is_some_and(|found| is_same(&found, &own)))
}
