//! Keeps trusted files trusted when the person approves a change of them.

use std::path::Path;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use prowess_agent::middleware::{ChangeAllowed, ChangeWatcher, FileChange};
use prowess_catalog::{Environment, RootLayout};
use prowess_permission::{Granted, Rule, RuleSource};

use super::questions::UnseenChanges;
use super::turn::Approver;
use crate::project::Project;
use crate::trust::{ApprovedChange, NewItems};

/// Updates the trust file after each approved change by the file tools.
///
/// A reply to the question counts, also by `--yes`, but not if the question showed only the start of the text. So do an earlier "always" for the file, and a rule of the user that names
/// the file. Rules of the project, rules for many files and `allowed-tools` of skills let the change happen, but the file is
/// then asked about as after any other change.
#[derive(Debug)]
pub(super) struct KeptTrust {
    approver: Approver,
    unseen: UnseenChanges,
}

impl KeptTrust {
    pub(super) fn new(approver: Approver, unseen: UnseenChanges) -> Self {
        Self { approver, unseen }
    }

    /// Whether the change counts as approved, and what that means for a new file.
    fn approval(&self, change: &FileChange) -> Option<NewItems> {
        // What a person did not see is not approved for later conversations.
        if self.unseen.has(&change.path) {
            return None;
        }
        match &change.allowed {
            // Only a person reads a new file.
            ChangeAllowed::Granted(Granted::Once | Granted::Always) => Some(match self.approver {
                Approver::Person => NewItems::Trust,
                Approver::Yes | Approver::Nobody => NewItems::Ask,
            }),
            ChangeAllowed::Granted(Granted::Remembered) => Some(NewItems::Ask),
            ChangeAllowed::Rule(RuleSource::User, rule) if names(rule, &change.path) => Some(NewItems::Ask),
            _ => None,
        }
    }
}

/// Whether the pattern of a rule ends with the name of the file. `*` or `docs/*` does not name it.
fn names(rule: &Rule, file: &Path) -> bool {
    let last = rule.pattern.as_str().rsplit('/').next();
    last.is_some() && last == file.file_name().and_then(|name| name.to_str())
}

#[async_trait]
impl ChangeWatcher for KeptTrust {
    async fn changed(&self, change: FileChange) {
        let Some(new_items) = self.approval(&change) else { return };
        let FileChange { path, before, after, new_directories, .. } = change;
        let change = ApprovedChange::new(path, before.as_deref(), after.to_vec(), new_directories, new_items);
        let kept = tokio::task::spawn_blocking(move || keep(change)).await;
        // Without a record, the file is asked about.
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, "Could not save that a changed file is trusted");
        }
    }
}

fn keep(change: ApprovedChange) -> Result<Vec<String>> {
    let environment = Environment::of_process().context("the working directory cannot be read")?;
    match Project::around(&environment, &RootLayout::default()) {
        Some(project) => change.keep_trust(project),
        None => Ok(Vec::new()),
    }
}
