//! Looks now and then at what no limit of the system counts: the size of the workspace.

use std::path::{Path, PathBuf};

use super::place::WRITABLE;
use crate::command::Exit;
use crate::limits::Limits;

/// Looks at one command now and then.
#[derive(Debug)]
pub(super) struct Watcher {
    workspace: PathBuf,
    limits: Limits,
    #[expect(dead_code, reason = "the memory watch follows")]
    memory: bool,
}

impl Watcher {
    pub(super) fn new(workspace: &Path, limits: &Limits, memory: bool) -> Self {
        Self { workspace: workspace.to_owned(), limits: limits.clone(), memory }
    }

    /// What ends the command, if something does.
    pub(super) fn look(&mut self, _namespace: Option<u64>) -> Option<Exit> {
        self.full().then_some(Exit::WorkspaceFull)
    }

    /// What a person should know once the command has ended.
    pub(super) fn warnings(&mut self) -> Vec<String> {
        if !self.full() {
            return Vec::new();
        }
        let Limits { workspace_bytes, workspace_entries, .. } = self.limits;
        vec![format!("the workspace holds more than {workspace_bytes} bytes or {workspace_entries} files")]
    }

    /// Whether the writable parts hold more than they may. Stops looking at the first sign of it.
    fn full(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let mut room = (self.limits.workspace_bytes, self.limits.workspace_entries);
        let mut left: Vec<PathBuf> = WRITABLE.iter().map(|part| self.workspace.join(part)).collect();
        while let Some(directory) = left.pop() {
            // What cannot be read, or is gone again, is the command's own business.
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                // What it takes, not how long it says it is: a sparse file is small.
                let taken = (room.0.checked_sub(metadata.blocks() * 512), room.1.checked_sub(1));
                let (Some(bytes), Some(entries)) = taken else { return true };
                room = (bytes, entries);
                if metadata.is_dir() {
                    left.push(entry.path());
                }
            }
        }
        false
    }
}
