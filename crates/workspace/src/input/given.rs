//! Local files that a command sees read-only at a place outside the workspace.
//!
//! Most are mounted as they are. A file that another user could replace, or that the user of commands cannot read, is
//! copied first. Copies lie beside the workspace, where no command can write, and go when the run has ended.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Gid, Stat, Uid};

use super::copy::{InputBudget, InputFailure, copy_beside};
use super::local_file::{LocalFile, OpenedInput, SafeDirectories};
use super::{MAX_INPUT_BYTES, MAX_INPUT_FILES};
use crate::command::{Mount, MountSource};
use crate::dir::{Dir, Owner, special};
use crate::error::WorkspaceError;
use crate::executor::privileges::can_enter;
use crate::path::escaped_name;
use crate::warning::RunWarning;
use crate::workspace::Workspace;

/// The mounts of a run, with the copies that it needs.
#[derive(Debug, Default)]
pub(crate) struct ReadyMounts {
    pub(crate) mounts: Vec<Mount>,
    pub(crate) warnings: Vec<RunWarning>,
    /// Removed when the run has ended.
    copies: Option<Copies>,
}

impl Workspace {
    /// Checks the local files of mounts again, and copies those that cannot be mounted. Blocks.
    ///
    /// # Errors
    ///
    /// A file is gone, was replaced since it was approved, or cannot be copied.
    pub(crate) fn ready_mounts(&self, mounts: Vec<Mount>) -> Result<ReadyMounts, WorkspaceError> {
        let mut ready = ReadyMounts::default();
        let mut left = InputBudget { files: MAX_INPUT_FILES, bytes: MAX_INPUT_BYTES };
        let mut safe = SafeDirectories::default();
        for mut mount in mounts {
            if let MountSource::ReadOnly(path) = &mount.source {
                // Models read it, and they do not know the real path.
                let at = escaped_name(mount.at.as_ref());
                let refused = |reason| WorkspaceError::Given { path: at, reason };
                let copy =
                    self.mounted(path, &mount.at, &mut safe, &mut left, &mut ready).map_err(refused)?;
                if let Some(copy) = copy {
                    mount.source = MountSource::ReadOnly(copy);
                }
            }
            ready.mounts.push(mount);
        }
        Ok(ready)
    }

    /// The path of the copy that is mounted instead, if the file cannot be mounted as it is.
    fn mounted(
        &self,
        path: &Path,
        at: &str,
        safe: &mut SafeDirectories,
        left: &mut InputBudget,
        ready: &mut ReadyMounts,
    ) -> Result<Option<PathBuf>, String> {
        let found = LocalFile::find(path).map_err(|error| format!("it cannot be opened: {error}"))?;
        if found.path != path {
            return Err("it was moved or replaced".to_owned());
        }
        if !matches!(found.kind(), FileType::RegularFile | FileType::Directory) {
            return Err(format!("it is a {}", special(found.kind())));
        }
        let opened = || found.open().map_err(|error| format!("it cannot be opened: {error}"));
        let is_safe = found.check_irreplaceable(safe).is_ok();
        let is_in_place = Path::new(at) == path;
        let is_closed =
            |(user, group): (Uid, Gid)| is_in_place && !can_enter(path, (user.as_raw(), group.as_raw()));
        let reason = match (is_safe, self.owner()) {
            (false, _) => "other users could replace it while the command runs".to_owned(),
            (true, None) => return Ok(None),
            (true, Some(owner)) if is_closed(owner) => {
                "commands run as `nobody`, who cannot enter its directory".to_owned()
            }
            (true, owner) if !can_read(found.stat(), owner) => {
                "commands run as `nobody`, who cannot read it".to_owned()
            }
            (true, owner) => match found.is_directory().then(opened).transpose()? {
                Some(OpenedInput::Directory(directory)) if !is_all_readable(&directory, owner) => {
                    "commands run as `nobody`, who cannot read all of it".to_owned()
                }
                _ => return Ok(None),
            },
        };
        if is_in_place {
            // Without mounts, a copy cannot take its place.
            return Err(format!("{reason}; to copy it, name it in `inputs` with a `to`"));
        }
        let is_visible = is_safe && can_read(found.stat(), self.owner());
        match self.copied(opened()?, left, ready) {
            Ok(copy) => Ok(Some(copy)),
            // What the user of commands can read is better than nothing.
            Err(InputFailure::Refused(_)) if is_visible => {
                ready.warnings.push(RunWarning::ReadableInPart { path: escaped_name(at.as_ref()) });
                Ok(None)
            }
            Err(InputFailure::Refused(_)) => Err(format!(
                "{reason}, and it is too large to copy: more than {MAX_INPUT_FILES} files or {} MiB; name the files \
                 that the command needs, or a smaller directory",
                MAX_INPUT_BYTES >> 20
            )),
            Err(InputFailure::Io(error)) => Err(format!("{reason}, and it cannot be copied: {error}")),
        }
    }

