//! Recovery after prowess was killed: marks of runs show which workspaces need it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags, openat};

use super::metadata::seconds;
use super::{INSIDE, OWN, RUNNING, Workspaces, is_workspace, lock_file};
use crate::dir::Dir;
use crate::executor::set_ids;
use crate::limits::MAX_TIMEOUT;

/// The directory of marks, beside the workspaces.
const MARKS: &str = "running";
/// How many marks one start checks.
const MAX_MARKS: usize = 10_000;
/// The longest that a command can live after prowess was killed, even in a container.
const LONGEST: Duration = Duration::from_secs(MAX_TIMEOUT.as_secs() + 120);

/// Marks a workspace while commands may write to it. After the drop they are dead, and their files are checked.
#[derive(Debug)]
pub(super) struct RunMark {
    marks: Dir,
    name: String,
}

impl RunMark {
    pub(super) fn new(root: &Dir, workspace: &str) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let marks = root.make_dir(MARKS, 0o700, None)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{workspace}.{:x}-{count:x}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&marks, &name, flags, Mode::from_raw_mode(0o600))?;
        Ok(Self { marks, name })
    }
}

impl Drop for RunMark {
    fn drop(&mut self) {
        self.marks.discard(&self.name);
    }
}

impl Workspaces {
    /// Removes set-uid and set-gid bits from workspaces whose process was killed.
    pub(super) fn recover(&self) {
        let Ok(marks) = self.root.dir(MARKS) else { return };
        let Ok((entries, _)) = marks.entries(MAX_MARKS) else { return };
        for (mark, _) in entries {
            let mark = mark.to_string_lossy();
            let Some((workspace, _)) = mark.split_once('.').filter(|(name, _)| is_workspace(name)) else {
                continue;
            };
            match self.recover_one(workspace) {
                // Its commands may still be dying, so the mark stays until they must be dead.
                Ok(Recovery::Settled) if !is_old(&marks, &mark) => {}
                Ok(Recovery::Settled | Recovery::Gone) => marks.discard(&mark),
                Ok(Recovery::InUse) => {}
                Err(error) => {
                    tracing::warn!(workspace, %error, "could not check the files of a killed run");
                }
            }
        }
    }

    fn recover_one(&self, name: &str) -> io::Result<Recovery> {
        let home = match self.root.dir(name) {
            Err(rustix::io::Errno::NOENT) => return Ok(Recovery::Gone),
            home => home?,
        };
        let running = lock_file(&home, RUNNING)?;
        if running.try_lock().is_err() {
            // The run that uses it does this at its end.
            return Ok(Recovery::InUse);
        }
        let place = self.path.join(name);
        let left = set_ids::clear_workspace(&place.join(INSIDE));
        match left.or_else(|| set_ids::clear_own(&place.join(OWN))) {
            None => Ok(Recovery::Settled),
            Some(problem) => Err(io::Error::other(problem.to_string())),
        }
    }
}

/// The result of the recovery of one workspace.
enum Recovery {
    Settled,
    InUse,
    Gone,
}

fn is_old(marks: &Dir, mark: &str) -> bool {
    let limit = seconds(SystemTime::now().checked_sub(LONGEST).unwrap_or(SystemTime::UNIX_EPOCH));
    marks
        .entry(mark)
        .is_ok_and(|found| found.is_some_and(|found| u64::try_from(found.st_mtime).unwrap_or(0) < limit))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn program(directory: &Path) -> std::path::PathBuf {
        let program = directory.join("program");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o6755)).unwrap();
        program
    }

    fn mode(program: &Path) -> u32 {
        fs::metadata(program).unwrap().permissions().mode() & 0o7777
    }

    fn marks(place: &Path) -> usize {
        fs::read_dir(place.join(MARKS)).map_or(0, Iterator::count)
    }

    #[test]
    fn the_next_start_sees_to_what_a_killed_runtime_left() {
        let place = tempfile::tempdir().unwrap();
        let workspace = Workspaces::open(place.path()).unwrap().workspace("one").unwrap();
        let apart = program(&workspace.own_directory("hooks").unwrap());
        let program = program(&workspace.path().join("out"));
        let guard = workspace.lock_running().unwrap();
        Workspaces::open(place.path()).unwrap();
        assert_eq!((mode(&program), marks(place.path())), (0o6755, 1), "it is in use");
        drop(guard);
        assert_eq!(marks(place.path()), 0, "an end that is seen to needs no mark");
        Workspaces::open(place.path()).unwrap();
        assert_eq!(mode(&program), 0o6755, "and nobody looks");

        // The state after a kill: the system releases the locks, and the mark stays.
        let root = Dir::open(place.path()).unwrap();
        let name = workspace.path().parent().unwrap().file_name().unwrap().to_str().unwrap();
        std::mem::forget(RunMark::new(&root, name).unwrap());
        Workspaces::open(place.path()).unwrap();
        assert_eq!((mode(&program), marks(place.path())), (0o755, 1), "its commands may still be dying");
        assert_eq!(mode(&apart), 0o755, "of commands that ran apart, too");
        let mark = fs::read_dir(place.path().join(MARKS)).unwrap().next().unwrap().unwrap().path();
        File::open(&mark).unwrap().set_modified(SystemTime::now() - 2 * LONGEST).unwrap();
        Workspaces::open(place.path()).unwrap();
        assert_eq!(marks(place.path()), 0);
    }

    #[test]
    fn a_mark_of_nothing_goes() {
        let place = tempfile::tempdir().unwrap();
        Workspaces::open(place.path()).unwrap();
        let root = Dir::open(place.path()).unwrap();
        std::mem::forget(RunMark::new(&root, &"0".repeat(32)).unwrap());
        Workspaces::open(place.path()).unwrap();
        assert_eq!(marks(place.path()), 0);
    }
}
