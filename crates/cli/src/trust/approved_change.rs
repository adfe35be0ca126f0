//! Trust after a change that a person approved.
//!
//! A trusted item stays trusted if the only difference is the approved change. The item is read once, after the change.
//! From the same bytes come two digests: the item as it is, and the item as it was before the change. If the second one
//! is trusted, then the first one covers only bytes that a person approved.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use hmac_sha256::Hash;
use prowess_base::hex::encode;

use super::items::{self, Purpose};
use super::status::{ItemStatus, judge};
use super::trust_file::{Record, TrustFile};
use super::{BeforeChange, Item, ItemKind};
use crate::config::FILE_NAME;
use crate::project::Project;

/// A change of one file, which a person approved.
#[derive(Debug)]
pub(crate) struct ApprovedChange {
    /// The real path of the file.
    file: PathBuf,
    /// The same below the project's top.
    path: String,
    /// The digest of the file before the change, if it existed.
    before: Option<[u8; 32]>,
    after: Vec<u8>,
    new_directories: usize,
    new_items: NewItems,
}

/// What happens to an item that the change created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewItems {
    /// A memory file is trusted, because a person has just read all of it.
    Trust,
    /// It is asked about.
    Ask,
}

/// The changed file, as it is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// It has the approved bytes. It had this digest before, if it existed.
    Approved(Option<[u8; 32]>),
    /// It has other bytes.
    Foreign,
}

/// One record that follows the change.
struct Move {
    path: String,
    from: Option<String>,
    to: String,
}

impl ApprovedChange {
    pub(crate) fn new(
        file: PathBuf,
        before: Option<&[u8]>,
        after: Vec<u8>,
        new_directories: usize,
        new_items: NewItems,
    ) -> Self {
        let before = before.map(Hash::hash);
        Self { file, path: String::new(), before, after, new_directories, new_items }
    }

    /// Whether this is the file at `path` below the top.
    pub(super) fn is_of(&self, path: &str) -> bool {
        self.path == path
    }

    /// Whether the change created the directory at `path` below the top.
    pub(super) fn made_directory(&self, path: &str) -> bool {
        let above = Path::new(&self.path).ancestors().skip(1).take(self.new_directories);
        above.into_iter().any(|directory| directory == Path::new(path))
    }

    /// Compares the digest of the file on the disk.
    pub(super) fn judge(&self, digest: &[u8; 32]) -> Changed {
        if *digest == Hash::hash(&self.after) { Changed::Approved(self.before) } else { Changed::Foreign }
    }

    /// Keeps the trust of the items that were trusted before this change. Returns their paths.
    ///
    /// `project` must have been read after the change.
    pub(crate) fn keep_trust(mut self, mut project: Project) -> Result<Vec<String>> {
        let Some(path) = below(&self.file, project.top()) else { return Ok(Vec::new()) };
        self.path = path;
        let Some(file) = TrustFile::of_user() else { return Ok(Vec::new()) };
        let top = project.top().to_owned();
        let record = file.get(&top)?;
        // A chat in another directory may have asked about this file.
        let known = record.as_ref().and_then(|record| record.items.get(&self.path));
        if known.is_some() && known == self.before.map(|digest| encode(&digest)).as_ref() {
            project.add_memory(Path::new(&self.path));
        }
        let remembered = record.iter().flat_map(Record::paths).collect();
        let items = items::find_items(&project, Purpose::Verify(&self), &remembered);
        let moves = self.moves(&items, record.as_ref());
        let Some(top) = top.to_str().filter(|_| !moves.is_empty()) else { return Ok(Vec::new()) };
        let mut kept = Vec::new();
        // The record may have changed meanwhile: what was revoked stays revoked.
        file.change(top, |record| {
            for step in &moves {
                if self.apply(step, record) {
                    kept.push(step.path.clone());
                }
            }
        })?;
        Ok(kept)
    }

    /// The records that follow the change.
    fn moves(&self, items: &BTreeMap<String, Item>, record: Option<&Record>) -> Vec<Move> {
        let as_before = |item: &Item| match &item.before {
            BeforeChange::Digest(digest) => Item { digest: Ok(digest.clone()), ..item.clone() },
            _ => item.clone(),
        };
        let earlier: BTreeMap<String, Item> =
            items.iter().map(|(path, item)| (path.clone(), as_before(item))).collect();
        let judged = judge(&earlier, record);
        let was_trusted =
            |path: &String| judged.get(path).is_some_and(|item| item.status == ItemStatus::Trusted);
        let step = |(path, item): (&String, &Item)| {
            let from = match &item.before {
                BeforeChange::Digest(digest) if was_trusted(path) => Some(digest.clone()),
                BeforeChange::Missing
                    if item.kind == ItemKind::Memory && self.new_items == NewItems::Trust =>
                {
                    None
                }
                _ => return None,
            };
            Some(Move { path: path.clone(), from, to: item.digest.clone().ok()? })
        };
        items.iter().filter_map(step).collect()
    }

    /// Changes a record, unless it is no longer the one that was compared, or the person said no.
    fn apply(&self, step: &Move, record: &mut Record) -> bool {
        let refused = record.refused.get(&step.path);
        let may = match &step.from {
            Some(from) => record.items.get(&step.path) == Some(from) && refused != Some(&step.to),
            None => refused.is_none(),
        };
        if !may {
            return false;
        }
        record.trust(&step.path, &step.to);
        if step.path == FILE_NAME
            && let Ok(text) = std::str::from_utf8(&self.after)
        {
            record.keep_configuration(text);
        }
        true
    }
}

/// The path of a file below a directory, if it is there and valid text.
fn below(file: &Path, top: &Path) -> Option<String> {
    let path = file.strip_prefix(top).ok()?;
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    path.to_str().filter(|path| is_plain && !path.is_empty()).map(ToOwned::to_owned)
}
