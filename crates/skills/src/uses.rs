//! The use of skills: what a host remembers of it, and the order of the overview that follows from it.

use std::fmt;
use std::sync::Arc;

use prowess_catalog::{CatalogView, SkillEntry};
use serde::{Deserialize, Serialize};

use crate::engine::SkillEngine;

/// A skill that was used. It is bound to its root: a skill of the same name in another root is not meant.
///
/// ```
/// use prowess_catalog::{Catalog, Root, ScanOptions};
/// use prowess_skills::uses::UsedSkill;
///
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let used = UsedSkill::of(&catalog.entries()[0]);
/// assert_eq!(used.name, "greet");
/// assert!(used.root.starts_with("/"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UsedSkill {
    /// Its name.
    pub name: String,
    /// The path of its root; for a server, its label and a colon.
    pub root: String,
}

impl UsedSkill {
    /// The skill of this entry.
    pub fn of(entry: &SkillEntry) -> Self {
        Self { name: entry.skill.name.to_string(), root: entry.root.path.to_string_lossy().into_owned() }
    }
}

/// Remembers which skills are used, so that the overview shows them before others.
///
/// Both methods are called while a session works, so they must return at once.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use prowess_catalog::SkillEntry;
/// use prowess_skills::uses::{SkillUses, UsedSkill};
/// use prowess_skills::{SessionOptions, SkillSession};
///
/// #[derive(Debug, Default)]
/// struct InMemory(Mutex<Vec<UsedSkill>>);
///
/// impl SkillUses for InMemory {
///     fn note(&self, entry: &SkillEntry) {
///         self.0.lock().unwrap().insert(0, UsedSkill::of(entry));
///     }
///
///     fn recent(&self) -> Vec<UsedSkill> {
///         self.0.lock().unwrap().clone()
///     }
/// }
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # for name in ["dance", "greet"] {
/// #     std::fs::create_dir(scratch.path().join(name))?;
/// #     let manifest = format!("---\nname: {name}\ndescription: Does what its name says.\n---\nDo it.\n");
/// #     std::fs::write(scratch.path().join(name).join("SKILL.md"), manifest)?;
/// # }
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let uses = Arc::new(InMemory::default());
/// let mut options = SessionOptions::default();
/// options.uses = Some(uses.clone());
/// let session = SkillSession::builder(catalog.clone()).options(options.clone()).build().await;
/// session.load("greet", None).await?;
///
/// // The next session lists it first.
/// let session = SkillSession::builder(catalog).options(options).build().await;
/// assert!(session.view().overview().text.starts_with("- **greet**"));
/// # Ok(())
/// # }
/// ```
pub trait SkillUses: fmt::Debug + Send + Sync {
    /// Notes that a skill was loaded or run.
    fn note(&self, entry: &SkillEntry);

    /// The skills that were used recently, the last one first. A session asks once when it needs its first overview, and again
    /// whenever it freezes its prompt.
    fn recent(&self) -> Vec<UsedSkill>;
}

impl SkillEngine {
    /// Notes that the skill called `name` was used. A load and a run note it themselves; call this if a sub-agent follows the
    /// skill.
    pub fn note_use(&self, name: &str) {
        let Some(uses) = &self.options().uses else { return };
        if let Some(entry) = self.visible().view.get(name) {
            uses.note(entry);
        }
    }

    /// Asks for the recently used skills again.
    pub(crate) fn read_recent(&self) -> Arc<[UsedSkill]> {
        let recent = self.options().uses.as_ref().map(|uses| uses.recent()).unwrap_or_default();
        self.keep_recent(recent.into())
    }

    /// The recently used skills, as they were when somebody asked first.
    pub fn recent(&self) -> Arc<[UsedSkill]> {
        self.kept_recent().unwrap_or_else(|| self.read_recent())
    }
}

/// The names of those skills that a view has, from the same roots.
pub(crate) fn names_in<'a>(recent: &'a [UsedSkill], view: &CatalogView) -> Vec<&'a str> {
    let is_same = |used: &&UsedSkill| {
        let entry = view.get(&used.name);
        entry.is_some_and(|entry| entry.root.path.to_string_lossy() == used.root)
    };
    recent.iter().filter(is_same).map(|used| used.name.as_str()).collect()
}
