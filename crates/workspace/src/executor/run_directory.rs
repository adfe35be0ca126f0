//! The directory of one run in a workspace, and the mount points of its linked inputs.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use prowess_base::beneath::{self, Follow};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::privileges;
use crate::executor::ExecuteError;

/// Opens a directory of the workspace without following any link in it.
fn open_inside(root: &OwnedFd, path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    beneath::open(root, path, flags, Follow::Never)
}

/// Checks that the directory is a workspace with these skills, and makes the directory of a new run in it.
///
/// Earlier commands could write here, so no link is followed. A `runs` that leads elsewhere is refused.
pub(super) fn make_run_directory(
    workspace: &Path,
    skills: &[String],
    with_home: bool,
) -> Result<RunDirectory, ExecuteError> {
    if !workspace.is_absolute() || workspace.to_str().is_none() {
        return Err(ExecuteError::Refused(format!("workspace {workspace:?} must be an absolute UTF-8 path")));
    }
    let failed = |part: &str| {
        let action = format!("open {part:?} of workspace {}", workspace.display());
        move |error: rustix::io::Errno| ExecuteError::System { action, error: error.into() }
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, workspace, flags, Mode::empty()).map_err(failed("."))?;
    for part in ["skills", "work", "out"] {
        open_inside(&root, part).map_err(failed(part))?;
    }
    for skill in skills.iter().map(|name| format!("skills/{name}")) {
        open_inside(&root, &skill).map_err(failed(&skill))?;
    }
    let runs = open_inside(&root, "runs").map_err(failed("runs"))?;
    let run = RunDirectory { runs, name: run_name() };
    make_directory(&run.runs, &run.name).map_err(failed("runs"))?;
    if with_home {
        let own = open_inside(&run.runs, &run.name).map_err(failed("runs"))?;
        make_directory(&own, "home").map_err(failed("runs"))?;
    }
    Ok(run)
}

/// The directory of a run. An empty one is removed at the end, so that many runs do not fill the workspace.
#[derive(Debug)]
pub(super) struct RunDirectory {
    runs: OwnedFd,
    name: String,
}

impl RunDirectory {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if let Ok(own) = open_inside(&self.runs, &self.name) {
            let _ = rustix::fs::unlinkat(&own, "home", AtFlags::REMOVEDIR);
        }
        let _ = rustix::fs::unlinkat(&self.runs, &self.name, AtFlags::REMOVEDIR);
    }
}

fn make_directory(parent: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    if let Some((user, group)) = privileges::owner() {
        rustix::fs::chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

/// Makes the mount point of a linked input, without following links.
pub(super) fn mount_point(workspace: &Path, to: &str, directory: bool) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(CWD, workspace, flags, Mode::empty())?;
    let names: Vec<&str> = to.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    for (index, name) in names.iter().enumerate() {
        if index + 1 == names.len() && !directory {
            let new = OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::RDONLY;
            rustix::fs::openat(&at, *name, new, Mode::from_raw_mode(0o644))?;
            return Ok(());
        }
        match make_directory(&at, name) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => at = open_inside(&at, name)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn run_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    format!("{now:x}-{:x}-{:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_kept_something_stays() {
        let workspace = tempfile::tempdir().unwrap();
        for part in ["skills", "work", "out", "runs"] {
            std::fs::create_dir(workspace.path().join(part)).unwrap();
        }
        let left = || std::fs::read_dir(workspace.path().join("runs")).unwrap().count();
        for with_home in [false, true] {
            let run = make_run_directory(workspace.path(), &[], with_home).unwrap();
            assert_eq!(left(), 1);
            drop(run);
            assert_eq!(left(), 0);
        }
        let run = make_run_directory(workspace.path(), &[], true).unwrap();
        std::fs::write(workspace.path().join("runs").join(run.name()).join("home/x"), "x").unwrap();
        drop(run);
        assert_eq!(left(), 1);
    }

    #[test]
    fn a_linked_runs_directory_is_refused() {
        let elsewhere = tempfile::tempdir().unwrap();
        let workspace = tempfile::tempdir().unwrap();
        for part in ["skills", "work", "out"] {
            std::fs::create_dir(workspace.path().join(part)).unwrap();
        }
        std::os::unix::fs::symlink(elsewhere.path(), workspace.path().join("runs")).unwrap();
        assert!(make_run_directory(workspace.path(), &[], false).is_err());
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
