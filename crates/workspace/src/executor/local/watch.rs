//! Looks now and then at what no limit of the system counts: the size of the workspace, and memory where no
//! control group counts it.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::place::WRITABLE;
use super::processes;
use crate::command::Exit;
use crate::limits::Limits;

/// A command that ran for less is not looked at when it has ended.
const SHORT: Duration = Duration::from_millis(200);

/// Looks at one command now and then.
#[derive(Debug)]
pub(super) struct Watch {
    workspace: PathBuf,
    device: Option<u64>,
    limits: Limits,
    /// Whether nothing else counts its memory.
    memory: bool,
    /// Whether the workspace was ever seen full. What a killed writer had reserved is given back, so it may not be
    /// full any more when the command has ended.
    was_full: bool,
}

impl Watch {
    pub(super) fn new(workspace: &Path, limits: &Limits, memory: bool) -> Self {
        let device = std::fs::metadata(workspace.join("work")).ok().map(|metadata| metadata.dev());
        Self { workspace: workspace.to_owned(), device, limits: limits.clone(), memory, was_full: false }
    }

    /// What ends the command, if something does.
    pub(super) fn look(&mut self, namespace: Option<u64>) -> Option<Exit> {
        let processes = namespace.map(processes::in_namespace).unwrap_or_default();
        if self.memory && processes::memory(&processes) > self.limits.memory {
            return Some(Exit::OutOfMemory);
        }
        let nameless = self.device.map_or(0, |device| processes::nameless_files(&processes, device));
        self.was_full = self.is_full(nameless);
        self.was_full.then_some(Exit::WorkspaceFull)
    }

    /// What a person should know once the command has ended.
    pub(super) fn warnings(&self, ran_for: Duration) -> Vec<String> {
        // What a short command can write is not worth a walk; the next command is looked at like any other.
        if !self.was_full && (ran_for < SHORT || !self.is_full(0)) {
            return Vec::new();
        }
        let Limits { workspace_bytes, workspace_entries, .. } = self.limits;
        vec![format!("the workspace holds more than {workspace_bytes} bytes or {workspace_entries} files")]
    }

    /// Whether the writable parts hold more than they may. Stops looking at the first sign of it.
    fn is_full(&self, nameless: u64) -> bool {
        let Some(mut bytes) = self.limits.workspace_bytes.checked_sub(nameless) else { return true };
        let mut entries = self.limits.workspace_entries;
        let mut left: Vec<PathBuf> = WRITABLE.iter().map(|part| self.workspace.join(part)).collect();
        while let Some(directory) = left.pop() {
            // What cannot be read, or is gone again, is the command's own business.
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                // What it takes, not how long it says it is: a sparse file is small.
                let after = (bytes.checked_sub(metadata.blocks() * 512), entries.checked_sub(1));
                let (Some(bytes_after), Some(entries_after)) = after else { return true };
                (bytes, entries) = (bytes_after, entries_after);
                if metadata.is_dir() {
                    left.push(entry.path());
                }
            }
        }
        false
    }
}
