//! Holds the current catalog, and refreshes it. Nothing else changes a catalog.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::catalog::{Catalog, CatalogDiff};
use crate::root::Root;
use crate::scan::{RootScan, ScanOptions};

/// When a [`LiveCatalog`] scans its roots again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefreshPolicy {
    /// On request, or when a watcher sees a change.
    #[default]
    OnRequest,
    /// Never. The skills stay as they were at the start.
    Never,
}

/// Holds the current catalog of some roots, and returns snapshots.
///
/// A snapshot never changes. A refresh replaces the current catalog by a new one.
///
/// ```
/// use prowess_catalog::{LiveCatalog, RefreshPolicy, Root, ScanOptions};
///
/// # let scratch = tempfile::tempdir()?;
/// # let root = scratch.path();
/// let live = LiveCatalog::new(vec![Root::explicit(root)], ScanOptions::default(), RefreshPolicy::OnRequest);
/// let before = live.snapshot();
///
/// std::fs::create_dir(root.join("greet"))?;
/// std::fs::write(root.join("greet/SKILL.md"), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n")?;
/// assert_eq!(live.refresh().added.len(), 1);
/// assert!(live.snapshot().get("greet").is_some());
/// assert!(before.get("greet").is_none(), "a snapshot stays what it was");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct LiveCatalog {
    settings: RwLock<Settings>,
    current: RwLock<Catalog>,
    /// Held by one refresh at a time, so that none undoes a later one.
    refreshing: Mutex<()>,
    policy: RefreshPolicy,
}

#[derive(Clone, Debug)]
struct Settings {
    roots: Vec<Root>,
    options: ScanOptions,
}

impl LiveCatalog {
    /// Finds the skills in `roots`, given from least to most precedence.
    pub fn new(roots: Vec<Root>, options: ScanOptions, policy: RefreshPolicy) -> Self {
        let current = Catalog::discover(&roots, &options);
        Self::of(current, roots, options, policy)
    }

    /// Starts with an existing catalog of `roots`, made with these options.
    pub fn of(current: Catalog, roots: Vec<Root>, options: ScanOptions, policy: RefreshPolicy) -> Self {
        Self {
            settings: RwLock::new(Settings { roots, options }),
            current: RwLock::new(current),
            refreshing: Mutex::default(),
            policy,
        }
    }

    /// The current catalog.
    pub fn snapshot(&self) -> Catalog {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Scans the roots again, and returns the changes.
    pub fn refresh(&self) -> CatalogDiff {
        match self.policy {
            RefreshPolicy::OnRequest => self.scan(),
            RefreshPolicy::Never => CatalogDiff::default(),
        }
    }

    /// Replaces the roots, and scans them whatever the policy.
    pub fn set_roots(&self, roots: Vec<Root>) -> CatalogDiff {
        self.settings.write().unwrap_or_else(PoisonError::into_inner).roots = roots;
        self.scan()
    }

    /// Replaces the scan of a root. This is how a root in a backend, which must be one of the roots, gets into the catalog.
    pub fn put_scan(&self, scan: RootScan) -> CatalogDiff {
        let _one_at_a_time = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let roots = self.roots();
        let before = self.snapshot();
        let scan = Arc::new(scan);
        let scans = roots.iter().filter_map(|root| {
            if *scan.root == *root { Some(Arc::clone(&scan)) } else { before.shared_scan_of(root).cloned() }
        });
        let after = before.assembled(scans);
        let diff = before.diff(&after);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = after;
        diff
    }

    fn scan(&self) -> CatalogDiff {
        let _one_at_a_time = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let Settings { roots, options } =
            self.settings.read().unwrap_or_else(PoisonError::into_inner).clone();
        let before = self.snapshot();
        let after = before.refreshed(&roots, &options);
        let diff = before.diff(&after);
        if !diff.is_empty() {
            let (added, changed, removed) = (diff.added.len(), diff.changed.len(), diff.removed.len());
            tracing::info!(
                added,
                changed,
                removed,
                "Skills changed: {added} added, {changed} changed, {removed} removed"
            );
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = after;
        diff
    }

    /// The current roots.
    pub fn roots(&self) -> Vec<Root> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).roots.clone()
    }
}
