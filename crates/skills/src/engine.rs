//! What one agent may know of skills, and how it deals with them. It has no state of what is loaded: operations are
//! functions of the state that they are given.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};

use prowess_catalog::{Catalog, CatalogDiff, CatalogView, SkillEntry};
use prowess_permission::{Permissions, quote_name};
use tokio::sync::broadcast;

use crate::delta::{ResourceMetadata, SkillDelta};
use crate::error::SkillError;
use crate::event::SkillEvent;
use crate::known::Known;
use crate::options::{Discovery, Placement, SessionOptions};
use crate::refresh::{Refreshed, told};
use crate::render::FramedText;
use crate::secret::Secret;
use crate::state::{Conflict, SkillState};
use crate::step::{Io, Operation};
use crate::sync::{Mutex, MutexGuard};
use crate::view::SkillView;

/// How many events a slow watcher may be behind before it misses some, and is told so.
const EVENTS: usize = 1024;

/// One agent's skills, without what is loaded: its catalog as its rules let it be known, its options, its permissions and
/// the secret of its conversation.
///
/// Clones are handles on the same. [`SkillEngine::at`] says what can be seen and done in a state; see
/// [`Operation`](crate::Operation) for an example.
#[derive(Clone)]
pub struct SkillEngine(Arc<Inner>);

struct Inner {
    options: SessionOptions,
    permissions: Permissions,
    secret: Secret,
    seen: Mutex<Seen>,
    /// Where watchers hear of changes. It has room for many, and so it is made for the first of them.
    events: OnceLock<broadcast::Sender<SkillEvent>>,
}

/// What was seen of the world, so that it need not be looked at again. None of it is state: all of it can be lost.
struct Seen {
    known: Arc<Known>,
    /// Texts in their frames, by their nonces.
    texts: HashMap<String, Arc<FramedText>>,
    /// Nonces of texts whose documents were written since they were read.
    outdated: BTreeSet<String>,
    /// The files of all skills, with eager discovery.
    resources: Arc<BTreeMap<String, Vec<ResourceMetadata>>>,
    /// The skills that were loaded with what is there of them.
    used: BTreeSet<String>,
}

impl SkillEngine {
    /// All skills of a catalog, with the usual options, rules and a secret of its own.
    pub fn new(catalog: &Catalog) -> Self {
        Self::with(catalog, SessionOptions::default(), Permissions::default(), Secret::random())
    }

    /// The skills of a catalog that these permissions let be known.
    pub fn with(
        catalog: &Catalog,
        options: SessionOptions,
        permissions: Permissions,
        secret: Secret,
    ) -> Self {
        let known = Arc::new(Known::new(catalog, &permissions));
        Self::knowing(known, options, permissions, secret)
    }

    pub(crate) fn knowing(
        known: Arc<Known>,
        options: SessionOptions,
        permissions: Permissions,
        secret: Secret,
    ) -> Self {
        let (texts, outdated) = (HashMap::new(), BTreeSet::new());
        let (resources, used) = (Arc::default(), BTreeSet::new());
        let seen = Mutex::new(Seen { known, texts, outdated, resources, used });
        Self(Arc::new(Inner { options, permissions, secret, seen, events: OnceLock::new() }))
    }

    /// What can be seen and done when this is loaded.
    pub fn at(&self, state: &SkillState) -> SkillView {
        SkillView::new(self.clone(), Arc::new(state.clone()))
    }

    /// The same for a state that is shared.
    pub fn at_shared(&self, state: &Arc<SkillState>) -> SkillView {
        SkillView::new(self.clone(), Arc::clone(state))
    }

    /// How it behaves.
    pub fn options(&self) -> &SessionOptions {
        &self.0.options
    }

    /// What its agent may do.
    pub fn permissions(&self) -> &Permissions {
        &self.0.permissions
    }

    /// What this agent may know of the catalog: skills that are denied to it are not there.
    pub fn catalog_view(&self) -> CatalogView {
        self.known().view.clone()
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.0.secret
    }

