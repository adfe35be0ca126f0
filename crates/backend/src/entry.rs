//! What a backend knows about a file or directory before it reads it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::cap::Cap;
use crate::{BackendError, VirtualPath};

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory. In memory and in object stores, a directory exists because of the files below it.
    Directory,
    /// A link, FIFO, socket or device. Listings show it, but searches do not enter it.
    Other,
}

/// One file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Entry {
    /// Its path.
    pub path: VirtualPath,
    /// Its kind.
    pub kind: EntryKind,
    /// Its length in bytes; 0 unless it is a file.
    pub size: u64,
    /// When its contents last changed, if the backend knows.
    pub modified: Option<SystemTime>,
    /// Its [`Stamp`], if the backend knows; always `None` for directories.
    pub stamp: Option<Stamp>,
}

impl Entry {
    /// A directory without further details.
    #[must_use]
    pub fn directory(path: VirtualPath) -> Self {
        Self { path, kind: EntryKind::Directory, size: 0, modified: None, stamp: None }
    }
}

/// Where a path leads when links are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The path in the same backend.
    pub path: VirtualPath,
    /// The path on the disk of this machine: first as spelled, last with links followed. Empty if the file is not on
    /// this disk.
    pub on_disk: Vec<PathBuf>,
    /// Whether the disk ignores the case of names there.
    pub ignores_case: bool,
}

impl Target {
    /// A path that leads to itself and is not on the disk of this machine.
    #[must_use]
    pub fn itself(path: &VirtualPath) -> Self {
        Self { path: path.clone(), on_disk: Vec::new(), ignores_case: false }
    }
}

/// A cheap mark of one version of a file, such as an entity tag, or the inode and times of a local file.
///
/// If two stamps of one path on one backend are equal, the contents have not changed, as far as the store can tell. If
/// they differ, the contents may have changed. Do not compare stamps of different paths or backends.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "String", into = "String"))]
pub struct Stamp(Arc<str>);

impl Stamp {
    /// Makes a stamp from a text that the backend chooses.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// The stamp as text, to store and compare. Its contents have no other meaning.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stamp({})", self.0)
    }
}

impl From<String> for Stamp {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<Stamp> for String {
    fn from(stamp: Stamp) -> Self {
        stamp.0.as_ref().to_owned()
    }
}

/// The most entries of one listing.
pub const MAX_LISTING_ENTRIES: usize = 100_000;

/// The entries of a directory.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The entries, sorted by name.
    pub entries: Vec<Entry>,
    /// The entries that could not be listed: their name is not a valid [`VirtualPath`], or their metadata is not
    /// readable.
    pub skipped: Vec<BackendError>,
    /// The cap that ended the listing early, if any.
    pub stopped: Option<Cap>,
}

impl IntoIterator for Listing {
    type Item = Entry;
    type IntoIter = std::vec::IntoIter<Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}
