//! Reloads skills and rules while a server runs.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use prowess_catalog::{Catalog, ScanOptions};
use prowess_mcp::LiveSkills;
use prowess_permission::{Permissions, Policy, RuleSource};

use super::NAME;
use crate::config::{Config, FILE_NAME, user_path};
use crate::directories;
use crate::options::RootArgs;
use crate::skills::Skills;
use crate::terminal::printable;
use crate::workspace_dir::WorkspaceDir;

/// How often trust and configuration are checked for changes.
const EVERY: Duration = Duration::from_millis(500);

/// Looks for skills again as a new start would, with the current trust and rules.
#[derive(Debug)]
pub(super) struct SkillReloader {
    pub(super) root_args: RootArgs,
    pub(super) permissions: Permissions,
    has_failed: AtomicBool,
    /// The path of the project's configuration, trusted or not.
    project: Mutex<Option<PathBuf>>,
}

impl SkillReloader {
    pub(super) fn new(root_args: RootArgs, permissions: Permissions, skills: &Skills) -> Arc<Self> {
        let project = Mutex::new(configuration(skills));
        Arc::new(Self { root_args, permissions, has_failed: AtomicBool::new(false), project })
    }

    /// Applies the current rules and returns the current skills. If that fails there are no skills: a skill that lost its
    /// trust must not stay because something else is wrong.
    pub(super) fn again(&self, known: &Catalog) -> Catalog {
        match self.found(known) {
            Ok((catalog, policy)) => {
                self.apply_rules(&policy);
                self.has_failed.store(false, Ordering::Relaxed);
                catalog
            }
            Err(error) => {
                // Said once; it is tried again until it works.
                if !self.has_failed.swap(true, Ordering::Relaxed) {
                    let error = printable(&format!("{error:#}"));
                    // Nothing can be done about an error stream that is closed.
                    let _ = writeln!(
                        anstream::stderr(),
                        "cannot look for skills, so none are served until this is fixed: {error}"
                    );
                }
                known.refreshed(&[], &ScanOptions::default())
            }
        }
    }

    fn found(&self, known: &Catalog) -> Result<(Catalog, Policy)> {
        let skills = self.root_args.discover_again(known)?;
        *self.project.lock().unwrap_or_else(PoisonError::into_inner) = configuration(&skills);
        let config = Config::load(&skills.configuration()?, &[])?;
        // The rules that protect files stay those of the start.
        Ok((skills.catalog, config.policy(NAME, &WorkspaceDir::default())))
    }

    /// Applies rules to all clients.
    fn apply_rules(&self, policy: &Policy) {
        let now = self.permissions.policy();
        for source in [RuleSource::User, RuleSource::Project, RuleSource::Agent] {
            if now.rules_of(source) != policy.rules_of(source) {
                self.permissions.set(source, policy.rules_of(source).to_vec());
            }
        }
    }

    /// Reloads whenever trust or a configuration changes, which no watched root contains, and as long as reloading fails.
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

    /// The modification times and sizes of the trust file and the configurations.
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

/// The path of the project's configuration, which may not exist.
fn configuration(skills: &Skills) -> Option<PathBuf> {
    Some(skills.project.as_ref()?.top().join(FILE_NAME))
}
