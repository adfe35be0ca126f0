//! Where installed skills came from, for lists.

use std::collections::HashMap;

use prowess_catalog::skill::MANIFEST;
use prowess_install::installer::Scope;
use prowess_install::lock::OwnLock;
use prowess_install::tree::SkillTree;
use serde::Serialize;

use super::{project, short};
use crate::directories;
use crate::terminal::printable;

/// Where an installed skill came from.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Origin {
    source: String,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    digest: String,
    /// Whether its files are not those of the lock.
    changed: bool,
}

impl Origin {
    /// The origin for a person.
    pub(crate) fn text(&self) -> String {
        let source = self.source.strip_prefix("https://github.com/").unwrap_or(&self.source);
        let source = source.strip_suffix(".git").unwrap_or(source);
        let commit = self.commit.as_deref().map(|commit| format!("@{}", short(commit))).unwrap_or_default();
        let changed = if self.changed { "changed here, " } else { "" };
        format!("{changed}{}{commit}", printable(source))
    }
}

/// The origins of the skills that the locks of the project and the user have, by the locations of their manifests. A lock that
/// cannot be read has none: `prowess verify` says why.
pub(crate) fn origins() -> HashMap<String, Origin> {
    let user = directories::home().map(|home| Scope::User { home, state: None });
    let scopes = project().ok().map(Scope::Project).into_iter().chain(user);
    let mut origins = HashMap::new();
    for scope in scopes {
        let Ok(Some(lock)) = OwnLock::read(&scope.own_lock()) else { continue };
        for (name, locked) in lock.skills {
            let directory = scope.skills().join(name);
            // A link or a device in the skill makes it unreadable, and so changed.
            let changed = match SkillTree::read(&directory) {
                Ok(tree) => tree != locked.tree,
                Err(error) if error.is_absent() => continue,
                Err(_) => true,
            };
            let origin = Origin {
                source: locked.source.clone(),
                reference: locked.reference.clone(),
                commit: locked.commit.clone(),
                digest: locked.tree.digest().to_string(),
                changed,
            };
            origins.insert(directory.join(MANIFEST).to_string_lossy().into_owned(), origin);
        }
    }
    origins
}
