//! Local files that a command sees read-only at a place outside the workspace.
//!
//! Most are mounted as they are. A file that another user could replace, or that the user of commands cannot read, is
//! copied first. Copies lie beside the workspace, where no command can write, and go when the run has ended.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

use super::copy::{InputBudget, InputFailure, copy_beside};
use super::local_file::{LocalFile, OpenedInput};
use super::{MAX_INPUT_BYTES, MAX_INPUT_FILES};
use crate::command::{Mount, MountSource};
use crate::dir::{Dir, Owner, special};
use crate::error::WorkspaceError;
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
        for mut mount in mounts {
            if let MountSource::ReadOnly(path) = &mount.source {
                let refused = |reason| WorkspaceError::Given { path: escaped_name(path.as_os_str()), reason };
                let copy = self.mounted(path, &mount.at, &mut left, &mut ready).map_err(refused)?;
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
        let reason = match (found.check_irreplaceable(), self.owner()) {
            (Err(reason), _) => reason,
            (Ok(()), None) => return Ok(None),
            (Ok(()), owner) => match readable(&opened()?, found.stat(), owner) {
                Readable::All => return Ok(None),
                Readable::InPart => "commands run as `nobody`, who cannot read all of it".to_owned(),
                Readable::No => "commands run as `nobody`, who cannot read it".to_owned(),
            },
        };
        if Path::new(at) == path {
            // Without mounts, a copy cannot take its place.
            return Err(reason);
        }
        let is_visible = found.check_irreplaceable().is_ok() && can_read(found.stat(), self.owner());
        match self.copied(opened()?, left, ready) {
            Ok(copy) => Ok(Some(copy)),
            // What the user of commands can read is better than nothing.
            Err(InputFailure::Refused(_)) if is_visible => {
                ready.warnings.push(RunWarning::ReadableInPart { path: escaped_name(at.as_ref()) });
                Ok(None)
            }
            Err(InputFailure::Refused(_)) => Err(format!(
                "{reason}, and it is too large to copy: more than {MAX_INPUT_FILES} files or {} MiB",
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

/// How much of a file or directory a user can read.
enum Readable {
    All,
    InPart,
    No,
}

fn readable(opened: &OpenedInput, stat: &Stat, owner: Owner) -> Readable {
    if !can_read(stat, owner) {
        return Readable::No;
    }
    let OpenedInput::Directory(directory) = opened else { return Readable::All };
    let mut left = MAX_INPUT_FILES;
    match all_readable(directory, owner, &mut left, 0) {
        // Too large to look at everything, or to copy it.
        Ok(true) | Err(_) => Readable::All,
        Ok(false) => Readable::InPart,
    }
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
