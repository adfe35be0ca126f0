//! Trust in a project, item by item. A person decides once about each skill and file, and again when it changes.

mod approved_change;
mod digest;
mod items;
mod links;
mod review;
mod status;
mod summary;
mod trust_file;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use self::approved_change::{ApprovedChange, NewItems};
pub(crate) use self::review::{ReviewScope, TrustReview, ask_to_trust};
pub(crate) use self::status::{TrustStatus, status};
pub(crate) use self::summary::{hooks, skill_text};
pub(crate) use self::trust_file::TrustFile;

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// An entry of a skill directory, usually a skill.
    Skill,
    /// A skill directory that cannot be read completely.
    Directory,
    /// The project's prowess.toml.
    Configuration,
    /// A memory file of the project, such as AGENTS.md.
    Memory,
    /// An entry of a directory with sub-agents: a file, or a directory of files.
    Agent,
}

/// One item of a project, which is trusted or not.
#[derive(Clone, Debug)]
struct Item {
    kind: ItemKind,
    /// The digest of its complete content, or why it cannot be trusted.
    digest: Result<String, String>,
    /// Its digest before an approved change.
    before: BeforeChange,
    /// Its files, by their paths below the item.
    files: BTreeMap<String, FileKind>,
    bytes: u64,
    /// The other items that its links lead to or through. It is trusted only while they are.
    leads_to: BTreeSet<String>,
    /// Texts that are shown to a person, by their paths below the item, exactly as they were hashed.
    texts: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FileKind {
    Plain,
    /// An executable file.
    Program,
    /// A link with this target.
    Link(String),
}

/// What is known about an item before an approved change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BeforeChange {
    /// The change was elsewhere.
    Unaffected,
    /// It had this digest.
    Digest(String),
    /// The change created it.
    Missing,
    /// Somebody else changed the file as well.
    Unknown,
}