    /// What this agent may know, by the policy of now.
    pub(crate) fn known(&self) -> Arc<Known> {
        let policy = self.permissions().policy();
        let mut seen = self.seen();
        if !seen.known.is_under(&policy) {
            seen.known = Arc::new(Known::new(seen.known.view.catalog(), self.permissions()));
        }
        Arc::clone(&seen.known)
    }

    /// Where the text of a skill stands. A server's words are never in the system message.
    pub(crate) fn placement_of(&self, is_servers: bool) -> Placement {
        if is_servers { Placement::ToolAnswer } else { self.options().placement }
    }

    /// Takes a newer catalog, and tells those who watch. Gives what changed in it, as far as this agent may know.
    pub(crate) fn take_catalog(&self, catalog: &Catalog, state: &Arc<SkillState>) -> Refreshed {
        let newer = Arc::new(Known::new(catalog, self.permissions()));
        let diff = {
            let mut seen = self.seen();
            let seen = &mut *seen;
            let older = std::mem::replace(&mut seen.known, newer);
            let mut diff = older.view.catalog().diff(catalog);
            seen.forget(&diff, state);
            // What is denied is not told about, coming or going.
            let is_known = |known: &Known, name: &String| known.view.get(name).is_some();
            diff.added.retain(|name| is_known(&seen.known, name));
            diff.changed.retain(|name| is_known(&seen.known, name));
            diff.removed.retain(|name| is_known(&older, name));
            diff
        };
        let refreshed = Refreshed { diff, stale: self.at_shared(state).stale() };
        if !refreshed.diff.is_empty() {
            let Refreshed { diff, stale } = &refreshed;
            self.tell(|| SkillEvent::Refreshed { diff: diff.clone(), stale: stale.clone() });
        }
        refreshed
    }

    /// Takes a catalog that was made of the one that is known in `of`, unless another one came meanwhile.
    pub(crate) fn take_catalog_of(&self, of: &Arc<Known>, catalog: &Catalog, state: &Arc<SkillState>) {
        let is_newest = Arc::ptr_eq(&self.known(), of);
        if is_newest {
            self.take_catalog(catalog, state);
        }
    }

    /// Every newer catalog from now on, and every change of a session that holds the state.
    pub(crate) fn events(&self) -> broadcast::Receiver<SkillEvent> {
        self.0.events.get_or_init(|| broadcast::channel(EVENTS).0).subscribe()
    }

    /// Tells those who watch, if anybody ever did.
    pub(crate) fn tell(&self, event: impl FnOnce() -> SkillEvent) {
        if let Some(events) = self.0.events.get() {
            // They may have gone.
            let _ = events.send(event());
        }
    }

    /// The text with this nonce, if it was seen.
    pub(crate) fn text(&self, nonce: &str) -> Option<Arc<FramedText>> {
        self.seen().texts.get(nonce).cloned()
    }

    /// Whether the document with this text was written since it was read.
    pub(crate) fn is_outdated(&self, nonce: &str) -> bool {
        self.seen().outdated.contains(nonce)
    }

    /// Keeps texts that were read just now, beside those of all that is loaded in `state`.
    pub(crate) fn keep(&self, state: &SkillState, texts: impl IntoIterator<Item = Arc<FramedText>>) {
        let mut seen = self.seen();
        let seen = &mut *seen;
        seen.texts.retain(|nonce, _| state.has_text(nonce));
        for text in texts {
            seen.outdated.remove(&text.nonce);
            seen.texts.insert(text.nonce.clone(), text);
        }
    }

    /// The resources that eager discovery found.
    pub(crate) fn eager_resources(&self) -> Arc<BTreeMap<String, Vec<ResourceMetadata>>> {
        Arc::clone(&self.seen().resources)
    }

    /// What eager discovery found of a skill, for its first load. One that is loaded again is looked at again.
    pub(crate) fn discovered_for_load(&self, name: &str) -> Option<Vec<ResourceMetadata>> {
        let mut seen = self.seen();
        let found = seen.resources.get(name).cloned()?;
        seen.used.insert(name.to_owned()).then_some(found)
    }

