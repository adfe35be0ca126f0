//! Copies or links an input into the workspace.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use prowess_base::beneath;
use rustix::fs::{FileType, RenameFlags, Stat, renameat_with};
use rustix::io::Errno;

use super::local_file::OpenedInput;
use super::{MAX_INPUT_BYTES, MAX_INPUT_FILES};
use crate::dir::{Dir, Owner, finish, special};
use crate::path::{InnerPath, escaped_name};
use crate::warning::RunWarning;
use crate::workspace::Workspace;

/// The deepest directory of an input.
const MAX_DEPTH: usize = 32;

/// How many more files and bytes the inputs of one request may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputBudget {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

/// Why an input was not staged.
pub(super) enum InputFailure {
    Refused(String),
    Io(io::Error),
}

impl From<io::Error> for InputFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for InputFailure {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// The directory that an input goes into, created if it is missing, and its name there.
pub(super) fn destination<'a>(
    workspace: &Workspace,
    to: &'a InnerPath,
) -> Result<(Dir, &'a str), InputFailure> {
    let (parent, name) = to.split();
    let directory = workspace.dir().make_dirs(parent, 0o755, workspace.owner()).map_err(|error| {
        match Errno::from_io_error(&error) {
            Some(Errno::LOOP | Errno::NOTDIR) => {
                InputFailure::Refused(format!("the path `{to}` leads through a link or a file"))
            }
            _ => InputFailure::Io(error),
        }
    })?;
    Ok((directory, name))
}

fn refuse_directory(found: &Option<Stat>, to: &InnerPath) -> Result<(), InputFailure> {
    match found {
        Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            Err(InputFailure::Refused(format!("`{to}` is a directory; give another `to`")))
        }
        _ => Ok(()),
    }
}

/// Copies a file or directory to `to`. A file replaces another file; nothing replaces a directory.
pub(super) fn copy(
    workspace: &Workspace,
    source: OpenedInput,
    to: &InnerPath,
    left: &mut InputBudget,
    warnings: &mut Vec<RunWarning>,
) -> Result<(), InputFailure> {
    let (parent, name) = destination(workspace, to)?;
    let owner = workspace.owner();
    let found = parent.entry(name)?;
    refuse_directory(&found, to)?;
    match source {
        OpenedInput::File(file, stat) => {
            let (temporary, target) = parent.temporary_file()?;
            let copied = copy_file(file, &stat, target, owner, left)
                .and_then(|()| Ok(parent.rename(&temporary, name)?));
            copied.inspect_err(|_| parent.discard(&temporary))
        }
        OpenedInput::Directory(source) => {
            if found.is_some() {
                return Err(InputFailure::Refused(format!("`{to}` exists already; give another `to`")));
            }
            let (temporary, target) = parent.temporary_dir()?;
            let mut copying = DirectoryCopy { owner, left, warnings };
            let copied = copying.directory(&source, &target, to.as_str(), 0).and_then(|()| {
                Ok(renameat_with(&parent, &temporary, &parent, name, RenameFlags::NOREPLACE)?)
            });
            copied.inspect_err(|_| drop(parent.remove_tree(temporary.as_ref())))
        }
    }
}

/// Copies a file or directory to a new entry of a directory that no command can write. This user owns the copy, and
/// everybody can read it.
pub(super) fn copy_beside(
    source: OpenedInput,
    parent: &Dir,
    name: &str,
    left: &mut InputBudget,
    warnings: &mut Vec<RunWarning>,
) -> Result<(), InputFailure> {
    match source {
        OpenedInput::File(file, stat) => {
            let target = File::from(beneath::create_file(parent, name, 0o600)?);
            copy_file(file, &stat, target, None, left)
        }
        OpenedInput::Directory(source) => {
            let target = parent.make_dir(name, 0o700, None)?;
            DirectoryCopy { owner: None, left, warnings }.directory(&source, &target, name, 0)
        }
    }
}

