//! Search indexes on the disk, from one process to the next.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prowess_base::hex;
use prowess_base::private_files::{PrivateFiles, Room};

use super::index::Index;
use crate::catalog::{Catalog, SkillEntry};
use crate::digest::{Digest, Digester};
use crate::root::Storage;

/// How many skills a catalog must have so that its index is stored. 1,000 real skills take about 13 ms of CPU time to index and 3 ms to load.
/// With fewer skills, an index is built in about the time that a program takes to start.
pub const LEAST_SKILLS: usize = 1_000;
/// The longest stored index, in bytes. That of 10,000 real skills has about 1 MiB.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How much is kept. An index has words of its skills, so it must not outlive them for long.
const ROOM: Room = Room::new(16, 64 * 1024 * 1024).unused_for(Duration::from_secs(30 * 24 * 60 * 60));
/// How the name of a file begins. The rest is a digest of the roots.
const PREFIX: &str = "index-";

/// A directory in which catalogs keep their search indexes, so that the next process need not build them.
///
/// There is one file for each list of roots. It holds the stems of the skills' texts, so the directory must belong to the user
/// alone: otherwise nothing is read or written. At most 16 files are kept, and none that was unused for 30 days. A file is used only if it
/// has the index of exactly these texts and file names. Failures are only logged, because an index can always be built.
///
/// Only catalogs with [`LEAST_SKILLS`] or more are stored, and only if all their roots are on local disks. The skills of a
/// server leave no trace here.
///
/// ```
/// use prowess_catalog::search::IndexCache;
/// use prowess_catalog::{Catalog, Root, ScanOptions};
///
/// # let scratch = tempfile::tempdir()?;
/// # let (directory, root) = (scratch.path().join("cache"), scratch.path().join("skills"));
/// let empty = Catalog::empty().with_index_cache(IndexCache::new(&directory));
/// let catalog = empty.refreshed(&[Root::explicit(&root)], &ScanOptions::default());
/// catalog.view_all().search("invoices"); // loads the index, or builds and stores it
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct IndexCache(PrivateFiles);

impl IndexCache {
    /// A cache in this directory, which the first write creates.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(PrivateFiles::new(directory))
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        self.0.directory()
    }

    /// The index of these skills: the stored one, or a new one, which is then stored.
    fn index_of(&self, name: &str, entries: &[Arc<SkillEntry>]) -> Index {
        let stored = self.0.read(name, MAX_BYTES);
        if let Some(index) = stored.and_then(|bytes| Index::from_bytes(&bytes))
            && index.is_of(entries)
        {
            tracing::debug!(skills = entries.len(), "The search index was loaded");
            return index;
        }
        let (index, is_settled) = Index::build(entries);
        if is_settled && let Err(error) = self.0.write(name, &index.to_bytes(), ROOM) {
            tracing::debug!(%error, directory = %self.directory().display(), "Cannot store the search index");
        }
        index
    }
}

impl fmt::Debug for IndexCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IndexCache").field(&self.directory()).finish()
    }
}

impl Catalog {
    /// The same catalog, which keeps its search index in a cache. So do all catalogs that are made from it.
    #[must_use]
    pub fn with_index_cache(&self, cache: IndexCache) -> Self {
        self.keeping_index_in(Arc::new(cache))
    }

    /// The index of this catalog, loaded or built.
    pub(super) fn new_index(&self) -> Index {
        let entries = self.everything();
        match self.index_cache() {
            Some(cache) if entries.len() >= LEAST_SKILLS && self.is_local() => cache
                .index_of(&format!("{PREFIX}{}", hex::encode(self.digest_of_roots().as_bytes())), &entries),
            _ => Index::build(&entries).0,
        }
    }

    fn is_local(&self) -> bool {
        self.all_roots().all(|root| root.storage == Storage::Local)
    }

