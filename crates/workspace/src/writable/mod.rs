//! Directories of the project that a run may write.
//!
//! The run never writes to the project itself. It gets a copy of each directory. When all its processes are dead, its
//! changes are copied back: new files, changed files and removed files. No link is followed on either way. Some names are
//! never copied, such as `.git` or `AGENTS.md`: [`is_protected`].

mod copy_in;
mod protected;
#[cfg(test)]
mod tests;
mod write_back;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

pub use self::protected::{PROTECTED_ENDINGS, PROTECTED_NAMES, is_protected};
use crate::command::{Mount, MountSource};
use crate::dir::Dir;
use crate::path::{InnerPath, PathProblem};
use crate::warning::RunWarning;
use crate::workspace::Workspace;

/// How many files and directories a writable directory may have.
pub const MAX_WRITABLE_ENTRIES: usize = 4096;
/// How many bytes the files of a writable directory may have together. The changes of a run have the same limit.
pub const MAX_WRITABLE_BYTES: u64 = 64 * 1024 * 1024;

/// The directory of a workspace that has the copies.
pub(crate) const COPIES: &str = "copies";
/// The directory in `out/` for changes that could not be copied back.
const LEFT: &str = "not-copied-back";
/// Why a withheld file or directory is not written.
const NOT_ALLOWED: &str =
    "it is in a directory of skills, a rule does not allow it, or it is a secret or protected file";
/// How many warnings name a file; more are only counted.
const MAX_WARNINGS: usize = 20;
/// How many changed files a report names; more are only counted.
const MAX_NAMED: usize = 100;

/// Whether a file, by its real path, stays out of runs: it is neither copied to a run nor back.
pub type Withheld = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// The directories of a project that a run may write.
#[derive(Clone)]
pub struct WritableProject {
    /// The project, by its real, absolute path.
    pub directory: PathBuf,
    /// Where commands see it.
    pub at: String,
    /// The directories, as paths in the project.
    pub inside: Vec<WritablePath>,
    /// Which files stay out.
    pub withheld: Withheld,
}

impl fmt::Debug for WritableProject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WritableProject")
            .field("directory", &self.directory)
            .field("inside", &self.inside)
            .finish_non_exhaustive()
    }
}

/// The path of a writable directory in its project. It names no protected file.
///
/// ```
/// use prowess_workspace::writable::WritablePath;
///
/// assert_eq!("./dist/".parse::<WritablePath>()?.as_str(), "dist");
/// for wrong in [".", "..", "/etc", "a/../..", ".git", "docs/.Git/hooks"] {
///     assert!(wrong.parse::<WritablePath>().is_err(), "{wrong}");
/// }
/// # Ok::<(), prowess_workspace::writable::NotWritable>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WritablePath(InnerPath);

/// Why a path cannot be that of a writable directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotWritable {
    /// It is not a path in the project.
    #[error("it is not a directory below the working directory: {0}")]
    Path(#[from] PathProblem),
    /// It has a protected name.
    #[error("commands never write `{0}`")]
    Protected(String),
}

impl WritablePath {
    /// The path.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl std::str::FromStr for WritablePath {
    type Err = NotWritable;

    fn from_str(text: &str) -> Result<Self, NotWritable> {
        let path = InnerPath::parse(text)?;
        match path.as_str().split('/').find(|name| is_protected(OsStr::new(name))) {
            Some(name) => Err(NotWritable::Protected(name.to_owned())),
            None => Ok(Self(path)),
        }
    }
}

/// A file of the project that a run changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChangedProjectFile {
    /// Its path, as commands see it.
    pub path: String,
    /// What happened to it.
    pub change: ProjectChange,
    /// Its real path.
    #[serde(skip)]
    pub real: PathBuf,
}

/// What a run did to a file of the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProjectChange {
    /// It is new.
    Created,
    /// Its contents are new.
    Replaced,
    /// It is gone.
    Removed,
}

/// The digest of each file of a copy, by its path in the directory.
type Known = BTreeMap<String, String>;

/// The copies for one run. They are removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Copies {
    workspace: Workspace,
    /// The name of the directory with all copies of this run.
    name: String,
    project: WritableProject,
    copies: Vec<WritableCopy>,
}

/// The copy of one directory.
#[derive(Debug)]
struct WritableCopy {
    /// The name of its directory among the copies of the run.
    name: String,
    /// The path of the directory in the project.
    inside: String,
    known: Known,
}

