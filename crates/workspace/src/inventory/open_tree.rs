//! The directories of a thread, opened.

use super::known::KnownFiles;
use super::scan::{Scan, ScanRoot, scan};
use crate::dir::{Dir, Owner};
use crate::workspace::Workspace;

/// The directories, opened.
pub(super) struct OpenTree {
    roots: Vec<OpenRoot>,
    /// Keeps the workspace in use.
    _workspace: Option<Workspace>,
}

pub(super) struct OpenRoot {
    pub(super) at: String,
    pub(super) directory: Dir,
    pub(super) owner: Owner,
}

impl OpenTree {
    pub(super) fn new(roots: Vec<OpenRoot>, workspace: Option<Workspace>) -> Self {
        Self { roots, _workspace: workspace }
    }

    /// The directory in which a path lies, and the rest of the path.
    pub(super) fn find<'a>(&self, path: &'a str) -> Option<(&OpenRoot, &'a str)> {
        let below = |root: &OpenRoot| path.strip_prefix(&*root.at)?.strip_prefix('/');
        self.roots.iter().find_map(|root| Some((root, below(root)?)))
    }

    pub(super) fn roots(&self) -> &[OpenRoot] {
        &self.roots
    }

    pub(super) fn scan(&self, standing: &[&str], known: &KnownFiles) -> std::io::Result<Scan> {
        let roots: Vec<ScanRoot<'_>> =
            self.roots.iter().map(|root| ScanRoot { at: &root.at, directory: &root.directory }).collect();
        scan(&roots, standing, known)
    }
}
