//! Translates paths to object keys, and keys to paths.

use object_store::path::Path;
use object_store::{ListResult, ObjectMeta};

use crate::cap::Cap;
use crate::entry::MAX_LISTING_ENTRIES;
use crate::path::debug_start;
use crate::{BackendError, Entry, EntryKind, Listing, PathProblem, Result, Stamp, VirtualPath};

/// The keys below one prefix.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: VirtualPath,
}

impl Keys {
    pub(super) fn below(prefix: VirtualPath) -> Self {
        Self { prefix }
    }

    /// The key of `path`, without escaping.
    pub(super) fn key(&self, path: &VirtualPath) -> Result<Path> {
        let whole = path.rebase(&self.prefix)?;
        Path::parse(whole.as_str()).map_err(|error| BackendError::io(path, "naming", error))
    }

    /// The path of an object; an error if the key is not a valid path or not below the prefix.
    pub(super) fn path(&self, key: &Path) -> Result<VirtualPath> {
        let whole = VirtualPath::parse(&format!("/{key}"))?;
        match whole.strip_prefix(&self.prefix) {
            Some("") => Ok(VirtualPath::root()),
            Some(inner) => VirtualPath::root().join(inner),
            None => {
                let problem = PathProblem::NotAbsolute;
                Err(BackendError::InvalidPath { text: debug_start(key.as_ref()), problem })
            }
        }
    }

    /// Turns the store's answer for a directory into entries, unsorted.
    pub(super) fn listing(&self, found: &ListResult, directory: &Path) -> Listing {
        let mut listing = Listing::default();
        // Some stores have an empty object for the directory itself.
        let objects = found.objects.iter().filter(|meta| meta.location != *directory);
        let files = objects.map(|meta| self.path(&meta.location).map(|path| entry(path, meta)));
        let directories = found.common_prefixes.iter().map(|key| self.path(key).map(Entry::directory));
        for entry in files.chain(directories) {
            if listing.entries.len() == MAX_LISTING_ENTRIES {
                listing.stopped = Some(Cap::Visited(MAX_LISTING_ENTRIES));
                break;
            }
            match entry {
                Ok(entry) => listing.entries.push(entry),
                Err(error) => listing.skipped.push(error),
            }
        }
        listing
    }
}

pub(super) fn entry(path: VirtualPath, meta: &ObjectMeta) -> Entry {
    Entry {
        path,
        kind: EntryKind::File,
        size: meta.size,
        modified: Some(meta.last_modified.into()),
        stamp: stamp(meta.e_tag.as_deref(), meta.version.as_deref()),
    }
}

/// The entity tag, or the store's own version id if there is none.
pub(super) fn stamp(e_tag: Option<&str>, version: Option<&str>) -> Option<Stamp> {
    e_tag.or(version).map(Stamp::new)
}
