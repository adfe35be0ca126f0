//! A snapshot in memory.

use super::entries::{Collected, Collector};
use super::{Entry, EntryKind, Snapshot, SnapshotError};

/// A snapshot whose files are in memory: an unpacked archive, or the skills of a web site.
#[derive(Debug)]
pub struct MemorySnapshot {
    collected: Collected<Vec<u8>>,
}

/// A file for a [`MemorySnapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFile {
    /// Its path, with `/` between names.
    pub path: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether its owner may execute it.
    pub is_executable: bool,
}

impl MemorySnapshot {
    /// A snapshot with these files. `notices` says what was left out before.
    ///
    /// ```
    /// use prowess_install::snapshot::Snapshot as _;
    /// use prowess_install::snapshot::memory::{MemoryFile, MemorySnapshot};
    ///
    /// let file = MemoryFile { path: "SKILL.md".into(), bytes: b"---".into(), is_executable: false };
    /// let mut snapshot = MemorySnapshot::new([file], []);
    /// assert_eq!(snapshot.read("SKILL.md").unwrap(), b"---");
    /// ```
    pub fn new(
        files: impl IntoIterator<Item = MemoryFile>,
        notices: impl IntoIterator<Item = String>,
    ) -> Self {
        let mut collector = Collector::default();
        notices.into_iter().for_each(|notice| collector.notice(notice));
        for MemoryFile { path, bytes, is_executable } in files {
            let kind = EntryKind::File { size: bytes.len() as u64, is_executable };
            collector.add(path.as_bytes(), kind, bytes);
        }
        Self { collected: collector.finish() }
    }
}

impl Snapshot for MemorySnapshot {
    fn entries(&self) -> &[Entry] {
        &self.collected.entries
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, SnapshotError> {
        let file = self.collected.file(path);
        file.map(|(_, _, bytes)| bytes.clone())
            .ok_or_else(|| SnapshotError::NotAFile { path: path.to_owned() })
    }

    fn commit(&self) -> Option<&str> {
        None
    }

    fn folder_sha1(&self, _path: &str) -> Option<String> {
        None
    }

    fn notices(&self) -> &[String] {
        &self.collected.notices
    }
}
