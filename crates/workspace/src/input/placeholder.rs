//! What stands in a workspace for something of the host.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use prowess_base::beneath;
use rustix::fs::{AtFlags, FileType, Mode, Stat, fstat, mkdirat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::copy::{Failure, place};
use crate::dir::{Dir, Owner, finish};
use crate::path::InnerPath;
use crate::workspace::Workspace;

/// The most that is read of a note.
const MAX_NOTE: u64 = 16 * 1024;

/// An empty file or directory that stands for something of the host while a run has that bound over it. It
/// goes when this is dropped, unless something was put there.
///
/// A note of it lies beside the workspace, locked as long as this lives: by a note that nobody holds the next
/// opening of the workspace knows what a killed process left.
#[derive(Debug)]
pub(super) struct Placeholder {
    workspace: Workspace,
    standing: Standing,
    note: String,
    _held: File,
}

/// What stands where.
#[derive(Debug, Serialize, Deserialize)]
struct Standing {
    to: String,
    device: u64,
    inode: u64,
}

impl Placeholder {
    /// Makes one at `to`. Whatever is there already stays as it is, and is refused: it may be a file of the
    /// user's, or another run's placeholder.
    pub(super) fn make(workspace: &Workspace, to: &InnerPath, is_directory: bool) -> Result<Self, Failure> {
        let (parent, name) = place(workspace, to)?;
        // Notes are swept by whoever holds this lock.
        let _staging = workspace.lock_staging()?;
        let notes = workspace.notes()?;
        let (note, mut held) = notes.temporary_file()?;
        held.lock()?;
        let made = stand_in(&parent, name, is_directory, workspace.owner()).map_err(|error| match error {
            Errno::EXIST => Failure::Refused(format!("`{to}` is there already; give another `to`")),
            error => error.into(),
        });
        let made = made.inspect_err(|_| notes.discard(&note))?;
        let standing = Standing { to: to.to_string(), device: made.st_dev, inode: made.st_ino };
        let written =
            serde_json::to_vec(&standing).map_err(io::Error::from).and_then(|text| held.write_all(&text));
        let placeholder = Self { workspace: workspace.clone(), standing, note, _held: held };
        written?;
        Ok(placeholder)
    }
}

/// Makes an empty file or directory.
fn stand_in(parent: &Dir, name: &str, is_directory: bool, owner: Owner) -> Result<Stat, Errno> {
    let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    if is_directory {
        mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
        let directory = parent.dir(name)?;
        directory.hand_over(0o755, owner).map_err(errno)?;
        directory.stat().map_err(errno)
    } else {
        let file = File::from(beneath::create_file(parent, name, 0o600)?);
        finish(&file, 0o644, owner).map_err(errno)?;
        fstat(&file)
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        self.standing.take_away(self.workspace.dir());
        if let Ok(notes) = self.workspace.notes() {
            notes.discard(&self.note);
        }
    }
}

impl Standing {
    /// Removes it, if it still is what was made and nothing was put there.
    fn take_away(&self, workspace: &Dir) {
        let Ok(to) = InnerPath::parse(&self.to) else { return };
        let (parent, name) = to.split();
        let Ok(parent) = workspace.dir(parent) else { return };
        let Ok(Some(found)) = parent.entry(name) else { return };
        if (found.st_dev, found.st_ino) != (self.device, self.inode) {
            return;
        }
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile if found.st_size == 0 => parent.discard(name),
            // Refused by the system unless it is empty, and that is as it should be.
            FileType::Directory => drop(unlinkat(&parent, name, AtFlags::REMOVEDIR)),
            _ => {}
        }
    }
}

/// Removes what killed processes left of their placeholders. The caller holds the lock of staging.
pub(crate) fn sweep(notes: &Dir, workspace: &Dir) -> io::Result<()> {
    let mut left = Vec::new();
    for (name, _) in notes.entries(usize::MAX)?.0 {
        let Ok((note, _)) = notes.file(&name) else { continue };
        if note.try_lock().is_err() {
            continue;
        }
        let mut text = Vec::new();
        note.take(MAX_NOTE).read_to_end(&mut text)?;
        left.extend(serde_json::from_slice::<Standing>(&text));
        notes.discard(&name.to_string_lossy());
    }
    // The longest paths first: one may lie in another.
    left.sort_by_key(|standing| std::cmp::Reverse(standing.to.len()));
    left.iter().for_each(|standing| standing.take_away(workspace));
    Ok(())
}
