//! What an inventory lacks, and why.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{MAX_BYTES, MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES, MAX_PATH, MAX_PATH_BYTES};

/// How many paths are named for each reason.
const MAX_EXAMPLES: usize = 5;
/// The most characters of a path that are shown.
const MAX_SHOWN: usize = 200;

/// Why files are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeftOutReason {
    /// They are links.
    Link,
    /// They are FIFOs, sockets or devices.
    Special,
    /// They cannot be read.
    Unreadable,
    /// Their names are not UTF-8, or their paths are longer than [`MAX_PATH`].
    Name,
    /// They have more than [`MAX_FILE_BYTES`].
    TooLarge,
    /// They are in more than [`MAX_DEPTH`] directories.
    TooDeep,
    /// There are more than [`MAX_FILES`].
    TooMany,
    /// All files together have more than [`MAX_BYTES`].
    NoRoom,
    /// All paths together have more than [`MAX_PATH_BYTES`].
    LongPaths,
}

impl fmt::Display for LeftOutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => f.write_str("links"),
            Self::Special => f.write_str("FIFOs, sockets or devices"),
            Self::Unreadable => f.write_str("unreadable"),
            Self::Name => {
                write!(f, "paths that are not UTF-8, or longer than {MAX_PATH} bytes")
            }
            Self::TooLarge => write!(f, "files of more than {} MiB", MAX_FILE_BYTES >> 20),
            Self::TooDeep => write!(f, "more than {MAX_DEPTH} directories deep"),
            Self::TooMany => write!(f, "more than {MAX_FILES} files"),
            Self::NoRoom => write!(f, "more than {} MiB in all", MAX_BYTES >> 20),
            Self::LongPaths => write!(f, "paths of more than {} MiB in all", MAX_PATH_BYTES >> 20),
        }
    }
}

/// Files that an inventory lacks, for one reason.
///
/// ```
/// use prowess_workspace::inventory::{LeftOut, LeftOutReason};
///
/// let left_out = LeftOut { reason: LeftOutReason::Link, count: 1, examples: vec!["/work/out/latest".into()] };
/// assert_eq!(left_out.to_string(), "/work/out/latest (links)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The reason.
    pub reason: LeftOutReason,
    /// How many files and directories.
    pub count: u64,
    /// The paths of the first ones.
    pub examples: Vec<String>,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.examples.join(", "))?;
        match self.count.saturating_sub(self.examples.len() as u64) {
            0 => {}
            more => write!(f, " and {more} more")?,
        }
        write!(f, " ({})", self.reason)
    }
}

/// Collects what is left out.
#[derive(Debug, Default)]
pub(super) struct LeftOuts(BTreeMap<LeftOutReason, LeftOut>);

impl LeftOuts {
    pub(super) fn add(&mut self, reason: LeftOutReason, path: impl FnOnce() -> String) {
        let new = || LeftOut { reason, count: 0, examples: Vec::new() };
        let entry = self.0.entry(reason).or_insert_with(new);
        entry.count += 1;
        if entry.examples.len() < MAX_EXAMPLES {
            entry.examples.push(path().chars().take(MAX_SHOWN).collect());
        }
    }

    pub(super) fn into_list(self) -> Vec<LeftOut> {
        self.0.into_values().collect()
    }
}
