//! The differences between `skills-lock.json` and `prowess-lock.json`.

use std::fmt;
use std::path::Path;

use prowess_base::text::escaped_start;

use super::own::{LockedSkill, OwnLock};
use super::shared::{SharedEntry, SharedLock};
use crate::discover::directory_name;
use crate::source::{Source, SourceType};

/// A skill about which the two locks disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockFinding {
    /// The name of the skill's directory.
    pub name: String,
    /// How they disagree.
    pub difference: LockDifference,
}

/// How the two locks disagree about a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockDifference {
    /// Only `skills-lock.json` has it: another tool added it.
    OnlyShared,
    /// Only `prowess-lock.json` has it: another tool removed it.
    OnlyOwn,
    /// It came from another source.
    Source {
        /// The source in `skills-lock.json`.
        shared: String,
        /// The source in `prowess-lock.json`.
        own: String,
    },
    /// Another branch, tag or commit was asked for.
    Reference {
        /// The reference in `skills-lock.json`.
        shared: Option<String>,
        /// The reference in `prowess-lock.json`.
        own: Option<String>,
    },
    /// It lies elsewhere in the source.
    SkillPath {
        /// The path in `skills-lock.json`.
        shared: String,
        /// The path in `prowess-lock.json`.
        own: String,
    },
    /// Its files changed.
    Hash,
    /// The entry of `skills-lock.json` cannot be used.
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
            LockDifference::OnlyOwn => f.write_str("another tool removed it from skills-lock.json"),
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
                write!(f, "its entry in skills-lock.json cannot be used: {}", escaped_start(reason))
            }
        }
    }
}

/// The differences between the two locks of the project in `directory`, by name. None if no other tool changed anything.
///
/// A direct download that only prowess has is no difference: `skills` does not lock downloads.
pub fn compare(shared: &SharedLock, own: &OwnLock, directory: &Path) -> Vec<LockFinding> {
    let mut findings = Vec::new();
    let mut add = |name: &str, difference| findings.push(LockFinding { name: name.to_owned(), difference });
    for (name, entry) in &shared.unreadable {
        add(&directory_name(name), LockDifference::Unreadable { reason: entry.reason.clone() });
    }
    let mut seen = std::collections::BTreeSet::new();
    for (name, entry) in &shared.skills {
        let name = directory_name(name);
        match own.skills.get(&name) {
            Some(locked) => differences(entry, locked, directory).for_each(|found| add(&name, found)),
            None => add(&name, LockDifference::OnlyShared),
        }
        seen.insert(name);
    }
    let unreadable: Vec<String> = shared.unreadable.keys().map(|name| directory_name(name)).collect();
    for (name, locked) in &own.skills {
        if !seen.contains(name) && !unreadable.contains(name) && locked.source_type != SourceType::Download {
            add(name, LockDifference::OnlyOwn);
        }
    }
    findings.sort_by(|a, b| a.name.cmp(&b.name));
    findings
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
