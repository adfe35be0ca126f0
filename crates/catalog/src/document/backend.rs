//! Reads documents from a backend, by the rules of the local disk.

use std::io;

use prowess_backend::{Backend, BackendError, EntryKind, ReadRange, VirtualPath};

use super::path::{self, PathRefusal};
use super::walk::{DocumentLevel, DocumentWalk};
use super::{DocumentError, DocumentText, Documents, MAX_DOCUMENT_BYTES};
use crate::catalog::SkillEntry;
use crate::diagnostic::Code;
use crate::local;
use crate::skill::MANIFEST;

impl SkillEntry {
    /// Like [`SkillEntry::documents`], from the backend in which the skill was found. Lists each directory once.
    pub async fn documents_in(&self, backend: &dyn Backend) -> Documents {
        let directory = self.skill.location.directory();
        let mut walk = DocumentWalk::new(directory);
        while let Some((path, depth)) = walk.next_directory() {
            match list(backend, directory, &path).await {
                Ok(level) => walk.enter(&path, depth, level),
                Err(error) => walk.skip(&path, &error),
            }
        }
        walk.finish()
    }

    /// Like [`SkillEntry::read_document`], from the backend in which the skill was found.
    ///
    /// This lists each directory on the way, because a backend may follow links that it lists as links. A link that is put
    /// there between listing and reading leads no further than the backend itself.
    pub async fn read_document_in(
        &self,
        backend: &dyn Backend,
        path: &str,
    ) -> Result<DocumentText, DocumentError> {
        path::check(path).map_err(|why| DocumentError::refused(path, why))?;
        let failed = |error: BackendError| match error {
            BackendError::NotFound { .. } | BackendError::NotADirectory { .. } => {
                DocumentError::not_found(path)
            }
            BackendError::NotAFile { .. } | BackendError::IsDirectory { .. } => {
                DocumentError::not_a_file(path)
            }
            error => DocumentError::io(path, io::Error::other(error)),
        };
        let mut here = VirtualPath::parse(self.skill.location.directory()).map_err(failed)?;
        let mut size = 0;
        let mut parts = path.split('/').enumerate().peekable();
        while let Some((depth, part)) = parts.next() {
            let entries = backend.ls(&here).await.map_err(failed)?.entries;
            let named = |name: &str| entries.iter().find(|entry| entry.path.name() == Some(name));
            if depth > 0 && named(MANIFEST).is_some() {
                return Err(DocumentError::refused(path, PathRefusal::OtherSkill));
            }
            let entry = named(part).ok_or_else(|| DocumentError::not_found(path))?;
            match (entry.kind, parts.peek().is_some()) {
                (EntryKind::Directory, true) | (EntryKind::File, false) => {}
                // A file has no entries.
                (EntryKind::File, true) => return Err(DocumentError::not_found(path)),
                (EntryKind::Directory, false) | (EntryKind::Other, _) => {
                    return Err(DocumentError::not_a_file(path));
                }
            }
            (here, size) = (entry.path.clone(), entry.size);
        }
        let contents = backend.read(&here, ReadRange::first(MAX_DOCUMENT_BYTES + 1)).await.map_err(failed)?;
        let read = contents.bytes.len() as u64;
        // If the whole document was read, its size is certain. The listed size is not.
        let size = if contents.more { size.max(read.saturating_add(1)) } else { read };
        self.document_from(path, contents.bytes.into(), size)
    }
}

async fn list(backend: &dyn Backend, skill: &str, path: &str) -> Result<DocumentLevel, BackendError> {
    let mut directory = VirtualPath::parse(skill)?;
    if !path.is_empty() {
        directory = directory.join(path)?;
    }
    let listing = backend.ls(&directory).await?;
    let mut level = DocumentLevel::default();
    level.capped = listing.stopped.is_some();
    for error in &listing.skipped {
        level.leave_out(Code::Unreadable, "", format!("cannot list a part of it: {error}"));
    }
    for entry in &listing.entries {
        let kind = match entry.kind {
            EntryKind::File => local::EntryKind::File,
            EntryKind::Directory => local::EntryKind::Directory,
            EntryKind::Other => local::EntryKind::Other,
        };
        level.add(entry.path.name().unwrap_or_default().as_bytes(), kind, entry.size);
    }
    Ok(level)
}
