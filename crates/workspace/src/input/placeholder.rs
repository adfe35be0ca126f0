//! Placeholders: empty files in a workspace over which linked local files are mounted.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use prowess_base::beneath;
use rustix::fs::{AtFlags, FileType, Mode, Stat, fstat, mkdirat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::copy::{InputFailure, destination};
use crate::dir::{Dir, Owner, finish};
use crate::path::InnerPath;
use crate::workspace::Workspace;

/// The most bytes that are read of a note.
const MAX_NOTE: u64 = 16 * 1024;

/// An empty file or directory over which a linked local file is mounted during a run. It is removed when this is
/// dropped, unless somebody wrote to it.
///
/// A note about it lies beside the workspace, locked while this lives. If a process is killed, its note stays unlocked,
/// and the next opening of the workspace removes the placeholder.
#[derive(Debug)]
pub(super) struct Placeholder {
    workspace: Workspace,
    entry: PlaceholderNote,
    note: String,
    _held: File,
}

/// Where a placeholder is, and which file it is.
#[derive(Debug, Serialize, Deserialize)]
struct PlaceholderNote {
    to: String,
    device: u64,
    inode: u64,
}

impl Placeholder {
    /// Makes a placeholder at `to`. An existing file is refused: it may be the user's, or another run's placeholder.
    pub(super) fn make(
        workspace: &Workspace,
        to: &InnerPath,
        is_directory: bool,
    ) -> Result<Self, InputFailure> {
        let (parent, name) = destination(workspace, to)?;
        // The holder of this lock sweeps notes.
        let _staging = workspace.lock_staging()?;
        let notes = workspace.notes()?;
        let (note, mut held) = notes.temporary_file()?;
        held.lock()?;
        let made = make_empty(&parent, name, is_directory, workspace.owner()).map_err(|error| match error {
            Errno::EXIST => InputFailure::Refused(format!("`{to}` exists already; give another `to`")),
            error => error.into(),
        });
        let made = made.inspect_err(|_| notes.discard(&note))?;
        let entry = PlaceholderNote { to: to.to_string(), device: made.st_dev, inode: made.st_ino };
        let written =
            serde_json::to_vec(&entry).map_err(io::Error::from).and_then(|text| held.write_all(&text));
        let placeholder = Self { workspace: workspace.clone(), entry, note, _held: held };
        written?;
        Ok(placeholder)
    }
}

/// Makes an empty file or directory.
fn make_empty(parent: &Dir, name: &str, is_directory: bool, owner: Owner) -> Result<Stat, Errno> {
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
        self.entry.remove(self.workspace.dir());
        if let Ok(notes) = self.workspace.notes() {
            notes.discard(&self.note);
        }
    }
}

impl PlaceholderNote {
    /// Removes the placeholder if it is still the same file and still empty.
    fn remove(&self, workspace: &Dir) {
        let Ok(to) = InnerPath::parse(&self.to) else { return };
        let (parent, name) = to.split();
        let Ok(parent) = workspace.dir(parent) else { return };
        let Ok(Some(found)) = parent.entry(name) else { return };
        if (found.st_dev, found.st_ino) != (self.device, self.inode) {
            return;
        }
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile if found.st_size == 0 => parent.discard(name),
            // The system refuses this unless the directory is empty.
            FileType::Directory => drop(unlinkat(&parent, name, AtFlags::REMOVEDIR)),
            _ => {}
        }
    }
}

/// Removes the placeholders of killed processes. The caller holds the staging lock.
pub(crate) fn sweep(notes: &Dir, workspace: &Dir) -> io::Result<()> {
    let mut abandoned = Vec::new();
    for (name, _) in notes.entries(usize::MAX)?.0 {
        let Ok((note, _)) = notes.file(&name) else { continue };
        if note.try_lock().is_err() {
            continue;
        }
        let mut text = Vec::new();
        note.take(MAX_NOTE).read_to_end(&mut text)?;
        abandoned.extend(serde_json::from_slice::<PlaceholderNote>(&text));
        notes.discard(&name.to_string_lossy());
    }
    // The longest paths first, because one can lie in another.
    abandoned.sort_by_key(|entry| std::cmp::Reverse(entry.to.len()));
    abandoned.iter().for_each(|entry| entry.remove(workspace));
    Ok(())
}
