//! What of a project is trusted: each skill and each file that counts, asked about once, and again when it has changed.

mod digest;
mod items;
mod links;
mod review;
mod status;
mod summary;
mod trust_file;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use self::review::{ReviewScope, TrustReview, ask_to_trust};
pub(crate) use self::status::{TrustStatus, status};
pub(crate) use self::trust_file::TrustFile;

/// What an item of a project is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// An entry of a directory of skills: mostly a skill.
    Skill,
    /// A directory of skills that cannot be looked at as a whole.
    Directory,
    /// The project's prowess.toml.
    Configuration,
    /// What is told to the model about the project.
    Memory,
}

/// One thing that a project brings, which is trusted or not.
#[derive(Clone, Debug)]
struct Item {
    kind: ItemKind,
    /// The digest of all there is to it, or why it cannot be trusted.
    digest: Result<String, String>,
    /// Its files, by their paths below the item.
    files: BTreeMap<String, FileKind>,
    bytes: u64,
    /// The other items that its links lead to or through. It is trusted only while they are.
    leads_to: BTreeSet<String>,
    /// What a person is shown of its files, by their paths below the item, exactly as they were hashed.
    texts: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FileKind {
    Plain,
    /// It can be started.
    Program,
    /// A link with this target.
    Link(String),
}
