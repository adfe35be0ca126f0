//! The files of an open thread, and the changes that the log does not have yet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::write::MAX_EDIT_BYTES;
use prowess_backend::{
    Backend, BackendError, Contents, Edit, Edited, Entry, EntryKind, GlobQuery, GlobReport, GrepQuery,
    GrepReport, Listing, MemoryBackend, ReadRange, Result, VirtualPath, WriteMode,
};

use super::change::{FileChange, FileTree, StoredBytes};
use super::{MAX_STATE_BYTES, MAX_STATE_FILES};

/// The files of an open thread.
#[derive(Debug)]
pub(super) struct ThreadFiles {
    files: MemoryBackend,
    /// Held while writing, so that a change and its journal entry belong together.
    used: tokio::sync::Mutex<UsedRoom>,
    journal: Mutex<Vec<FileChange>>,
}

/// How much the files take.
#[derive(Clone, Copy, Debug, Default)]
struct UsedRoom {
    bytes: u64,
    files: usize,
    /// Whether a log stores the changes.
    is_kept: bool,
}

impl ThreadFiles {
    pub(super) fn new(tree: &FileTree) -> Self {
        let files = tree.0.iter().map(|(path, bytes)| (path.clone(), bytes.clone())).collect();
        let bytes = tree.0.values().map(|bytes| bytes.len() as u64).sum();
        let used = UsedRoom { bytes, files: tree.0.len(), is_kept: true };
        Self { files, used: tokio::sync::Mutex::new(used), journal: Mutex::default() }
    }

    /// No files, for an agent whose log would not store them.
    pub(super) fn unavailable() -> Self {
        Self { files: MemoryBackend::new(), used: tokio::sync::Mutex::default(), journal: Mutex::default() }
    }

    /// The changes that the log does not have, in order. Each is returned once.
    pub(super) fn unstored(&self) -> Vec<FileChange> {
        std::mem::take(&mut *self.journal())
    }

    fn journal(&self) -> MutexGuard<'_, Vec<FileChange>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The size of a file, if it exists.
    async fn size(&self, path: &VirtualPath) -> Option<u64> {
        let entry = self.files.stat(path).await.ok()?;
        (entry.kind == EntryKind::File).then_some(entry.size)
    }
}

impl UsedRoom {
    /// The room that is used after a file changes its size. `before` is `None` for a new file.
    fn after_change(self, path: &VirtualPath, before: Option<u64>, after: u64) -> Result<Self> {
        if !self.is_kept {
            let operation = "writing in an agent without the middleware `state_files`";
            return Err(BackendError::Unsupported { path: path.clone(), operation });
        }
        let bytes = (self.bytes - before.unwrap_or(0)).saturating_add(after);
        let files = self.files + usize::from(before.is_none());
        if bytes > MAX_STATE_BYTES || files > MAX_STATE_FILES {
            return Err(BackendError::Full {
                path: path.clone(),
                bytes: MAX_STATE_BYTES,
                files: MAX_STATE_FILES,
            });
        }
        Ok(Self { bytes, files, ..self })
    }
}

#[async_trait]
impl Backend for ThreadFiles {
    async fn ls(&self, path: &VirtualPath) -> Result<Listing> {
        self.files.ls(path).await
    }

    async fn stat(&self, path: &VirtualPath) -> Result<Entry> {
        self.files.stat(path).await
    }

    async fn read(&self, path: &VirtualPath, range: ReadRange) -> Result<Contents> {
        self.files.read(path, range).await
    }

