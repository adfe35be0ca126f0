//! Skills that change while they are served.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use prowess_catalog::watch::{WatchError, Watcher};
use prowess_catalog::{Catalog, LiveCatalog, RefreshPolicy, Root, ScanOptions};
use prowess_skills::SkillSession;
use tokio::sync::watch;

use crate::overview::{self, Overview};

/// How long nothing may have happened before it is looked again.
const QUIET: Duration = Duration::from_millis(200);

/// The skills that all connections of a server share, as they are now.
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
    /// What clients of one request are told first, each of them.
    overview: Mutex<Option<Overview>>,
}

/// What a client has been told of, in numbers that go up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    /// How often skills came, went or changed.
    pub(crate) skills: u64,
    /// How often anything in their roots did.
    pub(crate) files: u64,
}

/// Keeps [`LiveSkills`] up to date for as long as it lives.
#[derive(Debug)]
pub struct Watching {
    _watcher: Watcher,
}

impl LiveSkills {
    /// Skills that stay as they are until [`LiveSkills::put`] or [`LiveSkills::watch`].
    pub fn new(catalog: Catalog) -> Arc<Self> {
        Arc::new(Self {
            catalog: RwLock::new(catalog),
            version: watch::Sender::new(Version::default()),
            overview: Mutex::default(),
        })
    }

    /// The skills there are now.
    pub fn catalog(&self) -> Catalog {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts newer skills in their place. Every connected client is told, if they are others; otherwise that some of
    /// their files may be.
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

    /// Watches `roots`, and has `look` find the skills again when something in them changed. That is where a host
    /// decides anew what is trusted.
    ///
    /// # Errors
    ///
    /// The roots cannot be watched.
    pub fn watch(
        self: &Arc<Self>,
        roots: Vec<Root>,
        options: ScanOptions,
        look: impl Fn(&Catalog) -> Catalog + Send + 'static,
    ) -> Result<Watching, WatchError> {
        let live = Arc::downgrade(self);
        let host = LiveCatalog::of(self.catalog(), roots, options, RefreshPolicy::OnRequest);
        let is_first = AtomicBool::new(true);
        let watcher = Watcher::start_attentive(Arc::new(host), QUIET, move |diff| {
            let Some(live) = live.upgrade() else { return };
            // The first look is at what is there, and no change.
            if !is_first.swap(false, Ordering::Relaxed) || !diff.is_empty() {
                live.put(&look(&live.catalog()));
            }
        })?;
        Ok(Watching { _watcher: watcher })
    }

    /// What there is to say of skills to a client whose session this is.
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
        let start = || SkillSession::builder(live.catalog()).permissions(permissions.clone()).start();
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