    fn copied(
        &self,
        source: OpenedInput,
        left: &mut InputBudget,
        ready: &mut ReadyMounts,
    ) -> Result<PathBuf, InputFailure> {
        let copies = match &mut ready.copies {
            Some(copies) => copies,
            none => none.insert(Copies::new(self)?),
        };
        copies.count += 1;
        let name = copies.count.to_string();
        copy_beside(source, &copies.directory, &name, left, &mut ready.warnings)?;
        Ok(self.given_path().join(&copies.name).join(name))
    }
}

/// The copies of one run. The lock on their directory shows that the run has not ended.
#[derive(Debug)]
struct Copies {
    workspace: Workspace,
    name: String,
    directory: Dir,
    count: usize,
    _held: File,
}

impl Copies {
    fn new(workspace: &Workspace) -> io::Result<Self> {
        // The holder of this lock sweeps copies.
        let _staging = workspace.lock_staging()?;
        let (name, directory) = workspace.given()?.temporary_dir()?;
        let held = directory.descriptor()?;
        held.lock()?;
        directory.hand_over(0o755, None)?;
        Ok(Self { workspace: workspace.clone(), name, directory, count: 0, _held: held })
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let removed = self.workspace.given().and_then(|given| given.remove_tree(self.name.as_ref()));
        if let Err(error) = removed {
            tracing::warn!(%error, "copies of a run could not be removed");
        }
    }
}

/// Removes the copies of killed processes. The caller holds the staging lock.
pub(crate) fn sweep_copies(given: &Dir) -> io::Result<()> {
    for (name, _) in given.entries(usize::MAX)?.0 {
        let Ok(copies) = given.dir(&name) else { continue };
        if copies.descriptor().is_ok_and(|held| held.try_lock().is_ok()) {
            given.remove_tree(&name)?;
        }
    }
    Ok(())
}

/// Whether a user can read everything below a directory, or it is too large to look at everything, or to copy it.
fn is_all_readable(directory: &Dir, owner: Owner) -> bool {
    let mut left = MAX_INPUT_FILES;
    all_readable(directory, owner, &mut left, 0).unwrap_or(true)
}