/// Writes bytes to `to`.
pub(super) fn write(
    workspace: &Workspace,
    bytes: &[u8],
    to: &InnerPath,
    left: &mut InputBudget,
) -> Result<(), InputFailure> {
    let (parent, name) = destination(workspace, to)?;
    refuse_directory(&parent.entry(name)?, to)?;
    take(left, bytes.len() as u64)?;
    let (temporary, mut target) = parent.temporary_file()?;
    let written = target
        .write_all(bytes)
        .and_then(|()| finish(&target, 0o644, workspace.owner()))
        .and_then(|()| parent.rename(&temporary, name));
    Ok(written.inspect_err(|_| parent.discard(&temporary))?)
}

/// Makes a link at `to` that leads to `source`; both are in the workspace.
pub(super) fn link(workspace: &Workspace, source: &InnerPath, to: &InnerPath) -> Result<(), InputFailure> {
    let (parent, name) = destination(workspace, to)?;
    refuse_directory(&parent.entry(name)?, to)?;
    let up = "../".repeat(to.as_str().matches('/').count());
    let temporary = parent.temporary_link(&format!("{up}{source}"))?;
    Ok(parent.rename(&temporary, name).inspect_err(|_| parent.discard(&temporary))?)
}

/// A copy of a directory in progress.
struct DirectoryCopy<'a> {
    owner: Owner,
    left: &'a mut InputBudget,
    warnings: &'a mut Vec<RunWarning>,
}

impl DirectoryCopy<'_> {
    fn directory(
        &mut self,
        source: &Dir,
        target: &Dir,
        path: &str,
        depth: usize,
    ) -> Result<(), InputFailure> {
        if depth > MAX_DEPTH {
            return Err(InputFailure::Refused(format!("it is more than {MAX_DEPTH} directories deep")));
        }
        let (entries, _) = source.entries(self.left.files.saturating_add(1))?;
        for (name, kind) in entries {
            let path = format!("{path}/{}", escaped_name(&name));
            match kind {
                FileType::RegularFile => {
                    let (file, stat) =
                        source.file(&name).map_err(|refused| InputFailure::Io(refused.into()))?;
                    let (temporary, new) = target.temporary_file()?;
                    copy_file(file, &stat, new, self.owner, self.left)?;
                    rustix::fs::renameat(target, &*temporary, target, &name)?;
                }
                FileType::Directory => {
                    take(self.left, 0)?;
                    let below = target.make_dir(&name, 0o755, self.owner)?;
                    self.directory(&source.dir(&name)?, &below, &path, depth + 1)?;
                }
                other => {
                    let reason = format!("is a {}", special(other));
                    self.warnings.push(RunWarning::LeftOut { path, reason });
                }
            }
        }
        target.hand_over(0o755, self.owner)?;
        Ok(())
    }
}

/// Counts a file of this many bytes.
fn take(left: &mut InputBudget, bytes: u64) -> Result<(), InputFailure> {
    let files = left.files.checked_sub(1);
    left.files = files
        .ok_or_else(|| InputFailure::Refused(format!("the inputs have more than {MAX_INPUT_FILES} files")))?;
    let bytes = left.bytes.checked_sub(bytes);
    left.bytes = bytes.ok_or_else(|| {
        InputFailure::Refused(format!(
            "the inputs have more than {} MiB, the limit for copies; link large files instead",
            MAX_INPUT_BYTES >> 20
        ))
    })?;
    Ok(())
}

fn copy_file(
    source: File,
    stat: &Stat,
    mut target: File,
    owner: Owner,
    left: &mut InputBudget,
) -> Result<(), InputFailure> {
    // A file that is too large is refused before it is copied. A file that grows is refused afterwards.
    take(&mut left.clone(), u64::try_from(stat.st_size).unwrap_or(0))?;
    let copied = io::copy(&mut source.take(left.bytes.saturating_add(1)), &mut target)?;
    take(left, copied)?;
    let mode = if stat.st_mode & 0o111 == 0 { 0o644 } else { 0o755 };
    Ok(finish(&target, mode, owner)?)
}
