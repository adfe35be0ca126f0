//! The file lock of a place.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::PlaceError;

/// The file that is locked. It exists only while a process holds the place.
const LOCK_FILE: &str = ".prowess-install.lock";

/// The lock on a place. The system releases it when the process ends in any way.
#[derive(Debug)]
pub(super) struct LockGuard {
    root: OwnedFd,
    _locked: OwnedFd,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // Nobody else can have locked the file of this name. A process that waits for it notices that the name is gone.
        let _ = fs::unlinkat(&self.root, LOCK_FILE, AtFlags::empty());
    }
}

/// Locks the place at `root`. Waits for another process until `patience` is over.
pub(super) fn acquire(root: &OwnedFd, path: &Path, patience: Duration) -> Result<LockGuard, PlaceError> {
    let failed = |error| PlaceError::io("lock", &path.join(LOCK_FILE), error);
    let clone = || root.try_clone().map_err(|error| PlaceError::io("lock", path, error));
    let locked = match lock(root, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            // The system cannot wait with a limit. If the time is over, the thread goes on to wait; then its lock is
            // released at once, because nobody receives it.
            let (sender, receiver) = mpsc::channel();
            let root = clone()?;
            std::thread::spawn(move || sender.send(lock(&root, FlockOperation::LockExclusive)));
            let waited = receiver.recv_timeout(patience);
            waited.map_err(|_| PlaceError::Busy(path.to_owned()))?.map_err(failed)?
        }
        locked => locked.map_err(failed)?,
    };
    Ok(LockGuard { root: clone()?, _locked: locked })
}

/// Locks the file that has the name now. The last process removed the file that this one has waited for.
fn lock(root: &OwnedFd, operation: FlockOperation) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    loop {
        let file = fs::openat(root, LOCK_FILE, flags, Mode::from_raw_mode(0o644))?;
        let opened = fs::fstat(&file)?;
        if FileType::from_raw_mode(opened.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        match fs::flock(&file, operation) {
            Ok(()) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        }
        match fs::statat(root, LOCK_FILE, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) if (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino) => return Ok(file),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prowess_base::beneath;

    #[test]
    fn a_second_process_waits_and_then_gives_up() {
        let scratch = tempfile::tempdir().unwrap();
        let root = beneath::open_directory(scratch.path()).unwrap();
        let first = acquire(&root, scratch.path(), Duration::ZERO).unwrap();
        let refused = acquire(&root, scratch.path(), Duration::from_millis(1)).unwrap_err();
        assert!(matches!(refused, PlaceError::Busy(_)), "{refused}");
        // The thread that gave up still waits. It must not keep the lock.
        std::thread::scope(|scope| {
            let second = scope.spawn(|| acquire(&root, scratch.path(), Duration::from_secs(60)));
            drop(first);
            drop(second.join().unwrap().unwrap());
        });
        drop(acquire(&root, scratch.path(), Duration::from_secs(60)).unwrap());
    }

    #[test]
    fn a_link_is_not_locked() {
        let scratch = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", scratch.path().join(LOCK_FILE)).unwrap();
        let root = beneath::open_directory(scratch.path()).unwrap();
        assert!(acquire(&root, scratch.path(), Duration::ZERO).is_err());
    }
}
