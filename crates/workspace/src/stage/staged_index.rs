//! The staged index: which files of a skill are staged, stored beside the workspace.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::source::{SkillListing, StageFile};
use crate::digest::digest;
use crate::dir::Dir;

/// Version 1 had other links to the workspace.
const VERSION: u64 = 2;
/// The most bytes that are read of an index: enough for ten thousand files with long names.
const MAX_BYTES: u64 = 32 << 20;

/// The files of a staged skill.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StagedIndex {
    version: u64,
    /// The boot id of the machine. Copies are not flushed to the disk, so skills are staged again after a crash of the
    /// machine.
    boot: String,
    /// The device and inode of the staged directory, to see whether it was replaced.
    pub(super) directory: (u64, u64),
    pub(super) files: BTreeMap<String, StagedFile>,
    directories: Vec<String>,
}

/// A staged file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StagedFile {
    pub(super) size: u64,
    pub(super) executable: bool,
    pub(super) digest: String,
    stamp: Option<String>,
}

impl StagedFile {
    pub(super) fn new(file: &StageFile, bytes: &[u8]) -> Self {
        Self {
            size: bytes.len() as u64,
            executable: file.executable,
            digest: digest(bytes),
            stamp: file.stamp.clone(),
        }
    }

    /// Whether `file` is certainly the staged file.
    pub(super) fn is(&self, file: &StageFile) -> bool {
        self.stamp.is_some() && self.stamp == file.stamp && self.size == file.size && !self.differs(file)
    }

    /// Whether `file` is certainly not the staged file.
    pub(super) fn differs(&self, file: &StageFile) -> bool {
        self.executable != file.executable || self.size != file.size
    }
}

impl StagedIndex {
    pub(super) fn new(
        directory: (u64, u64),
        files: BTreeMap<String, StagedFile>,
        listing: &SkillListing,
    ) -> Self {
        Self { version: VERSION, boot: boot(), directory, files, directories: directories(listing) }
    }

    /// Reads the index of the staged directory `name`; `None` if there is no usable one.
    pub(super) fn read(indexes: &Dir, name: &str) -> Option<Self> {
        let (file, _) = indexes.file(file_name(name)).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        let index: Self = serde_json::from_slice(&bytes).ok()?;
        (index.version == VERSION && index.boot == boot()).then_some(index)
    }

    pub(super) fn write(&self, indexes: &Dir, name: &str) -> io::Result<()> {
        indexes.replace(&file_name(name), &serde_json::to_vec(self)?, 0o600, None)
    }

    /// Removes the index of the staged directory `name`.
    pub(super) fn forget(indexes: &Dir, name: &str) {
        indexes.discard(&file_name(name));
    }

    /// Whether the listing has the same files and directories, regardless of their contents.
    pub(super) fn has_same_paths(&self, listing: &SkillListing) -> bool {
        self.files.len() == listing.files.len()
            && listing.files.iter().all(|file| self.files.contains_key(file.path.as_str()))
            && self.directories == directories(listing)
    }

    /// The digest of all files of the skill.
    pub(super) fn digest(&self) -> String {
        let mut text = String::new();
        for (path, file) in &self.files {
            text.push_str(&format!("{} {} {path}\n", file.digest, u8::from(file.executable)));
        }
        format!("sha256:{}", digest(text.as_bytes()))
    }
}

fn directories(listing: &SkillListing) -> Vec<String> {
    let mut directories: Vec<String> =
        listing.directories.iter().map(|path| path.as_str().to_owned()).collect();
    directories.sort_unstable();
    directories
}

/// The boot id of the machine; empty if it is not known.
fn boot() -> String {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default())
        .clone()
}

fn file_name(skill: &str) -> String {
    format!("{skill}.json")
}
