//! The differences between a lock of `skills` and `prowess-lock.json`.

use std::fmt;
use std::path::Path;

use prowess_base::text::escaped_start;

use super::global::{GlobalEntry, GlobalLock};
use super::own::{LockedSkill, OwnLock};
use super::shared::{SharedEntry, SharedLock};
use super::{global, shared};
use crate::discover::directory_name;
use crate::source::{Source, SourceType};

/// A skill about which the two locks disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockFinding {
    /// The name of the skill's directory.
    pub name: String,
    /// The name of the other tool's lock.
    pub file: &'static str,
    /// How they disagree.
    pub difference: LockDifference,
}

/// How the two locks disagree about a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockDifference {
    /// Only the shared lock has it: another tool added it.
    OnlyShared,
    /// Only `prowess-lock.json` has it: another tool removed it.
    OnlyOwn,
    /// It came from another source.
    Source {
        /// The source in the shared lock.
        shared: String,
        /// The source in `prowess-lock.json`.
        own: String,
    },
    /// Another branch, tag or commit was asked for.
    Reference {
        /// The reference in the shared lock.
        shared: Option<String>,
        /// The reference in `prowess-lock.json`.
        own: Option<String>,
    },
    /// It lies elsewhere in the source.
    SkillPath {
        /// The path in the shared lock.
        shared: String,
        /// The path in `prowess-lock.json`.
        own: String,
    },
    /// Its files changed.
    Hash,
    /// The entry of the shared lock cannot be used.
    Unreadable {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for LockFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = "the default branch".to_owned();
        write!(f, "{}: ", self.name)?;
        match &self.difference {
            LockDifference::OnlyShared => f.write_str("another tool added it; prowess does not pin it"),
            LockDifference::OnlyOwn => write!(f, "another tool removed it from {}", self.file),
            LockDifference::Source { shared, own } => {
                write!(
                    f,
                    "another tool changed its source from {} to {}",
                    escaped_start(own),
                    escaped_start(shared)
                )
            }
            LockDifference::Reference { shared, own } => {
                let (own, shared) = (own.as_ref().unwrap_or(&none), shared.as_ref().unwrap_or(&none));
                write!(
                    f,
                    "another tool changed its ref from {} to {}",
                    escaped_start(own),
                    escaped_start(shared)
                )
            }
            LockDifference::SkillPath { shared, own } => {
                write!(
                    f,
                    "another tool changed its path from {} to {}",
                    escaped_start(own),
                    escaped_start(shared)
                )
            }
            LockDifference::Hash => f.write_str("another tool changed its files"),
            LockDifference::Unreadable { reason } => {
                write!(f, "its entry in {} cannot be used: {}", self.file, escaped_start(reason))
            }
        }
    }
}

/// The differences between the two locks of the project in `directory`, by name. None if no other tool changed anything.
///
/// A direct download that only prowess has is no difference: `skills` does not lock downloads.
pub fn compare(lock: &SharedLock, own: &OwnLock, directory: &Path) -> Vec<LockFinding> {
    let mut findings = Vec::new();
    let mut add = |name: &str, difference| {
        findings.push(LockFinding { name: name.to_owned(), file: shared::FILE, difference });
    };
    for (name, entry) in &lock.unreadable {
        add(&directory_name(name), LockDifference::Unreadable { reason: entry.reason.clone() });
    }
    let mut seen = std::collections::BTreeSet::new();
    for (name, entry) in &lock.skills {
        let name = directory_name(name);
        match own.skills.get(&name) {
            Some(locked) => differences(entry, locked, directory).for_each(|found| add(&name, found)),
            None => add(&name, LockDifference::OnlyShared),
        }
        seen.insert(name);
    }
    let unreadable: Vec<String> = lock.unreadable.keys().map(|name| directory_name(name)).collect();
    for (name, locked) in &own.skills {
        if !seen.contains(name) && !unreadable.contains(name) && locked.source_type != SourceType::Download {
            add(name, LockDifference::OnlyOwn);
        }
    }
    findings.sort_by(|a, b| a.name.cmp(&b.name));
    findings
}

/// The differences between the two locks of a user, by name. `directory` is the home directory.
///
/// The lock of `skills` has the SHA-1 of a Git tree for skills from GitHub, and no hash for those of web sites. Those hashes
/// are not compared.
pub fn compare_global(lock: &GlobalLock, own: &OwnLock, directory: &Path) -> Vec<LockFinding> {
    let skills = lock.skills.iter().map(|(name, entry)| {
        let locked = own.skills.get(&directory_name(name));
        (name.clone(), as_shared(entry, locked))
    });
    let shared = SharedLock {
        skills: skills.collect(),
        unreadable: lock.unreadable.clone(),
        extra: Default::default(),
    };
    let findings = compare(&shared, own, directory).into_iter();
    findings.map(|finding| LockFinding { file: global::FILE, ..finding }).collect()
}

/// An entry of a user's lock as one of a project. A hash that cannot be compared becomes that of `own`.
fn as_shared(entry: &GlobalEntry, own: Option<&LockedSkill>) -> SharedEntry {
    let is_comparable = !matches!(entry.source_type, SourceType::GitHub | SourceType::WellKnown);
    let hash = own.filter(|_| !is_comparable).map_or(&entry.skill_folder_hash, |own| &own.computed_hash);
    SharedEntry {
        source: entry.source.clone(),
        source_url: Some(entry.source_base_url.as_ref().unwrap_or(&entry.source_url).clone()),
        reference: entry.reference.clone(),
        source_type: entry.source_type.clone(),
        skill_path: entry.skill_path.clone(),
        computed_hash: hash.clone(),
        well_known_digest: entry.well_known_digest.clone(),
        extra: Default::default(),
    }
}

fn differences(
    shared: &SharedEntry,
    own: &LockedSkill,
    directory: &Path,
) -> impl Iterator<Item = LockDifference> {
    let text = shared.source_url.as_ref().unwrap_or(&shared.source);
    let located = |source: Result<Source, _>| source.ok().map(|source| source.location());
    let theirs = located(Source::from_lock(&shared.source_type, text, None, directory));
    let ours = located(Source::from_lock(&own.source_type, &own.source, None, directory));
    let source = (theirs.is_none() || theirs != ours)
        .then(|| LockDifference::Source { shared: text.clone(), own: own.source.clone() });
    let reference = (shared.reference != own.reference)
        .then(|| LockDifference::Reference { shared: shared.reference.clone(), own: own.reference.clone() });
    // `skills` has no path for some sources.
    let path = shared
        .skill_path
        .as_ref()
        .filter(|path| **path != own.skill_path)
        .map(|path| LockDifference::SkillPath { shared: path.clone(), own: own.skill_path.clone() });
    let hash = (shared.computed_hash != own.computed_hash).then_some(LockDifference::Hash);
    [source, reference, path, hash].into_iter().flatten()
}
