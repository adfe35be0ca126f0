//! A catalog that changes under a session, and the resources of its skills.

use std::collections::BTreeMap;
use std::sync::Arc;

use prowess_catalog::{Catalog, CatalogDiff, Resources, SkillEntry};
use prowess_permission::quoted;

use crate::delta::ResourceMetadata;
use crate::event::{SkillEvent, Stale, Staleness};
use crate::known::Known;
use crate::options::Discovery;
use crate::session::{Shared, SkillSession};

/// What a refresh came to.
///
/// ```
/// use prowess_skills::{SkillSession, Staleness};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let session = SkillSession::builder(catalog).start().await;
/// session.load("greet", None).await?;
/// std::fs::remove_dir_all(scratch.path().join("greet"))?;
/// let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let refreshed = session.refresh(&catalog).await;
/// assert_eq!(refreshed.diff.removed, ["greet"]);
/// assert_eq!(refreshed.stale[0].why, Staleness::Gone);
/// assert!(session.state().get("greet").is_some(), "what is loaded stays loaded");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refreshed {
    /// What changed in the catalog.
    pub diff: CatalogDiff,
    /// Loaded skills that are not what they were.
    pub stale: Vec<Stale>,
}

impl SkillSession {
    /// Goes on with a newer snapshot. Loaded skills stay loaded; what became of those that changed is in
    /// the answer, and [`SkillSession::stale`] keeps saying it.
    pub async fn refresh(&self, catalog: &Catalog) -> Refreshed {
        let newer = Arc::new(Known::new(catalog, self.permissions()));
        let refreshed = {
            let mut shared = self.lock();
            let shared = &mut *shared;
            let older = std::mem::replace(&mut shared.known, newer);
            let mut diff = older.view.catalog().diff(catalog);
            shared.forget(&diff);
            // What is denied is not told about, coming or going.
            let is_known = |known: &Known, name: &String| known.view.get(name).is_some();
            diff.added.retain(|name| is_known(&shared.known, name));
            diff.changed.retain(|name| is_known(&shared.known, name));
            diff.removed.retain(|name| is_known(&older, name));
            let refreshed = Refreshed { stale: shared.stale(), diff };
            if !refreshed.diff.is_empty() {
                let Refreshed { diff, stale } = &refreshed;
                self.tell(|| SkillEvent::Refreshed { diff: diff.clone(), stale: stale.clone() });
            }
            refreshed
        };
        self.discover_eagerly().await;
        refreshed
    }

    /// Loaded skills that the catalog no longer has as they were.
    pub fn stale(&self) -> Vec<Stale> {
        self.known();
        self.lock().stale()
    }

    /// The resources that eager discovery found.
    pub(crate) fn eager_resources(&self) -> Arc<BTreeMap<String, Vec<ResourceMetadata>>> {
        Arc::clone(&self.lock().resources)
    }

    /// What eager discovery knows of a skill that is to be loaded. One that was unloaded is looked at again.
    pub(crate) fn known_resources(&self, name: &str) -> Option<Vec<ResourceMetadata>> {
        let shared = self.lock();
        if shared.unloaded.contains(name) { None } else { shared.resources.get(name).cloned() }
    }

    pub(crate) async fn discover_eagerly(&self) {
        if self.options().discovery == Discovery::Lazy {
            return;
        }
        let known = self.known();
        let before = self.eager_resources();
        let mut found = BTreeMap::new();
        for entry in known.view.entries() {
            let name = entry.skill.name.as_str();
            if !before.contains_key(name) {
                let resources = self.files().resources(entry, self.options().resource_depth).await;
                found.insert(name.to_owned(), told(entry, &resources));
            }
        }
        drop(before);
        let mut shared = self.lock();
        // What was found belongs to this snapshot; whoever brought another one looks again.
        if Arc::ptr_eq(&shared.known, &known) {
            Arc::make_mut(&mut shared.resources).extend(found);
        }
    }
}

impl Shared {
    /// Forgets what was known of skills that are others now. Their text is read again before it is shown
    /// again.
    fn forget(&mut self, diff: &CatalogDiff) {
        for name in diff.changed.iter().chain(&diff.added) {
            self.texts.remove(name);
            if self.state.get(name).is_some() {
                self.changed.insert(name.clone());
            }
        }
        if !self.resources.is_empty() {
            let resources = Arc::make_mut(&mut self.resources);
            for name in diff.changed.iter().chain(&diff.added).chain(&diff.removed) {
                resources.remove(name);
            }
        }
    }

    pub(crate) fn stale(&self) -> Vec<Stale> {
        let why = |skill: &crate::delta::LoadedSkill| match self.known.view.get(&skill.name) {
            None => Some(Staleness::Gone),
            Some(entry) if entry.skill.location != skill.location => Some(Staleness::Replaced),
            Some(_) => self.changed.contains(&skill.name).then_some(Staleness::Changed),
        };
        let loaded = self.state.loaded().iter();
        loaded.filter_map(|skill| Some(Stale { name: skill.name.clone(), why: why(skill)? })).collect()
    }
}

/// The files of a skill in the form that state keeps. What could not be listed is left out, with a warning.
pub(crate) fn told(entry: &SkillEntry, resources: &Resources) -> Vec<ResourceMetadata> {
    let skill = entry.skill.name.as_str();
    for diagnostic in &resources.diagnostics {
        tracing::warn!(
            skill,
            path = %diagnostic.file,
            "Failed to list resources for skill {}: {diagnostic}",
            quoted(skill)
        );
    }
    let directory = entry.skill.location.directory().trim_end_matches('/');
    let metadata = |path: String, kind| ResourceMetadata { path, kind, skill_name: skill.to_owned() };
    resources.files.iter().map(|file| metadata(format!("{directory}/{}", file.path), file.kind)).collect()
}