/// Whether a user can read everything below a directory. Links are not followed.
fn all_readable(directory: &Dir, owner: Owner, left: &mut usize, depth: usize) -> io::Result<bool> {
    const MAX_DEPTH: usize = 32;
    let (entries, more) = directory.entries(*left)?;
    if more || depth == MAX_DEPTH {
        return Err(io::Error::other("too large"));
    }
    *left -= entries.len();
    for (name, kind) in entries {
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            continue;
        }
        let Some(stat) = directory.entry(&name)? else { continue };
        if !can_read(&stat, owner) {
            return Ok(false);
        }
        if kind == FileType::Directory && !all_readable(&directory.dir(&name)?, owner, left, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a user with one group can read a file, or list and enter a directory, by its mode. `None` is this process.
fn can_read(stat: &Stat, owner: Owner) -> bool {
    let Some((user, group)) = owner else { return true };
    let needed = if FileType::from_raw_mode(stat.st_mode).is_dir() { 0o5 } else { 0o4 };
    let shift = match (stat.st_uid == user.as_raw(), stat.st_gid == group.as_raw()) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    };
    (stat.st_mode >> shift) & needed == needed
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::workspace::Workspaces;

    fn mount(path: &Path) -> Vec<Mount> {
        vec![Mount { source: MountSource::ReadOnly(path.to_owned()), at: "/project/x".to_owned() }]
    }

    fn source(ready: &ReadyMounts) -> &Path {
        ready.mounts[0].source.path().unwrap()
    }

    /// A directory with its real path, and a workspace in it.
    fn scratch() -> (tempfile::TempDir, PathBuf, Workspace) {
        let scratch = tempfile::tempdir().unwrap();
        let path = LocalFile::find(scratch.path()).unwrap().path;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o711)).unwrap();
        let workspace = Workspaces::open(path.join("workspaces")).unwrap().workspace("one").unwrap();
        (scratch, path, workspace)
    }

    #[test]
    fn a_file_that_was_replaced_since_its_approval_is_refused() {
        let (_scratch, path, workspace) = scratch();
        std::fs::write(path.join("a"), "a").unwrap();
        assert_eq!(source(&workspace.ready_mounts(mount(&path.join("a"))).unwrap()), path.join("a"));
        std::fs::remove_file(path.join("a")).unwrap();
        symlink("/etc/passwd", path.join("a")).unwrap();
        let refused = workspace.ready_mounts(mount(&path.join("a"))).unwrap_err();
        assert!(refused.to_string().ends_with("it was moved or replaced"), "{refused}");
        assert!(workspace.ready_mounts(mount(&path.join("gone"))).is_err());
    }

    #[test]
    fn a_file_that_others_could_replace_is_copied_for_the_run() {
        let (_scratch, path, workspace) = scratch();
        let open = path.join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::write(open.join("a"), "text").unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        let ready = workspace.ready_mounts(mount(&open.join("a"))).unwrap();
        let copy = source(&ready).to_owned();
        assert!(copy.starts_with(workspace.given_path()), "{copy:?}");
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), "text");
        drop(ready);
        assert!(!copy.exists());
        // Without mounts, a copy cannot take the place of the file.
        let at = open.join("a").to_str().unwrap().to_owned();
        let in_place = vec![Mount { source: MountSource::ReadOnly(open.join("a")), at }];
        let refused = workspace.ready_mounts(in_place).unwrap_err();
        assert!(refused.to_string().contains("could replace"), "{refused}");
    }

    #[test]
    fn a_directory_that_can_be_neither_mounted_nor_copied_is_refused_by_the_name_that_models_know() {
        let (_scratch, path, workspace) = scratch();
        let many = path.join("open/many");
        std::fs::create_dir_all(&many).unwrap();
        for number in 0..=MAX_INPUT_FILES {
            File::create(many.join(number.to_string())).unwrap();
        }
        std::fs::set_permissions(path.join("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
        let refused = workspace.ready_mounts(mount(&many)).unwrap_err().to_string();
        assert_eq!(
            refused,
            "the run cannot see `/project/x`: other users could replace it while the command runs, and it is too large to \
             copy: more than 10000 files or 256 MiB; name the files that the command needs, or a smaller directory"
        );
    }

    #[test]
    fn copies_of_a_killed_process_are_removed_and_others_stay() {
        let (_scratch, path, workspace) = scratch();
        let held = Copies::new(&workspace).unwrap();
        std::fs::create_dir(workspace.given_path().join("left")).unwrap();
        Workspaces::open(path.join("workspaces")).unwrap().workspace("one").unwrap();
        let names =
            std::fs::read_dir(workspace.given_path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), [held.name.as_str()]);
    }

    #[test]
    fn the_mode_says_who_can_read() {
        let (_scratch, path, _) = scratch();
        let owner = |user, group| Some((Uid::from_raw(user), Gid::from_raw(group)));
        let file = path.join("a");
        std::fs::write(&file, "").unwrap();
        let can = |mode, owner| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            can_read(&rustix::fs::stat(&file).unwrap(), owner)
        };
        let own = rustix::fs::stat(&file).unwrap();
        assert!(can(0o600, None) && can(0o600, owner(own.st_uid, 0)) && can(0o604, owner(65534, 65534)));
        assert!(!can(0o600, owner(65534, 65534)) && !can(0o640, owner(65534, 65534)));
        assert!(can(0o640, owner(65534, own.st_gid)) && !can(0o604, owner(65534, own.st_gid)));
    }
}
