//! Where a run finds the workspace, on the host and on the inside.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use prowess_base::beneath::{self, Follow};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::privileges;
use crate::command::Command;
use crate::executor::ExecuteError;

/// The directories of a workspace that a command may write.
pub(super) const WRITABLE: [&str; 3] = ["work", "out", "runs"];

/// Where a sandbox has the directory of a command that runs apart from the workspace.
pub(super) const OWN: &str = "/own";

/// The directories of the host that a command may write: parts of one that it may not.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) root: PathBuf,
    pub(super) parts: Vec<OsString>,
}

impl Written {
    pub(super) fn by(command: &Command) -> Self {
        let apart = command.apart.as_deref().and_then(|own| Some((own.parent()?, own.file_name()?)));
        match apart {
            None => Self::in_workspace(&command.workspace),
            Some((root, own)) => Self { root: root.to_owned(), parts: vec![own.to_owned()] },
        }
    }

    /// What commands that do not run apart may write.
    pub(super) fn in_workspace(workspace: &Path) -> Self {
        Self { root: workspace.to_owned(), parts: WRITABLE.map(OsString::from).into() }
    }
}

/// The workspace as a command sees it.
#[derive(Clone, Debug)]
pub(super) struct Inside {
    root: String,
    home: String,
    temporary: String,
    run: String,
    /// The directory of a command that runs apart.
    own: Option<String>,
}

impl Inside {
    /// In a sandbox the workspace is at `/ws`, and `HOME` is in the fresh `/tmp`.
    pub(super) fn sandboxed(command: &Command, run: &str) -> Self {
        Self {
            root: "/ws".into(),
            home: "/tmp/home".into(),
            temporary: "/tmp".into(),
            run: run.to_owned(),
            own: command.apart.as_ref().map(|_| OWN.to_owned()),
        }
    }

    /// Without a sandbox it is where it is, and `HOME` is in the directory of the run.
    pub(super) fn bare(command: &Command, run: &str) -> Self {
        let root = command.workspace.to_string_lossy().into_owned();
        let home = format!("{root}/runs/{run}/home");
        let own = command.apart.as_ref().map(|own| own.to_string_lossy().into_owned());
        Self { root, temporary: home.clone(), home, run: run.to_owned(), own }
    }

    /// Where the command starts.
    pub(super) fn start(&self, command: &Command) -> String {
        self.own.clone().unwrap_or_else(|| self.path(&command.directory))
    }

    /// The place of a path that is relative to the workspace.
    pub(super) fn path(&self, relative: &str) -> String {
        match relative.trim_matches('/') {
            "" | "." => self.root.clone(),
            relative => format!("{}/{relative}", self.root),
        }
    }

    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![
            ("HOME", self.home.clone()),
            ("TMPDIR", self.temporary.clone()),
            ("WORKSPACE_DIR", self.root.clone()),
            ("SKILLS_DIR", self.path("skills")),
            ("WORK_DIR", self.path("work")),
            ("OUTPUT_DIR", self.path("out")),
        ];
        // A command that runs apart could not write there.
        if self.own.is_none() {
            all.push(("RUN_DIR", self.path(&format!("runs/{}", self.run))));
        }
        all
    }
}

/// A path that stays where it starts: relative, without `..` or NUL.
pub(super) fn check_relative(what: &str, path: &str) -> Result<(), ExecuteError> {
    let stays =
        Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if stays && !path.contains('\0') {
        return Ok(());
    }
    Err(ExecuteError::Refused(format!("{what} {path:?} must be a path inside the workspace, without `..`")))
}

/// Opens a directory of the workspace without following any link in it.
fn open_inside(root: &OwnedFd, path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    beneath::open(root, path, flags, Follow::Never)
}

/// Checks that the directory is a workspace with these skills, and makes the directory of a new run in it.
///
/// Earlier commands could write here, so nothing follows a link: a `runs` that leads elsewhere is refused.
pub(super) fn new_run(workspace: &Path, skills: &[String], with_home: bool) -> Result<Run, ExecuteError> {
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
    let run = Run { runs, name: run_name() };
    make_directory(&run.runs, &run.name).map_err(failed("runs"))?;
    if with_home {
        let own = open_inside(&run.runs, &run.name).map_err(failed("runs"))?;
        make_directory(&own, "home").map_err(failed("runs"))?;
    }
    Ok(run)
}

/// The directory of a run. One that nothing was put into is taken away at the end, so that many runs, and those that
/// never began, do not fill the workspace.
#[derive(Debug)]
pub(super) struct Run {
    runs: OwnedFd,
    name: String,
}

impl Run {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Run {
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

/// Makes the place where something of the host will be mounted, without following links.
pub(super) fn mount_point(workspace: &Path, to: &str, directory: bool) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(CWD, workspace, flags, Mode::empty())?;
    let parts: Vec<&str> = to.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    for (index, part) in parts.iter().enumerate() {
        if index + 1 == parts.len() && !directory {
            let new = OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::RDONLY;
            rustix::fs::openat(&at, *part, new, Mode::from_raw_mode(0o644))?;
            return Ok(());
        }
        match make_directory(&at, part) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => at = open_inside(&at, part)?,
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
    fn a_path_must_stay_inside() {
        for good in ["", ".", "work", "skills/pdf", "work/ü b"] {
            assert!(check_relative("cwd", good).is_ok(), "{good:?}");
        }
        for bad in ["..", "../..", "/etc", "work/../../x", "a\0b"] {
            assert!(check_relative("cwd", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_a_run_that_kept_something_stays() {
        let workspace = tempfile::tempdir().unwrap();
        for part in ["skills", "work", "out", "runs"] {
            std::fs::create_dir(workspace.path().join(part)).unwrap();
        }
        let left = || std::fs::read_dir(workspace.path().join("runs")).unwrap().count();
        for with_home in [false, true] {
            let run = new_run(workspace.path(), &[], with_home).unwrap();
            assert_eq!(left(), 1);
            drop(run);
            assert_eq!(left(), 0);
        }
        let run = new_run(workspace.path(), &[], true).unwrap();
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
        assert!(new_run(workspace.path(), &[], false).is_err());
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
