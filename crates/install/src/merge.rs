//! A three-way update of a skill: the new version of the source, with the person's own changes kept.

mod lines;

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::names::Paths;
use crate::tree::{ReadFiles, SkillTree, TreeError, TreeFile};

/// The most bytes of a file that is merged line by line.
pub const MAX_MERGE_BYTES: u64 = 1024 * 1024;
/// The most lines of a file that is merged line by line. Comparing takes time that grows with the square.
pub const MAX_MERGE_LINES: usize = 10_000;

/// The most pairs of lines in all files of a skill that are compared. One file of the largest size needs a quarter of them.
pub const MAX_COMPARED_PAIRS: usize = 4 * MAX_MERGE_LINES * MAX_MERGE_LINES;

/// How many pairs of lines may still be compared. The files of a stranger decide how long a comparison takes.
#[derive(Debug)]
pub(crate) struct Effort {
    left: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self { left: MAX_COMPARED_PAIRS }
    }
}

impl Effort {
    /// Takes what the comparison of two texts needs. Returns whether it was there. Lines that are alike at the start and at the end
    /// cost nothing.
    pub(crate) fn spend(&mut self, old: &[&str], new: &[&str]) -> bool {
        let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let (old, new) = (&old[start..], &new[start..]);
        let end = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
        let pairs = (old.len() - end).saturating_mul(new.len() - end);
        let left = self.left.checked_sub(pairs);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

/// One version of a skill: its tree, and a reader of its files.
#[derive(Clone, Copy)]
pub struct Version<'a> {
    /// The files.
    pub tree: &'a SkillTree,
    /// Reads them.
    pub files: &'a dyn ReadFiles,
}

/// The result of a merge. If it has conflicts, the caller must not use the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// The files to write, by path.
    pub files: BTreeMap<String, MergedFile>,
    /// The files that cannot be merged.
    pub conflicts: Vec<Conflict>,
    /// The files in which a local change is kept: changed, added or deleted.
    pub kept_local: Vec<String>,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedFile {
    /// Where its bytes are.
    pub from: MergedFrom,
    /// Whether its owner may execute it.
    pub is_executable: bool,
}

/// Where the bytes of a merged file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergedFrom {
    /// In the local version.
    Local,
    /// In the new version.
    New,
    /// Here: both versions changed other lines of the same file.
    Both(Vec<u8>),
}

/// A file that cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Its path.
    pub path: String,
    /// Why.
    pub kind: ConflictKind,
}

/// Why a file cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ConflictKind {
    /// Both changed the same lines or neighbouring lines.
    Lines,
    /// Both changed it, and it is not text, or too large to merge.
    Binary,
    /// Both added it, with other bytes or another mode.
    AddedTwice,
    /// It was deleted locally, but the new version changed it.
    DeletedLocally,
    /// The new version deleted it, but it was changed locally.
    DeletedUpstream,
    /// Another file of the result is a directory with this name, or differs only in case.
    Twin,
}

impl ConflictKind {
    /// The reason for a person, to be read after the path.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Lines => "you and the new version changed the same lines",
            Self::Binary => "you and the new version changed it, and it cannot be merged line by line",
            Self::AddedTwice => "you and the new version added it with different contents",
            Self::DeletedLocally => "you deleted it, and the new version changed it",
            Self::DeletedUpstream => "you changed it, and the new version deleted it",
            Self::Twin => "another file has this name on some systems",
        }
    }
}

