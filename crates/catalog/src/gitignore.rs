//! `.gitignore` files met on a scan, and those above its root.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::local::{self, Follow};

/// What lies beyond so many bytes of a `.gitignore` has no effect; real ones have a few hundred.
const MAX_RULES: usize = 64 * 1024;
/// Files of rules beyond so many bytes in one scan have no effect: compiled they take fifty times that.
const MAX_ALL_RULES: usize = 512 * 1024;

/// The rules in force in a root, by the directory that they stand in.
#[derive(Debug)]
pub(crate) struct Ignores {
    /// Absolute, so that rules above a relative root are found; none when no rules are honoured.
    root: Option<PathBuf>,
    files: RwLock<HashMap<PathBuf, Arc<Gitignore>>>,
    /// How many bytes of rules are in force.
    bytes: AtomicUsize,
}

impl Ignores {
    /// The rules of the directories above `root`, to the top of its repository; none if it is in no
    /// repository.
    pub(crate) fn of(root: &Path, enabled: bool) -> Self {
        let root = std::path::absolute(root).ok().filter(|_| enabled);
        let ignores = Self { root: root.clone(), files: RwLock::default(), bytes: AtomicUsize::new(0) };
        let is_top = |directory: &&Path| directory.join(".git").symlink_metadata().is_ok();
        if let Some(root) = &root {
            let top = root.ancestors().position(|directory| is_top(&directory));
            for directory in root.ancestors().take(top.map_or(1, |top| top + 1)) {
                ignores.load(directory);
            }
        }
        ignores
    }

    /// No rules yet, for a root that is on no disk.
    pub(crate) fn given(enabled: bool) -> Self {
        let root = enabled.then(|| PathBuf::from("/"));
        Self { root, files: RwLock::default(), bytes: AtomicUsize::new(0) }
    }

    /// Takes up the rules of `directory` below the root, if it has some.
    pub(crate) fn enter(&self, directory: &str, has_rules: bool) {
        if let Some(root) = &self.root
            && has_rules
        {
            self.load(&root.join(directory));
        }
    }

    /// Takes up these rules of `directory` below the root.
    pub(crate) fn enter_with(&self, directory: &str, rules: &[u8]) {
        if let Some(root) = &self.root {
            self.take_up(&root.join(directory), rules);
        }
    }

    fn load(&self, directory: &Path) {
        if let Some(bytes) = read(directory) {
            self.take_up(directory, &bytes);
        }
    }

    fn take_up(&self, directory: &Path, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(MAX_RULES)];
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches('\u{FEFF}');
        if self.bytes.fetch_add(text.len(), Ordering::Relaxed) + text.len() > MAX_ALL_RULES {
            tracing::warn!(directory = %directory.display(), "More rules than are honoured in one scan");
            return;
        }
        let mut rules = GitignoreBuilder::new(directory);
        for line in text.lines() {
            // Lines that cannot be understood are left out, as git does.
            let _ = rules.add_line(None, line);
        }
        if let Ok(rules) = rules.build() {
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

/// The rules in a directory: a regular file that is no link, as far as [`MAX_RULES`] goes.
fn read(directory: &Path) -> Option<Vec<u8>> {
    let directory = local::open_directory(directory).ok()?;
    let (file, stamp) = local::open_file(directory.as_fd(), ".gitignore", Follow::Never).ok()?;
    let mut bytes = vec![0; MAX_RULES];
    let read = local::read_up_to(&file, stamp.size, &mut bytes).ok()?;
    bytes.truncate(read);
    Some(bytes)
}
