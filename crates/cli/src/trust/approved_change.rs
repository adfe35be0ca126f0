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

#[cfg(test)]
mod tests {
    use std::fs;

    use prowess_catalog::{Environment, RootLayout};

    use super::*;

    const SKILL: &str = ".prowess/skills/kites";

    /// A project in a directory that is removed at the end.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(place.0.path().join(".git")).unwrap();
            place.file(&format!("{SKILL}/SKILL.md"), "old");
            place.file(&format!("{SKILL}/other.md"), "other");
            place
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn project(&self) -> Project {
            let mut environment = Environment::default();
            environment.working_directory = self.0.path().to_owned();
            Project::around(&environment, &RootLayout::default()).unwrap()
        }

        /// A record that trusts everything as it is.
        fn record(&self) -> Record {
            let mut record = Record::new("");
            for (path, item) in items::find_items(&self.project(), Purpose::Compare, &Default::default()) {
                record.trust(&path, &item.digest.unwrap());
            }
            record
        }

        /// The items whose records follow a change, with what they are now.
        fn moved(&self, change: &ApprovedChange, record: &Record) -> Vec<String> {
            let items = items::find_items(&self.project(), Purpose::Verify(change), &Default::default());
            let moves = change.moves(&items, Some(record));
            let now = items::find_items(&self.project(), Purpose::Compare, &Default::default());
            for step in &moves {
                assert_eq!(Ok(&step.to), now[&step.path].digest.as_ref(), "it is the digest of the disk");
            }
            moves.into_iter().map(|step| step.path).collect()
        }
    }

    fn change(path: &str, before: Option<&str>, after: &str, new_directories: usize) -> ApprovedChange {
        let before = before.map(str::as_bytes);
        let change =
            ApprovedChange::new(PathBuf::new(), before, after.into(), new_directories, NewItems::Trust);
        ApprovedChange { path: path.to_owned(), ..change }
    }

    #[test]
    fn only_the_approved_bytes_move_a_record() {
        let manifest = format!("{SKILL}/SKILL.md");
        let approved = change(&manifest, Some("old"), "new", 0);
        type Foreign = fn(&Place);
        let cases: [(Foreign, &[&str]); 6] = [
            (|_| {}, &[SKILL]),
            // Somebody wrote after the tool did.
            (|place| place.file(&format!("{SKILL}/SKILL.md"), "evil"), &[]),
            (|place| place.file(&format!("{SKILL}/other.md"), "evil"), &[]),
            (|place| place.file(&format!("{SKILL}/more.md"), "evil"), &[]),
            (|place| fs::remove_file(place.0.path().join(format!("{SKILL}/other.md"))).unwrap(), &[]),
            // Another item does not count.
            (|place| place.file(".prowess/skills/boats/SKILL.md", "evil"), &[SKILL]),
        ];
        for (foreign, moved) in cases {
            let place = Place::new();
            let record = place.record();
            place.file(&manifest, "new");
            foreign(&place);
            assert_eq!(place.moved(&approved, &record), moved);
        }
        // The tool changed something else than what was trusted.
        let place = Place::new();
        let record = place.record();
        place.file(&manifest, "new");
        assert!(place.moved(&change(&manifest, Some("other"), "new", 0), &record).is_empty());
    }

    #[test]
    fn new_files_count_with_the_directories_that_they_needed() {
        let path = format!("{SKILL}/a/b/c.md");
        for (directories, more, moved) in [(2, None, true), (1, None, false), (2, Some("a/evil.md"), false)] {
            let place = Place::new();
            let record = place.record();
            place.file(&path, "new");
            if let Some(more) = more {
                place.file(&format!("{SKILL}/{more}"), "evil");
            }
            let moves = place.moved(&change(&path, None, "new", directories), &record);
            assert_eq!(!moves.is_empty(), moved, "{directories} {more:?}");
        }
    }

    #[test]
    fn a_record_that_changed_meanwhile_stays() {
        let change = change("AGENTS.md", Some("old"), "new", 0);
        let step = Move { path: "AGENTS.md".to_owned(), from: Some("1".to_owned()), to: "2".to_owned() };
        let mut record = Record::new("");
        assert!(!change.apply(&step, &mut record), "revoked");
        record.trust("AGENTS.md", "3");
        assert!(!change.apply(&step, &mut record), "trusted with other bytes");
        record.trust("AGENTS.md", "1");
        record.refused.insert("AGENTS.md".to_owned(), "2".to_owned());
        assert!(!change.apply(&step, &mut record), "the person said no to these bytes");
        record.refused.clear();
        assert!(change.apply(&step, &mut record));
        assert_eq!(record.items["AGENTS.md"], "2");
    }
}