    fn digest_of_roots(&self) -> Digest {
        let mut digester = Digester::default();
        for root in self.all_roots() {
            let path = root.path.as_os_str().as_encoded_bytes();
            digester.update(&(path.len() as u64).to_le_bytes());
            digester.update(path);
        }
        digester.digest()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::root::Root;
    use crate::scan::ScanOptions;

    struct Skills {
        scratch: tempfile::TempDir,
    }

    impl Skills {
        fn new(count: usize) -> Self {
            let skills = Self { scratch: tempfile::tempdir().unwrap() };
            for number in 0..count {
                skills.write(&format!("skill-{number}"), "Mends sails.");
            }
            skills
        }

        fn write(&self, name: &str, description: &str) {
            let directory = self.scratch.path().join("skills").join(name);
            fs::create_dir_all(&directory).unwrap();
            let manifest = format!("---\nname: {name}\ndescription: {description}\n---\n");
            fs::write(directory.join("SKILL.md"), manifest).unwrap();
        }

        fn cache(&self) -> IndexCache {
            IndexCache::new(self.scratch.path().join("cache"))
        }

        fn discover(&self) -> Catalog {
            let empty = Catalog::empty().with_index_cache(self.cache());
            empty.refreshed(&[Root::explicit(self.scratch.path().join("skills"))], &ScanOptions::default())
        }

        fn found(&self, words: &str) -> usize {
            self.discover().view_all().search(words).len()
        }

        /// Waits until the directories are old enough, then stores the index.
        fn store(&self) {
            while self.files().is_empty() {
                self.found("sails");
            }
        }

        fn files(&self) -> Vec<PathBuf> {
            let files = fs::read_dir(self.cache().directory()).into_iter().flatten();
            files.map(|entry| entry.unwrap().path()).collect()
        }

        /// Replaces the stored index by one that finds nothing, to see whether it is used.
        fn blind(&self) {
            let file = &self.files()[0];
            let mut index = Index::from_bytes(&fs::read(file).unwrap()).unwrap();
            index.occurrences.clear();
            index.ends.fill(0);
            fs::write(file, index.to_bytes()).unwrap();
        }
    }

    #[test]
    fn a_stored_index_is_used_while_nothing_changes() {
        let skills = Skills::new(LEAST_SKILLS);
        skills.store();
        assert_eq!(skills.files().len(), 1);
        assert_eq!(skills.found("sails"), LEAST_SKILLS);
        skills.blind();
        assert_eq!(skills.found("sails"), 0, "the stored index is used");

        skills.write("skill-7", "Bakes bread.");
        assert_eq!((skills.found("sails"), skills.found("bread")), (LEAST_SKILLS - 1, 1));
        assert_eq!(skills.files().len(), 1, "the same roots have the same file");
    }

    #[test]
    fn a_new_or_renamed_file_is_a_change() {
        let skills = Skills::new(LEAST_SKILLS);
        let directory = skills.scratch.path().join("skills/skill-7");
        fs::create_dir(directory.join("scripts")).unwrap();
        fs::write(directory.join("scripts/rotate.py"), "").unwrap();
        skills.store();
        assert_eq!(skills.found("rotate"), 1);
        fs::rename(directory.join("scripts/rotate.py"), directory.join("scripts/mirror.py")).unwrap();
        assert_eq!((skills.found("rotate"), skills.found("mirror")), (0, 1));
        fs::create_dir(directory.join("assets")).unwrap();
        fs::write(directory.join("assets/letterhead.svg"), "").unwrap();
        fs::write(directory.join("glossary.md"), "").unwrap();
        assert_eq!((skills.found("letterhead"), skills.found("glossary")), (1, 1));
    }

    #[test]
    fn a_file_that_is_damaged_or_writable_by_others_is_replaced() {
        let skills = Skills::new(LEAST_SKILLS);
        skills.store();
        let file = skills.files().remove(0);
        skills.blind();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(skills.found("sails"), LEAST_SKILLS);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let good = fs::read(&file).unwrap();
        fs::write(&file, &good[..good.len() / 2]).unwrap();
        assert_eq!(skills.found("sails"), LEAST_SKILLS);
        assert_eq!(fs::read(&file).unwrap(), good);
        fs::write(&file, good.iter().map(|byte| byte ^ 1).collect::<Vec<_>>()).unwrap();
        assert_eq!(skills.found("sails"), LEAST_SKILLS);
        assert_eq!(fs::read(&file).unwrap(), good);
    }

    #[test]
    fn the_index_of_few_skills_is_not_stored() {
        let skills = Skills::new(LEAST_SKILLS - 1);
        while !Index::build(&skills.discover().everything()).1 {}
        assert_eq!(skills.found("sails"), LEAST_SKILLS - 1);
        assert!(skills.files().is_empty());
    }

    #[test]
    fn the_format_names_the_way_in_which_texts_become_words() {
        let text = "Reviews GitHub's pull-requests; Überprüft Verträge, 数据库 und naïve CamelCaseWords_2.";
        let skills = Skills::new(0);
        skills.write("word-forms", text);
        let index = skills.discover().new_index();
        let words: Vec<&str> = index.vocabulary.words().collect();
        // If this fails because texts become other words than before, change the number in `FORMAT`, too.
        const WORDS: &str = "sha256:ce06d21bc805bfe1df2d1436e0c6a061a0b0b9a55484cf3288ceda83ea1dc876";
        assert_eq!(Digest::of(format!("{words:?} {:?}", index.occurrences).as_bytes()).to_string(), WORDS);
    }
}
