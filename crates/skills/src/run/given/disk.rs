//! The file system of this machine, for the search for paths.

use std::path::Path;

use super::layout::Layout;
use super::mention::{Files, Kind};

/// The disks of this machine, as a model may know them: a file whose name it must not learn does not exist. Every call
/// blocks.
pub(super) struct KnownDisk<'a>(pub(super) &'a Layout<'a>);

impl Files for KnownDisk<'_> {
    fn kind(&self, path: &Path) -> Option<Kind> {
        let found = std::fs::metadata(path).ok()?;
        let kind = if found.is_dir() { Kind::Directory } else { Kind::File };
        (!self.0.hides(path)).then_some(kind)
    }

    fn names(&self, directory: &Path, most: usize) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory).ok()? {
            // A text cannot name a file whose name is not UTF-8.
            let Ok(name) = entry.ok()?.file_name().into_string() else { continue };
            // A hidden name must not count either.
            if self.0.hides(&directory.join(&name)) {
                continue;
            }
            if names.len() == most {
                return None;
            }
            names.push(name);
        }
        Some(names)
    }
}