impl Copies {
    /// Copies the directories, and adds their mounts. A directory that cannot be copied gets a warning, and the run cannot
    /// write it.
    ///
    /// # Errors
    ///
    /// The workspace has no room for copies.
    pub(crate) fn make(
        workspace: &Workspace,
        project: WritableProject,
        mounts: &mut Vec<Mount>,
        warnings: &mut Vec<RunWarning>,
    ) -> io::Result<Self> {
        let all = workspace.dir().make_dir(COPIES, 0o755, None)?;
        let (name, own) = all.temporary_dir()?;
        own.hand_over(0o755, None)?;
        let copies = Self { workspace: workspace.clone(), name, project, copies: Vec::new() };
        copies.fill(&own, mounts, warnings)
    }

    fn fill(
        mut self,
        own: &Dir,
        mounts: &mut Vec<Mount>,
        warnings: &mut Vec<RunWarning>,
    ) -> io::Result<Self> {
        let root = Dir::open(&self.project.directory)?;
        let project = self.project.clone();
        for inside in outermost(&project.inside) {
            let at = format!("{}/{inside}", project.at);
            let name = self.copies.len().to_string();
            let owner = self.workspace.owner();
            let copied = check_mount_point(&root, inside, &at, mounts).and_then(|()| {
                let real = project.directory.join(inside);
                if (project.withheld)(&real) {
                    return Err(NOT_ALLOWED.to_owned());
                }
                copy_in::copy(&root, inside, &real, (own, &name, owner), &project.withheld)
            });
            match copied {
                Ok((known, left_out)) => {
                    if !left_out.is_empty() {
                        warnings.push(RunWarning::NotInCopy { path: at.clone(), names: left_out });
                    }
                    let copy = self.workspace.path().join(COPIES).join(&self.name).join(&name);
                    // What the run was given of this directory is in the copy.
                    mounts.retain(|mount| !Path::new(&mount.at).starts_with(&at));
                    mounts.push(Mount { source: MountSource::Writable(copy), at });
                    self.copies.push(WritableCopy { name, inside: inside.to_owned(), known });
                }
                Err(reason) => warnings.push(RunWarning::NotWritable { path: at, reason }),
            }
        }
        let has_place = mounts.iter().any(|mount| mount.at == project.at);
        if !self.copies.is_empty() && !has_place {
            mounts.insert(0, Mount { source: MountSource::Empty, at: project.at });
        }
        Ok(self)
    }

    /// Where commands see the project, and where it really is.
    pub(crate) fn place(&self) -> (String, PathBuf) {
        (self.project.at.clone(), self.project.directory.clone())
    }

    /// Copies the changes back. Call it when no process of the run is left.
    pub(crate) fn write_back(self) -> (Vec<ChangedProjectFile>, Vec<RunWarning>) {
        let mut back = write_back::WriteBack::new(&self.workspace, &self.project);
        for copy in &self.copies {
            back.directory(copy, &format!("{COPIES}/{}/{}", self.name, copy.name));
        }
        back.finish()
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let removed = self.workspace.dir().dir(COPIES).map_err(io::Error::from);
        if let Err(error) = removed.and_then(|all| all.remove_tree(OsStr::new(&self.name))) {
            tracing::warn!(%error, "a copy for a run could not be removed");
        }
    }
}

/// Removes the copies that a killed process left, if no run uses the workspace.
pub(crate) fn sweep(workspace: &Workspace) -> io::Result<()> {
    if workspace.dir().entry(COPIES)?.is_some()
        && let Some(_idle) = workspace.lock_idle()?
    {
        workspace.dir().remove_tree(OsStr::new(COPIES))?;
    }
    Ok(())
}

/// The directories that are in no other of them.
fn outermost(inside: &[WritablePath]) -> Vec<&str> {
    let mut all: Vec<&str> = inside.iter().map(WritablePath::as_str).collect();
    all.sort_unstable();
    all.dedup();
    let is_outermost =
        |path: &&str| !all.iter().any(|other| other != path && Path::new(path).starts_with(other));
    all.iter().filter(|path| is_outermost(path)).copied().collect()
}

/// If the run was given a directory around this one, the mount point must exist: the run cannot make it there.
fn check_mount_point(root: &Dir, inside: &str, at: &str, mounts: &[Mount]) -> Result<(), String> {
    let is_around = |mount: &Mount| {
        matches!(mount.source, MountSource::ReadOnly(_))
            && mount.at != at
            && Path::new(at).starts_with(&mount.at)
    };
    let exists = || root.entry(inside).is_ok_and(|found| found.is_some());
    if mounts.iter().any(is_around) && !exists() {
        return Err("it does not exist, and the run sees the directory around it read-only".to_owned());
    }
    Ok(())
}