    async fn write(&self, path: &VirtualPath, bytes: Bytes, mode: WriteMode) -> Result<Entry> {
        let mut used = self.used.lock().await;
        let after = used.after_change(path, self.size(path).await, bytes.len() as u64)?;
        let entry = self.files.write(path, bytes.clone(), mode).await?;
        *used = after;
        self.journal().push(FileChange::Write { path: path.clone(), contents: StoredBytes(bytes) });
        Ok(entry)
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry> {
        let mut used = self.used.lock().await;
        let before = self.size(path).await;
        let after =
            used.after_change(path, before, before.unwrap_or(0).saturating_add(bytes.len() as u64))?;
        let entry = self.files.append(path, bytes.clone()).await?;
        *used = after;
        self.journal().push(FileChange::Append { path: path.clone(), contents: StoredBytes(bytes) });
        Ok(entry)
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited> {
        let mut used = self.used.lock().await;
        let before = self.files.read(path, ReadRange::first(MAX_EDIT_BYTES)).await?.into_whole()?;
        let (text, replacements) = edit.apply(path, &before)?;
        let after = used.after_change(path, Some(before.len() as u64), text.len() as u64)?;
        let entry = self.files.write(path, text.into(), WriteMode::Replace).await?;
        *used = after;
        self.journal().push(FileChange::edit(path, edit));
        Ok(Edited { entry, replacements })
    }

    async fn swap(&self, path: &VirtualPath, before: Bytes, after: Bytes) -> Result<Entry> {
        let mut used = self.used.lock().await;
        let room = used.after_change(path, self.size(path).await, after.len() as u64)?;
        let entry = self.files.swap(path, before, after.clone()).await?;
        *used = room;
        self.journal().push(FileChange::Write { path: path.clone(), contents: StoredBytes(after) });
        Ok(entry)
    }

    async fn delete(&self, path: &VirtualPath) -> Result<()> {
        let mut used = self.used.lock().await;
        let before = self.size(path).await;
        self.files.delete(path).await?;
        *used = UsedRoom { bytes: used.bytes - before.unwrap_or(0), files: used.files - 1, ..*used };
        self.journal().push(FileChange::Delete { path: path.clone() });
        Ok(())
    }

    async fn glob(&self, base: &VirtualPath, query: &GlobQuery) -> Result<GlobReport> {
        self.files.glob(base, query).await
    }

    async fn grep(&self, base: &VirtualPath, query: &GrepQuery) -> Result<GrepReport> {
        self.files.grep(base, query).await
    }
}

#[cfg(test)]
mod tests {
    use prowess_backend::testing::{self, Subject};

    use super::*;

    testing::suite!(state_files, Subject::new(ThreadFiles::new(&FileTree::default())));

    #[tokio::test]
    async fn writes_beyond_the_limits_are_refused() {
        let files = ThreadFiles::new(&FileTree::default());
        let path = |name: &str| VirtualPath::parse(name).unwrap();
        let half = Bytes::from(vec![b'x'; usize::try_from(MAX_STATE_BYTES / 2).unwrap()]);
        files.write(&path("/a"), half.clone(), WriteMode::CreateNew).await.unwrap();
        files.append(&path("/a"), half.clone()).await.unwrap();
        for refused in [
            files.append(&path("/a"), "x".into()).await,
            files.append(&path("/b"), "x".into()).await,
            files.write(&path("/b"), "x".into(), WriteMode::Replace).await,
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, BackendError::Full { .. }), "{error}");
        }
        files.write(&path("/a"), "seven bytes less".into(), WriteMode::Replace).await.unwrap();
        files.write(&path("/b"), half.clone(), WriteMode::Replace).await.unwrap();
        files.delete(&path("/b")).await.unwrap();
        files.write(&path("/c"), half, WriteMode::Replace).await.unwrap();
        let grown = Edit::all("e", "e".repeat(usize::try_from(MAX_STATE_BYTES / 8).unwrap()));
        assert_eq!(files.edit(&path("/a"), &grown).await.unwrap_err().code(), "full");
        for number in 2..MAX_STATE_FILES {
            files.write(&path(&format!("/many/{number}")), Bytes::new(), WriteMode::CreateNew).await.unwrap();
        }
        let one_more = files.write(&path("/one/more"), Bytes::new(), WriteMode::CreateNew).await;
        assert_eq!(one_more.unwrap_err().code(), "full");
        files.append(&path("/many/2"), "what is there may grow".into()).await.unwrap();
    }
}
