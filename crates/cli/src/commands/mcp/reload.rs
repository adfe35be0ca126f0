//! Skills and rules as they are now, for a server that runs for long.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use prowess_catalog::Catalog;
use prowess_mcp::LiveSkills;
use prowess_permission::{Permissions, Policy, RuleSource};

use super::NAME;
use crate::config::{Config, FILE_NAME, user_path};
use crate::directories;
use crate::options::RootArgs;
use crate::skills::Skills;
use crate::terminal::printable;
use crate::workspace_dir::WorkspaceDir;

/// How often it is looked whether somebody changed what is trusted or the configuration.
const EVERY: Duration = Duration::from_millis(500);

/// Looks for skills again as a new start would: what is trusted is found out anew, and so are the rules.
#[derive(Debug)]
pub(super) struct SkillReloader {
    pub(super) places: RootArgs,
    pub(super) permissions: Permissions,
    has_failed: AtomicBool,
    /// The configuration of the project that was last found, whether it is trusted or not.
    project: Mutex<Option<PathBuf>>,
}

impl SkillReloader {
    pub(super) fn new(places: RootArgs, permissions: Permissions, skills: &Skills) -> Arc<Self> {
        let project = Mutex::new(configuration(skills));
        Arc::new(Self { places, permissions, has_failed: AtomicBool::new(false), project })
    }

    /// The skills there are, once the rules are those of now. Where that cannot be found out there are none: what a
    /// project lost the trust for must not stay because something else is wrong, too.
    pub(super) fn again(&self, known: &Catalog) -> Catalog {
        match self.found(known) {
            Ok((catalog, policy)) => {
                self.obey(&policy);
                self.has_failed.store(false, Ordering::Relaxed);
                catalog
            }
            Err(error) => {
                // Told once: it is tried again until it works.
                if !self.has_failed.swap(true, Ordering::Relaxed) {
                    let error = printable(&format!("{error:#}"));
                    // Nothing can be done about an error stream that is closed.
                    let _ = writeln!(
                        anstream::stderr(),
                        "cannot look for skills, so none are served until this is fixed: {error}"
                    );
                }
                Catalog::empty()
            }
        }
    }

    fn found(&self, known: &Catalog) -> Result<(Catalog, Policy)> {
        let skills = self.places.discover_again(known)?;
        *self.project.lock().unwrap_or_else(PoisonError::into_inner) = configuration(&skills);
        let config = Config::load(&skills.configuration()?, &[])?;
        // The rules that guard files stay those of the start.
        Ok((skills.catalog, config.policy(NAME, &WorkspaceDir::default())))
    }

    /// Makes these the rules of all clients.
    fn obey(&self, policy: &Policy) {
        let now = self.permissions.policy();
        for layer in [RuleSource::User, RuleSource::Project, RuleSource::Agent] {
            if now.rules(layer) != policy.rules(layer) {
                self.permissions.set(layer, policy.rules(layer).to_vec());
            }
        }
    }

    /// Looks again whenever what is trusted or a configuration changes, which are in no root of skills, and for as long
    /// as looking fails.
    pub(super) async fn follow(self: Arc<Self>, live: Arc<LiveSkills>) {
        let mut before = self.stamps();
        loop {
            tokio::time::sleep(EVERY).await;
            let now = self.stamps();
            if now == before && !self.has_failed.load(Ordering::Relaxed) {
                continue;
            }
            before = now;
            let (reloader, live) = (Arc::clone(&self), Arc::clone(&live));
            let looked = tokio::task::spawn_blocking(move || {
                let known = live.catalog();
                let catalog = reloader.again(&known);
                if !(known.entries().is_empty() && catalog.entries().is_empty()) {
                    live.put(&catalog);
                }
            });
            if looked.await.is_err() {
                return;
            }
        }
    }

    /// When the files were last written that say what counts, and how long they are.
    fn stamps(&self) -> Vec<Option<(SystemTime, u64)>> {
        let project = self.project.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let trust = directories::state().map(|state| state.join("trust.json"));
        let stamp = |file: Option<PathBuf>| {
            let found = std::fs::metadata(file?).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        [trust, user_path(), project].into_iter().map(stamp).collect()
    }
}

/// Where the project has its configuration, or would have it.
fn configuration(skills: &Skills) -> Option<PathBuf> {
    Some(skills.project.as_ref()?.top().join(FILE_NAME))
}
