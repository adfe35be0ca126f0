//! Looks now and then at what no limit of the system counts: the size of what a command may write, and its memory
//! where no control group counts it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::place::WritableDirs;
use super::processes::{self, Processes};
use crate::command::Exit;
use crate::dir::Dir;
use crate::limits::Limits;
use crate::warning::RunWarning;

/// A command that ran for less is not looked at when it has ended.
const SHORT: Duration = Duration::from_millis(200);
/// Directories in directories beyond this are made to be hard to look into.
const MAX_DEPTH: usize = 128;

/// Looks at one command now and then.
#[derive(Debug)]
pub(super) struct Watch {
    written: WritableDirs,
    device: Option<u64>,
    limits: Limits,
    /// Whether nothing else counts its memory.
    memory: bool,
    /// Whether the workspace was ever seen full. What a killed writer had reserved is given back, so it may not be
    /// full any more when the command has ended.
    was_full: bool,
}

impl Watch {
    pub(super) fn new(written: WritableDirs, limits: &Limits, memory: bool) -> Self {
        let first = written.parts.first().map(|part| written.root.join(part));
        let device = first.and_then(|first| std::fs::metadata(first).ok()).map(|metadata| metadata.dev());
        Self { written, device, limits: limits.clone(), memory, was_full: false }
    }

    /// What ends the command, if something does.
    pub(super) fn look(&mut self, processes: Processes) -> Option<Exit> {
        let found = processes.find();
        if self.memory && self.memory_of(processes, &found) > self.limits.memory {
            return Some(Exit::OutOfMemory);
        }
        let nameless = self.device.map_or(0, |device| processes::nameless_files(&found, device));
        self.was_full = self.is_full(nameless);
        self.was_full.then_some(Exit::WorkspaceFull)
    }

    /// The memory of a command. Files in the `/tmp` and the `/dev/shm` of its own are memory too.
    fn memory_of(&self, processes: Processes, found: &[PathBuf]) -> u64 {
        let temporary = match processes {
            Processes::InNamespace(_) => processes::temporary_files(found),
            // Those of the host belong to others as well.
            Processes::Below(_) | Processes::Unknown => 0,
        };
        processes::memory(found).saturating_add(temporary)
    }

    /// What a person should know once the command has ended.
    pub(super) fn warnings(&self, ran_for: Duration) -> Vec<RunWarning> {
        // What a short command can write is not worth a walk; the next command is looked at like any other.
        if !self.was_full && (ran_for < SHORT || !self.is_full(0)) {
            return Vec::new();
        }
        let Limits { workspace_bytes: bytes, workspace_entries: entries, .. } = self.limits;
        vec![RunWarning::WorkspaceFull { bytes, entries }]
    }

    /// Whether the writable parts hold more than they may. Stops looking at the first sign of it.
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

/// What a workspace may still hold.
struct SpaceLeft {
    bytes: u64,
    entries: u64,
}

impl SpaceLeft {
    /// Takes away what a part of the workspace holds. Says whether it is no more than there was.
    ///
    /// The command changes what is looked at, and we may be root: each directory is opened from the workspace's own
    /// without following links, one at a time. What hides its size counts as too large.
    fn hold(&mut self, root: &Dir, part: &OsStr) -> bool {
        let mut path = part.as_bytes().to_vec();
        // For each directory on the way to this one: the length of its path, and what is in it to look into.
        let mut way: Vec<(usize, Vec<OsString>)> = Vec::new();
        let Some(inside) = self.list(root, &path) else { return false };
        way.push((path.len(), inside));
        while let Some((length, inside)) = way.last_mut() {
            path.truncate(*length);
            let Some(name) = inside.pop() else {
                way.pop();
                continue;
            };
            path.push(b'/');
            path.extend_from_slice(name.as_bytes());
            let listed = if way.len() < MAX_DEPTH { self.list(root, &path) } else { None };
            let Some(inside) = listed else { return false };
            way.push((path.len(), inside));
        }
        true
    }

    /// Takes away what the entries of a directory hold. Returns the directories among them; nothing when it is too
    /// much, or when not all of it can be seen.
    fn list(&mut self, root: &Dir, path: &[u8]) -> Option<Vec<OsString>> {
        let directory = match root.dir(OsStr::from_bytes(path)) {
            Ok(directory) => directory,
            // It is gone again, or something else stands in its place, which the next look sees.
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
            // What it takes, not how long it says it is: a sparse file is small.
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

    /// A workspace of which no more than a million bytes and a thousand files may be used.
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
        // As if it was listed before it was swapped.
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
