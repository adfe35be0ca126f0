//! `.gitignore` files met on a scan, and those above its root.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ignore::gitignore::Gitignore;

/// The rules in force, by the directory that they stand in.
#[derive(Debug)]
pub(crate) struct Ignores {
    enabled: bool,
    files: RwLock<HashMap<PathBuf, Arc<Gitignore>>>,
}

impl Ignores {
    /// The rules of the directories above `root`, to the top of its repository.
    pub(crate) fn above(root: &Path, enabled: bool) -> Self {
        let ignores = Self { enabled, files: RwLock::default() };
        if enabled {
            for directory in root.ancestors().skip(1) {
                ignores.load(directory);
                if directory.join(".git").symlink_metadata().is_ok() {
                    break;
                }
            }
        }
        ignores
    }

    /// Takes up the rules of `directory`, if it has some.
    pub(crate) fn enter(&self, directory: &str, has_rules: bool) {
        if self.enabled && has_rules {
            self.load(Path::new(directory));
        }
    }

    fn load(&self, directory: &Path) {
        let file = directory.join(".gitignore");
        if file.is_file() {
            // Lines that cannot be understood are left out, as git does.
            let (rules, _) = Gitignore::new(&file);
            self.files
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(directory.to_owned(), Arc::new(rules));
        }
    }

    /// Whether the directory at `path` is excluded: the nearest rule that speaks of it decides.
    pub(crate) fn exclude(&self, path: &str) -> bool {
        if !self.enabled {
            return false;
        }
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        for directory in Path::new(path).ancestors().skip(1) {
            let Some(rules) = files.get(directory) else { continue };
            let verdict = rules.matched(path, true);
            if !verdict.is_none() {
                return verdict.is_ignore();
            }
        }
        false
    }
}
