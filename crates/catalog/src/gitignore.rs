//! `.gitignore` files met on a scan, and those above its root.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ignore::gitignore::Gitignore;

/// The rules in force in a root, by the directory that they stand in.
#[derive(Debug)]
pub(crate) struct Ignores {
    /// Absolute, so that rules above a relative root are found; none when no rules are honoured.
    root: Option<PathBuf>,
    files: RwLock<HashMap<PathBuf, Arc<Gitignore>>>,
}

impl Ignores {
    /// The rules of the directories above `root`, to the top of its repository.
    pub(crate) fn of(root: &Path, enabled: bool) -> Self {
        let root = std::path::absolute(root).ok().filter(|_| enabled);
        let ignores = Self { root: root.clone(), files: RwLock::default() };
        let is_top = |directory: &Path| directory.join(".git").symlink_metadata().is_ok();
        for directory in root.iter().flat_map(|root| root.ancestors()) {
            ignores.load(directory);
            if is_top(directory) {
                break;
            }
        }
        ignores
    }

    /// Takes up the rules of `directory` below the root, if it has some.
    pub(crate) fn enter(&self, directory: &str, has_rules: bool) {
        if let Some(root) = &self.root
            && has_rules
        {
            self.load(&root.join(directory));
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

    /// Whether the directory at `path` below the root is excluded: the nearest rule that speaks of it
    /// decides.
    pub(crate) fn exclude(&self, path: &str) -> bool {
        let Some(root) = &self.root else { return false };
        let path = root.join(path);
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        for directory in path.ancestors().skip(1) {
            let Some(rules) = files.get(directory) else { continue };
            let verdict = rules.matched(&path, true);
            if !verdict.is_none() {
                return verdict.is_ignore();
            }
        }
        false
    }
}
