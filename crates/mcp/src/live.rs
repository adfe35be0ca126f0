//! The skills that a server serves, kept up to date while they change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use prowess_catalog::watch::{RootWatcher, WatchError};
use prowess_catalog::{Catalog, LiveCatalog, RefreshPolicy, Root, ScanOptions};
use prowess_skills::SkillSession;
use tokio::sync::watch;

use crate::overview::{self, Overview};

/// How long the roots must be quiet before the skills are searched again.
const QUIET: Duration = Duration::from_millis(200);

/// The current skills, which all clients of a server share.
///
/// ```
/// use prowess_catalog::{Catalog, Root, ScanOptions};
/// use prowess_mcp::LiveSkills;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// let roots = vec![Root::explicit(scratch.path())];
/// let options = ScanOptions::default();
/// let live = LiveSkills::new(Catalog::discover(&roots, &options));
/// let (again, how) = (roots.clone(), options.clone());
/// let _watching = live.watch(roots, options, move |known| known.refreshed(&again, &how))?;
/// assert!(live.catalog().entries().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LiveSkills {
    catalog: RwLock<Catalog>,
    version: watch::Sender<Version>,
    /// The overview for clients that have loaded nothing.
    overview: Mutex<Option<Overview>>,
}

/// Counts the changes of skills and files, so that a client can be told about new ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    /// How often a skill was added, removed or changed.
    pub(crate) skills: u64,
    /// How often anything in their roots changed.
    pub(crate) files: u64,
}

/// Keeps [`LiveSkills`] up to date until it is dropped.
#[derive(Debug)]
pub struct Watching {
    _watcher: RootWatcher,
}

impl LiveSkills {
    /// The skills of this catalog, until [`LiveSkills::put`] or [`LiveSkills::watch`] changes them.
    pub fn new(catalog: Catalog) -> Arc<Self> {
        Arc::new(Self {
            catalog: RwLock::new(catalog),
            version: watch::Sender::new(Version::default()),
            overview: Mutex::default(),
        })
    }

    /// The current skills.
    pub fn catalog(&self) -> Catalog {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the skills. Every connected client hears that the skills changed, or that some of their files may have.
    pub fn put(&self, newer: &Catalog) {
        let older = {
            let mut current = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, newer.clone())
        };
        let has_changed = !older.diff(newer).is_empty();
        self.version.send_modify(|version| {
            version.skills += u64::from(has_changed);
            version.files += 1;
        });
    }

    /// Watches `roots`, and calls `search` to find the skills again when something in the roots changes. In `search`, your
    /// program decides again what is trusted.
    ///
    /// # Errors
    ///
    /// The roots cannot be watched.
    pub fn watch(
        self: &Arc<Self>,
        roots: Vec<Root>,
        options: ScanOptions,
        search: impl Fn(&Catalog) -> Catalog + Send + 'static,
    ) -> Result<Watching, WatchError> {
        let live = Arc::downgrade(self);
        let catalog = LiveCatalog::of(self.catalog(), roots, options, RefreshPolicy::OnRequest);
        let is_first = AtomicBool::new(true);
        let watcher = RootWatcher::start_attentive(Arc::new(catalog), QUIET, move |diff| {
            let Some(live) = live.upgrade() else { return };
            // The first search finds the existing skills, which is no change.
            if !is_first.swap(false, Ordering::Relaxed) || !diff.is_empty() {
                live.put(&search(&live.catalog()));
            }
        })?;
        Ok(Watching { _watcher: watcher })
    }

    /// The overview for the client with this session.
    pub(crate) fn overview(&self, session: &SkillSession) -> String {
        let kept = || self.overview.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept().as_ref().filter(|known| known.is_of(session)) {
            return known.text.to_string();
        }
        match Overview::of(session) {
            Some(new) => kept().insert(new).text.to_string(),
            None => overview::text(session),
        }
    }

    pub(crate) fn versions(&self) -> watch::Receiver<Version> {
        self.version.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};

    #[tokio::test]
    async fn an_overview_is_kept_for_as_long_as_it_is_one() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["tides", "kites"] {
            let directory = scratch.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            let text = format!("---\nname: {name}\ndescription: Knows {name}.\n---\nDo it.\n");
            std::fs::write(directory.join("SKILL.md"), text).unwrap();
        }
        let (roots, options) = ([Root::explicit(scratch.path())], ScanOptions::default());
        let live = LiveSkills::new(Catalog::discover(&roots, &options));
        let permissions = Permissions::unattended(Policy::new());
        let start = || SkillSession::builder(live.catalog()).permissions(permissions.clone()).build();
        let kept = || live.overview.lock().unwrap().as_ref().map(|kept| Arc::as_ptr(&kept.text)).unwrap();
        let session = start().await;
        let first = live.overview(&session);
        assert!(first.contains("tides") && first.contains("kites"), "{first}");
        let text = kept();
        assert_eq!(live.overview(&start().await), first);
        assert_eq!(kept(), text, "it was not made again");

        session.load("tides", None).await.unwrap();
        assert_eq!(live.overview(&session), overview::text(&session));
        permissions.set(RuleSource::User, vec![Rule::new("skill", "tides", Decision::Deny)]);
        let denied = live.overview(&start().await);
        assert!(!denied.contains("tides") && denied.contains("kites"), "{denied}");

        std::fs::remove_dir_all(scratch.path().join("kites")).unwrap();
        live.put(&live.catalog().refreshed(&roots, &options));
        assert!(!live.overview(&start().await).contains("kites"));
    }
}