/// Merges the changes from `base` to `local` with the changes from `base` to `new`.
///
/// No file of the result has conflict marks: a file that cannot be merged is in [`Merged::conflicts`].
///
/// # Errors
///
/// A file that both versions changed cannot be read.
pub fn merge(base: Version<'_>, local: Version<'_>, new: Version<'_>) -> Result<Merged, TreeError> {
    let (mut merged, mut effort) = (Merged::default(), Effort::default());
    let paths: BTreeSet<&String> =
        [base, local, new].iter().flat_map(|version| version.tree.files.keys()).collect();
    for path in paths {
        let [b, l, n] = [base, local, new].map(|version| version.tree.files.get(path));
        let outcome = match (b, l, n) {
            (Some(b), Some(l), Some(n)) => merge_file(path, [b, l, n], [base, local, new], &mut effort)?,
            (None, Some(l), Some(n)) if same(l, n) => Outcome::Write(MergedFrom::New, n.is_executable),
            (None, Some(_), Some(_)) => Outcome::Conflict(ConflictKind::AddedTwice),
            (None, Some(l), None) => Outcome::Write(MergedFrom::Local, l.is_executable),
            (None, None, Some(n)) => Outcome::Write(MergedFrom::New, n.is_executable),
            (Some(b), None, Some(n)) if !same(b, n) => Outcome::Conflict(ConflictKind::DeletedLocally),
            (Some(b), Some(l), None) if !same(b, l) => Outcome::Conflict(ConflictKind::DeletedUpstream),
            (Some(_), None, _) | (Some(_), _, None) | (None, None, None) => Outcome::Gone,
        };
        match outcome {
            Outcome::Write(from, is_executable) => {
                // The file differs from the new version only through a local change.
                let is_local = n.is_none_or(|n| n.is_executable != is_executable || from != MergedFrom::New);
                merged.files.insert(path.clone(), MergedFile { from, is_executable });
                if is_local {
                    merged.kept_local.push(path.clone());
                }
            }
            Outcome::Gone if n.is_some() => merged.kept_local.push(path.clone()),
            Outcome::Gone => {}
            Outcome::Conflict(kind) => merged.conflicts.push(Conflict { path: path.clone(), kind }),
        }
    }
    add_twins(&mut merged, local.tree, new.tree);
    Ok(merged)
}

/// What becomes of a file.
enum Outcome {
    Write(MergedFrom, bool),
    Gone,
    Conflict(ConflictKind),
}

fn same(one: &TreeFile, other: &TreeFile) -> bool {
    one.digest == other.digest && one.is_executable == other.is_executable
}

/// Merges a file that all three versions have.
fn merge_file(
    path: &str,
    files: [&TreeFile; 3],
    versions: [Version<'_>; 3],
    effort: &mut Effort,
) -> Result<Outcome, TreeError> {
    let [b, l, n] = files;
    // A mode has two values, so two changes of it are the same change.
    let is_executable = if l.is_executable == b.is_executable { n.is_executable } else { l.is_executable };
    let from = if l.digest == b.digest || l.digest == n.digest {
        MergedFrom::New
    } else if n.digest == b.digest {
        MergedFrom::Local
    } else if files.iter().any(|file| file.size > MAX_MERGE_BYTES) {
        return Ok(Outcome::Conflict(ConflictKind::Binary));
    } else {
        let [b, l, n] = versions.map(|version| version.files.read_file(path, MAX_MERGE_BYTES));
        match lines::merge(&b?, &l?, &n?, effort) {
            Ok(text) => MergedFrom::Both(text),
            Err(kind) => return Ok(Outcome::Conflict(kind)),
        }
    };
    Ok(Outcome::Write(from, is_executable))
}

/// Adds conflicts for paths that only the merge brings together. Twins that one version has already are not new.
fn add_twins(merged: &mut Merged, local: &SkillTree, new: &SkillTree) {
    let paths: Vec<String> = merged.files.keys().cloned().collect();
    let found = twins(paths.iter());
    if found.is_empty() {
        return;
    }
    let known = [local, new].map(|tree| twins(tree.files.keys()));
    for (path, twin) in found {
        if !known.iter().any(|known| known.get(path) == Some(&twin)) {
            let conflict = Conflict { path: path.to_owned(), kind: ConflictKind::Twin };
            merged.conflicts.push(conflict);
        }
    }
    merged.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
}

/// The paths that collide with an earlier path, and that path.
fn twins<'a>(all: impl Iterator<Item = &'a String>) -> BTreeMap<&'a str, String> {
    let mut paths = Paths::default();
    all.filter_map(|path| Some((path.as_str(), paths.add(path).err()?))).collect()
}

#[cfg(test)]
mod tests;
