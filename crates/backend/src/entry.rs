//! What a backend says about a file or directory without reading it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::cap::Cap;
use crate::{BackendError, VirtualPath};

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory. In memory and in object stores, one that files below it imply.
    Directory,
    /// A link, FIFO, socket or device: listed, so that nothing is hidden, and never walked into.
    Other,
}

/// One file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Entry {
    /// Where it is.
    pub path: VirtualPath,
    /// What it is.
    pub kind: EntryKind,
    /// Its length in bytes; 0 for what is not a file.
    pub size: u64,
    /// When its contents last changed, where the backend knows.
    pub modified: Option<SystemTime>,
    /// Its [`Stamp`], where the backend knows; always `None` for directories.
    pub stamp: Option<Stamp>,
}

impl Entry {
    /// A directory, about which there is nothing more to say.
    #[must_use]
    pub fn directory(path: VirtualPath) -> Self {
        Self { path, kind: EntryKind::Directory, size: 0, modified: None, stamp: None }
    }
}

/// Where a path leads once links are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The place in the same backend.
    pub path: VirtualPath,
    /// The place on this machine's disk, as it is spelled and, last, as links lead; none for what is elsewhere.
    pub on_disk: Vec<PathBuf>,
    /// Whether the place on the disk has the same file under names in other letters.
    pub ignores_case: bool,
}

impl Target {
    /// A path that leads to itself, and to no disk of this machine.
    #[must_use]
    pub fn itself(path: &VirtualPath) -> Self {
        Self { path: path.clone(), on_disk: Vec::new(), ignores_case: false }
    }
}

/// A cheap mark of one version of a file: an entity tag, or what a file system says of an inode.
///
/// Equal stamps of one path on one backend mean that the contents have not changed since, as far as the
/// store can tell; a changed stamp means that they may have. Stamps of different paths or backends say nothing about each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "String", into = "String"))]
pub struct Stamp(Arc<str>);

impl Stamp {
    /// A stamp of a backend's own making.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// The stamp as text; worth comparing and keeping, not reading.
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

/// The most entries that one listing holds.
pub const MAX_LISTING_ENTRIES: usize = 100_000;

/// What a directory holds.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The entries, sorted by name.
    pub entries: Vec<Entry>,
    /// What is there and could not be listed: names that are no [`VirtualPath`], entries that could
    /// not be looked at.
    pub skipped: Vec<BackendError>,
    /// The cap that cut the listing short, if one did.
    pub stopped: Option<Cap>,
}

impl IntoIterator for Listing {
    type Item = Entry;
    type IntoIter = std::vec::IntoIter<Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}
