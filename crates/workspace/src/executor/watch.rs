//! Checks the limits that the system does not enforce: the size of the workspace, and memory without a control group.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::layout::WritableDirs;
use super::processes::{self, Processes};
use crate::command::Exit;
use crate::dir::Dir;
use crate::limits::Limits;
use crate::warning::RunWarning;

/// Commands that ran for less are not checked at their end.
const SHORT: Duration = Duration::from_millis(200);
/// Deeper directories count as too large: they are made to hide their size.
const MAX_DEPTH: usize = 128;

/// Checks the limits of one command from time to time.
#[derive(Debug)]
pub(super) struct Watch {
    written: WritableDirs,
    device: Option<u64>,
    limits: Limits,
    /// Whether memory must be checked too.
    memory: bool,
    /// Whether the workspace was full. Killed writers free space, so it may not be full at the end.
    was_full: bool,
}

impl Watch {
    pub(super) fn new(written: WritableDirs, limits: &Limits, memory: bool) -> Self {
        let first = written.parts.first().map(|part| written.root.join(part));
        let device = first.and_then(|first| std::fs::metadata(first).ok()).map(|metadata| metadata.dev());
        Self { written, device, limits: limits.clone(), memory, was_full: false }
    }

    /// Checks the limits. Returns the exit if one is exceeded.
    pub(super) fn check(&mut self, processes: Processes) -> Option<Exit> {
        let found = processes.find();
        if self.memory && self.memory_of(processes, &found) > self.limits.memory {
            return Some(Exit::OutOfMemory);
        }
        let nameless = self.device.map_or(0, |device| processes::nameless_files(&found, device));
        self.was_full = self.is_full(nameless);
        self.was_full.then_some(Exit::WorkspaceFull)
    }

    /// The memory of a command, including the files in its own `/tmp` and `/dev/shm`.
    fn memory_of(&self, processes: Processes, found: &[PathBuf]) -> u64 {
        let temporary = match processes {
            Processes::InNamespace(_) => processes::temporary_files(found),
            // Without a namespace these directories are shared with others.
            Processes::Below(_) | Processes::Unknown => 0,
        };
        processes::memory(found).saturating_add(temporary)
    }

    /// Warnings after the command has ended.
    pub(super) fn warnings(&self, ran_for: Duration) -> Vec<RunWarning> {
        // A short command is not worth a walk. The next command is checked anyway.
        if !self.was_full && (ran_for < SHORT || !self.is_full(0)) {
            return Vec::new();
        }
        let Limits { workspace_bytes: bytes, workspace_entries: entries, .. } = self.limits;
        vec![RunWarning::WorkspaceFull { bytes, entries }]
    }

    /// Whether the writable directories are too large. The walk stops as soon as they are.
    fn is_full(&self, nameless: u64) -> bool {
        let Some(bytes) = self.limits.workspace_bytes.checked_sub(nameless) else { return true };
        let mut left = SpaceLeft { bytes, entries: self.limits.workspace_entries };
        let root = match Dir::open(&self.written.root) {
            Ok(root) => root,
            Err(error) => return error.kind() != io::ErrorKind::NotFound,
        };
        !self.written.parts.iter().all(|part| left.hold(&root, part))
    }
}

/// How many more bytes and files a workspace may have.
struct SpaceLeft {
    bytes: u64,
    entries: u64,
}

impl SpaceLeft {
    /// Subtracts the size of a directory tree. Returns whether it fits.
    ///
    /// The command can change the tree during the walk, and this process may be root. So each directory is opened from
    /// the root without following links, one at a time. A tree that hides its size counts as too large.
    fn hold(&mut self, root: &Dir, part: &OsStr) -> bool {
        let mut path = part.as_bytes().to_vec();
        // For the current directory and each parent: the length of its path, and its directories that are not visited yet.
        let mut parents: Vec<(usize, Vec<OsString>)> = Vec::new();
        let Some(inside) = self.list(root, &path) else { return false };
        parents.push((path.len(), inside));
        while let Some((length, inside)) = parents.last_mut() {
            path.truncate(*length);
            let Some(name) = inside.pop() else {
                parents.pop();
                continue;
            };
            path.push(b'/');
            path.extend_from_slice(name.as_bytes());
            let listed = if parents.len() < MAX_DEPTH { self.list(root, &path) } else { None };
            let Some(inside) = listed else { return false };
            parents.push((path.len(), inside));
        }
        true
    }

    /// Subtracts the sizes of a directory's entries. Returns the directories among them; `None` if they are too large
    /// or cannot be read.
    fn list(&mut self, root: &Dir, path: &[u8]) -> Option<Vec<OsString>> {
        let directory = match root.dir(OsStr::from_bytes(path)) {
            Ok(directory) => directory,
            // It was removed or replaced; the next check sees the new state.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Some(Vec::new()),
            Err(_) => return None,
        };
        let (entries, more) = directory.entries(usize::try_from(self.entries).unwrap_or(usize::MAX)).ok()?;
        if more {
            return None;
        }
        let mut inside = Vec::new();
        for (name, _) in entries {
            let Some(stat) = directory.entry(&name).ok()? else { continue };
            // The space on disk, not the length: a sparse file is small.
            self.bytes = self.bytes.checked_sub(u64::try_from(stat.st_blocks).ok()?.checked_mul(512)?)?;
            self.entries = self.entries.checked_sub(1)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                inside.push(name);
            }
        }
        Some(inside)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A workspace with a limit of a million bytes and a thousand files.
    fn workspace() -> (tempfile::TempDir, Watch) {
        let at = tempfile::tempdir().unwrap();
        let written = WritableDirs::in_workspace(at.path());
        for part in &written.parts {
            std::fs::create_dir(at.path().join(part)).unwrap();
        }
        let limits = Limits { workspace_bytes: 1_000_000, workspace_entries: 1000, ..Limits::default() };
        let watch = Watch::new(written, &limits, false);
        (at, watch)
    }

    #[test]
    fn all_directories_are_counted() {
        let (at, watch) = workspace();
        for branch in ["work/a/b", "work/a/c", "out/d", "runs/e/f"] {
            std::fs::create_dir_all(at.path().join(branch)).unwrap();
            assert!(!watch.is_full(0));
            std::fs::write(at.path().join(branch).join("large"), vec![1; 300_000]).unwrap();
        }
        assert!(watch.is_full(0));
    }

    #[test]
    fn links_lead_nowhere() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("large"), vec![1; 2_000_000]).unwrap();
        let (at, watch) = workspace();
        symlink(outside.path(), at.path().join("work/link")).unwrap();
        std::fs::remove_dir(at.path().join("out")).unwrap();
        symlink(outside.path(), at.path().join("out")).unwrap();
        assert!(!watch.is_full(0));
        // It was listed before it was swapped.
        let root = Dir::open(at.path()).unwrap();
        let mut left = SpaceLeft { bytes: 1, entries: 1 };
        assert_eq!(left.list(&root, b"work/link"), Some(Vec::new()));
    }

    #[test]
    fn what_is_too_deep_or_too_long_counts_as_full() {
        for (name, depth) in [("d".to_owned(), MAX_DEPTH + 1), ("d".repeat(250), 20)] {
            let (at, watch) = workspace();
            let mut deep = Dir::open(&at.path().join("work")).unwrap();
            for _ in 0..depth {
                deep = deep.make_dir(&name, 0o755, None).unwrap();
            }
            assert!(watch.is_full(0), "{depth}");
        }
    }
}
