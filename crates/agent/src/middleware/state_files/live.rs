//! A thread's files while it is open: as they are, and what the log does not have yet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::write::MAX_EDIT_BYTES;
use prowess_backend::{
    Backend, BackendError, Contents, Edit, Edited, Entry, EntryKind, GlobQuery, GlobReport, GrepQuery,
    GrepReport, Listing, MemoryBackend, ReadRange, Result, VirtualPath, WriteMode,
};

use super::delta::{self, Delta, Tree};
use super::{MAX_STATE_BYTES, MAX_STATE_FILES};

/// The files of an open thread.
#[derive(Debug)]
pub(super) struct Live {
    files: MemoryBackend,
    /// Who has it may write: a change and its delta are one.
    used: tokio::sync::Mutex<Used>,
    journal: Mutex<Vec<Delta>>,
}

/// How much room is taken.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    bytes: u64,
    files: usize,
    /// Whether a log has what is written.
    is_kept: bool,
}

impl Live {
    pub(super) fn new(tree: &Tree) -> Self {
        let files = tree.0.iter().map(|(path, bytes)| (path.clone(), bytes.clone())).collect();
        let bytes = tree.0.values().map(|bytes| bytes.len() as u64).sum();
        let used = Used { bytes, files: tree.0.len(), is_kept: true };
        Self { files, used: tokio::sync::Mutex::new(used), journal: Mutex::default() }
    }

    /// No files, where no log would have them.
    pub(super) fn nowhere() -> Self {
        Self { files: MemoryBackend::new(), used: tokio::sync::Mutex::default(), journal: Mutex::default() }
    }

    /// What the log does not have, in the order in which it happened. It is given once.
    pub(super) fn unstored(&self) -> Vec<Delta> {
        std::mem::take(&mut *self.journal())
    }

    fn journal(&self) -> MutexGuard<'_, Vec<Delta>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the file is, if there is one.
    async fn size(&self, path: &VirtualPath) -> Option<u64> {
        let entry = self.files.stat(path).await.ok()?;
        (entry.kind == EntryKind::File).then_some(entry.size)
    }
}

impl Used {
    /// What is taken when a file of a length, or none, has another length.
    fn with(self, path: &VirtualPath, before: Option<u64>, after: u64) -> Result<Self> {
        if !self.is_kept {
            let operation = "writing in an agent without the part `state_files`";
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
impl Backend for Live {
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
        let after = used.with(path, self.size(path).await, bytes.len() as u64)?;
        let entry = self.files.write(path, bytes.clone(), mode).await?;
        *used = after;
        self.journal().push(Delta::Write { path: path.clone(), contents: delta::Contents(bytes) });
        Ok(entry)
    }

    async fn append(&self, path: &VirtualPath, bytes: Bytes) -> Result<Entry> {
        let mut used = self.used.lock().await;
        let before = self.size(path).await;
        let after = used.with(path, before, before.unwrap_or(0).saturating_add(bytes.len() as u64))?;
        let entry = self.files.append(path, bytes.clone()).await?;
        *used = after;
        self.journal().push(Delta::Append { path: path.clone(), contents: delta::Contents(bytes) });
        Ok(entry)
    }

    async fn edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Edited> {
        let mut used = self.used.lock().await;
        let before = self.files.read(path, ReadRange::first(MAX_EDIT_BYTES)).await?.into_whole()?;
        let (text, replacements) = edit.apply(path, &before)?;
        let after = used.with(path, Some(before.len() as u64), text.len() as u64)?;
        let entry = self.files.write(path, text.into(), WriteMode::Replace).await?;
        *used = after;
        self.journal().push(Delta::edit(path, edit));
        Ok(Edited { entry, replacements })
    }

    async fn delete(&self, path: &VirtualPath) -> Result<()> {
        let mut used = self.used.lock().await;
        let before = self.size(path).await;
        self.files.delete(path).await?;
        *used = Used { bytes: used.bytes - before.unwrap_or(0), files: used.files - 1, ..*used };
        self.journal().push(Delta::Delete { path: path.clone() });
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

    testing::suite!(state_files, Subject::new(Live::new(&Tree::default())));

    #[tokio::test]
    async fn there_is_room_for_so_much_and_no_more() {
        let live = Live::new(&Tree::default());
        let path = |name: &str| VirtualPath::parse(name).unwrap();
        let half = Bytes::from(vec![b'x'; usize::try_from(MAX_STATE_BYTES / 2).unwrap()]);
        live.write(&path("/a"), half.clone(), WriteMode::CreateNew).await.unwrap();
        live.append(&path("/a"), half.clone()).await.unwrap();
        for refused in [
            live.append(&path("/a"), "x".into()).await,
            live.append(&path("/b"), "x".into()).await,
            live.write(&path("/b"), "x".into(), WriteMode::Replace).await,
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, BackendError::Full { .. }), "{error}");
        }
        live.write(&path("/a"), "seven bytes less".into(), WriteMode::Replace).await.unwrap();
        live.write(&path("/b"), half.clone(), WriteMode::Replace).await.unwrap();
        live.delete(&path("/b")).await.unwrap();
        live.write(&path("/c"), half, WriteMode::Replace).await.unwrap();
        let grown = Edit::all("e", "e".repeat(usize::try_from(MAX_STATE_BYTES / 8).unwrap()));
        assert_eq!(live.edit(&path("/a"), &grown).await.unwrap_err().code(), "full");
        for number in 2..MAX_STATE_FILES {
            live.write(&path(&format!("/many/{number}")), Bytes::new(), WriteMode::CreateNew).await.unwrap();
        }
        let one_more = live.write(&path("/one/more"), Bytes::new(), WriteMode::CreateNew).await;
        assert_eq!(one_more.unwrap_err().code(), "full");
        live.append(&path("/many/2"), "what is there may grow".into()).await.unwrap();
    }
}
