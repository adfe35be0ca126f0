//! The `.gitignore` files in a root, and those above it.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::local::{self, Follow};

/// How many bytes of a `.gitignore` have effect. Real files have a few hundred.
const MAX_RULES: usize = 64 * 1024;
/// How many bytes of rules have effect in one scan. Compiled rules take fifty times as much memory.
const MAX_ALL_RULES: usize = 512 * 1024;

/// The active rules of a root, by directory.
#[derive(Debug)]
pub(crate) struct Ignores {
    /// The absolute path of the root, so that rules above a relative root are found. `None` if rules are off.
    root: Option<PathBuf>,
    files: RwLock<HashMap<PathBuf, Arc<Gitignore>>>,
    /// How many bytes of rules are active.
    bytes: AtomicUsize,
}

impl Ignores {
    /// The rules of the directories above `root`, up to the top of its repository.
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

    /// No rules yet, for a root that is not on a disk.
    pub(crate) fn given(enabled: bool) -> Self {
        let root = enabled.then(|| PathBuf::from("/"));
        Self { root, files: RwLock::default(), bytes: AtomicUsize::new(0) }
    }

    /// Activates the rules of `directory` below the root, if it has some.
    pub(crate) fn enter(&self, directory: &str, has_rules: bool) {
        if let Some(root) = &self.root
            && has_rules
        {
            self.load(&root.join(directory));
        }
    }

    /// Activates these rules for `directory` below the root.
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
            tracing::warn!(directory = %directory.display(), "This scan has too many .gitignore rules; those of this directory have no effect");
            return;
        }
        let mut rules = GitignoreBuilder::new(directory);
        for line in text.lines() {
            // Ignore invalid lines, as git does.
            let _ = rules.add_line(None, line);
        }
        if let Ok(rules) = rules.build() {
            self.files
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(directory.to_owned(), Arc::new(rules));
        }
    }

    /// Whether the rules exclude the directory at `path` below the root. The nearest matching rule decides.
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

/// Reads the rules of a directory from a regular file that is not a link, up to [`MAX_RULES`].
fn read(directory: &Path) -> Option<Vec<u8>> {
    let directory = local::open_directory(directory).ok()?;
    let (file, stamp) = local::open_file(directory.as_fd(), ".gitignore", Follow::Never).ok()?;
    let mut bytes = vec![0; MAX_RULES];
    let read = local::read_up_to(&file, stamp.size, &mut bytes).ok()?;
    bytes.truncate(read);
    Some(bytes)
}