    /// Looks for the resources of all skills whose resources it has not looked for yet, with eager discovery.
    pub(crate) fn discovery(&self) -> Operation<()> {
        let engine = self.clone();
        Operation::new(self, |io| async move { engine.discover(&io).await })
    }

    pub(crate) async fn discover(&self, io: &Io) -> Result<(), SkillError> {
        if self.options().discovery == Discovery::Lazy {
            return Ok(());
        }
        let (known, before) = (self.known(), self.eager_resources());
        let mut found = BTreeMap::new();
        let is_missing = |entry: &&Arc<SkillEntry>| !before.contains_key(entry.skill.name.as_str());
        for entry in known.view.entries().iter().filter(is_missing) {
            let resources = io.resources(entry, self.options().resource_depth).await?;
            found.insert(entry.skill.name.to_string(), told(entry, &resources));
        }
        drop(before);
        let mut seen = self.seen();
        // Whoever brought another catalog meanwhile looks again.
        if Arc::ptr_eq(&seen.known, &known) {
            seen.used.retain(|name| !found.contains_key(name));
            Arc::make_mut(&mut seen.resources).extend(found);
        }
        Ok(())
    }

    /// The state after all of `deltas`, if they fit it and the budgets.
    pub(crate) fn after(&self, state: &SkillState, deltas: &[SkillDelta]) -> Result<SkillState, Conflict> {
        let mut after = state.clone();
        deltas.iter().try_for_each(|delta| after.apply(delta, &self.options().budgets))?;
        Ok(after)
    }

    /// Tells the log of changes.
    pub(crate) fn log(&self, deltas: &[SkillDelta], after: &SkillState) {
        for delta in deltas {
            log(delta, after, self.options().budgets.max_loaded_skills);
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SkillEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillEngine").field("dialect", &self.options().dialect).finish_non_exhaustive()
    }
}

impl Seen {
    /// Forgets what was known of skills that are others now. Their text is read again before it is shown again.
    fn forget(&mut self, diff: &CatalogDiff, state: &SkillState) {
        self.outdated.retain(|nonce| state.has_text(nonce));
        for name in diff.changed.iter().chain(&diff.added) {
            let Some(skill) = state.get(name) else { continue };
            self.texts.remove(&skill.nonce);
            for document in state.documents(name) {
                self.texts.remove(&document.nonce);
            }
            self.outdated.insert(skill.nonce.clone());
        }
        if !self.resources.is_empty() {
            let resources = Arc::make_mut(&mut self.resources);
            for name in diff.changed.iter().chain(&diff.added).chain(&diff.removed) {
                resources.remove(name);
            }
        }
    }
}

fn log(delta: &SkillDelta, after: &SkillState, slots: usize) {
    let skill = delta.skill();
    match delta {
        SkillDelta::Loaded { skill: loaded, resources } => {
            let (resources, tokens) = (resources.len(), loaded.tokens);
            tracing::info!(
                skill,
                resources,
                tokens,
                "Skill {} loaded ({resources} resources discovered)",
                quote_name(skill)
            );
        }
        SkillDelta::Unloaded { reason, .. } => {
            let free = slots.saturating_sub(after.loaded().len());
            tracing::info!(
                skill,
                free,
                slots,
                ?reason,
                "Skill {} unloaded ({free}/{slots} slots available)",
                quote_name(skill)
            );
        }
        SkillDelta::Reloaded { .. } => tracing::info!(skill, "Skill {} loaded again", quote_name(skill)),
        SkillDelta::Selected { documents, .. } => {
            let documents = documents.len();
            tracing::info!(skill, documents, "Documents of skill {} selected", quote_name(skill));
        }
        SkillDelta::DocumentChanged { document, .. } => {
            let kept = document.is_some();
            tracing::info!(skill, kept, "A selected document of skill {} changed", quote_name(skill));
        }
        SkillDelta::Led { .. } => {
            tracing::info!(skill, "Skill {} of a server led to this", quote_name(skill))
        }
        SkillDelta::Offered { .. } => tracing::info!(skill, "Skill {} offered", quote_name(skill)),
    }
}
