//! The trusted entries of roots that are not trusted as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::root::{Root, Trust};

/// Entries of untrusted roots that are trusted one by one.
///
/// An entry is a direct child of a root: a skill, or a directory of skills. Names are compared byte for byte, so `Deploy` is
/// not trusted because `deploy` is.
///
/// ```
/// use prowess_catalog::trusted::TrustedEntries;
/// use prowess_catalog::{Catalog, Root, RootKind, ScanOptions};
///
/// # let scratch = tempfile::tempdir()?;
/// # let path = scratch.path();
/// for name in ["greet", "wave"] {
///     std::fs::create_dir(path.join(name))?;
///     std::fs::write(path.join(name).join("SKILL.md"), format!("---\nname: {name}\ndescription: d\n---\n"))?;
/// }
/// let root = Root::new(path, RootKind::Project, "Project").untrusted();
/// let mut trusted = TrustedEntries::default();
/// trusted.insert(path, "greet");
/// let catalog = Catalog::empty().refreshed_trusting(&[root], &ScanOptions::default(), trusted);
/// assert_eq!(catalog.entries()[0].skill.name.as_str(), "greet");
/// assert_eq!(catalog.untrusted()[0].skill.name.as_str(), "wave");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedEntries(Arc<BTreeMap<PathBuf, BTreeSet<String>>>);

impl TrustedEntries {
    /// Trusts the direct child of `root` with this name.
    pub fn insert(&mut self, root: impl Into<PathBuf>, entry: impl Into<String>) {
        Arc::make_mut(&mut self.0).entry(root.into()).or_default().insert(entry.into());
    }

    /// Whether the direct child of `root` with this name is trusted.
    pub fn contains(&self, root: &Path, entry: &str) -> bool {
        self.0.get(root).is_some_and(|entries| entries.contains(entry))
    }

    /// Whether a skill in `directory` of `root` is trusted, by its root or by its entry.
    pub(crate) fn trust(&self, root: &Root, directory: &str) -> Trust {
        let entry = directory.split('/').next().unwrap_or_default();
        match root.trust {
            Trust::Untrusted if self.contains(&root.path, entry) => Trust::Trusted,
            trust => trust,
        }
    }
}
