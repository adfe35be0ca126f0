//! The engine: visible skills, options, permissions and a secret. It has no state: each operation gets the state that it
//! works on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};

use prowess_catalog::overview::ManualSkills;
use prowess_catalog::{Catalog, CatalogDiff, CatalogView, SkillEntry};
use prowess_permission::{Permissions, quote_name};
use tokio::sync::broadcast;

use crate::delta::{ResourceMetadata, SkillDelta};
use crate::error::SkillError;
use crate::event::SkillEvent;
use crate::framing::FramedText;
use crate::frozen::Listing;
use crate::lock::Lock;
use crate::operation::{Io, Operation};
use crate::options::{Discovery, Placement, SessionOptions};
use crate::refresh::Refreshed;
use crate::secret::Secret;
use crate::state::{Conflict, SkillState};
use crate::uses::UsedSkill;
use crate::view::SkillView;
use crate::visibility::VisibleSkills;

/// How many events a slow watcher can be behind before it misses some.
const MAX_QUEUED_EVENTS: usize = 1024;

/// The skills of one agent without the state: its visible skills, its options, its permissions and the secret of its
/// conversation.
///
/// Clones are handles to the same engine. [`SkillEngine::at`] makes a view of a state; see [`Operation`](crate::Operation)
/// for an example.
#[derive(Clone)]
pub struct SkillEngine(Arc<Inner>);

struct Inner {
    options: SessionOptions,
    permissions: Permissions,
    secret: Secret,
    cache: Lock<EngineCache>,
    /// The channel for watchers. It takes much memory, so the first watcher creates it.
    events: OnceLock<broadcast::Sender<SkillEvent>>,
    /// What the texts of a frozen prompt depend on, as a digest.
    made_with: OnceLock<String>,
}

/// Cached texts and lists. It is not state: all of it can be lost.
struct EngineCache {
    visible: Arc<VisibleSkills>,
    /// Framed texts, by nonce.
    texts: HashMap<String, Arc<FramedText>>,
    /// The nonces of texts whose files have changed since they were read.
    outdated: BTreeSet<String>,
    /// The resources of all skills, with eager discovery.
    resources: Arc<BTreeMap<String, Vec<ResourceMetadata>>>,
    /// The skills whose load has used `resources`.
    used: BTreeSet<String>,
    /// The checksums of the visible skills, and the skills that they were made from.
    listing: Option<(Arc<VisibleSkills>, Arc<Listing>)>,
    /// The skills that were used recently when the overview got its order.
    recent: Option<Arc<[UsedSkill]>>,
    /// The last section of the system prompt, without notices.
    prompt: Option<CachedPrompt>,
}

/// A section of the system prompt, and what it was made from.
struct CachedPrompt {
    visible: Arc<VisibleSkills>,
    state: Arc<SkillState>,
    resources: Arc<BTreeMap<String, Vec<ResourceMetadata>>>,
    recent: Option<Arc<[UsedSkill]>>,
    text: Arc<str>,
}

impl SkillEngine {
    /// An engine for all skills of a catalog, with default options and rules and a random secret.
    pub fn new(catalog: &Catalog) -> Self {
        Self::with(catalog, SessionOptions::default(), Permissions::default(), Secret::random())
    }

    /// An engine for the skills of a catalog that the permissions do not deny.
    pub fn with(
        catalog: &Catalog,
        options: SessionOptions,
        permissions: Permissions,
        secret: Secret,
    ) -> Self {
        let visible = Arc::new(VisibleSkills::new(catalog, &permissions, &options.modes));
        Self::with_visible(visible, options, permissions, secret)
    }

    pub(crate) fn with_visible(
        visible: Arc<VisibleSkills>,
        options: SessionOptions,
        permissions: Permissions,
        secret: Secret,
    ) -> Self {
        let (texts, outdated) = (HashMap::new(), BTreeSet::new());
        let (resources, used) = (Arc::default(), BTreeSet::new());
        let cache = Lock::new(EngineCache {
            visible,
            texts,
            outdated,
            resources,
            used,
            listing: None,
            recent: None,
            prompt: None,
        });
        Self(Arc::new(Inner {
            options,
            permissions,
            secret,
            cache,
            events: OnceLock::new(),
            made_with: OnceLock::new(),
        }))
    }

    /// A view of a state.
    pub fn at(&self, state: &SkillState) -> SkillView {
        SkillView::new(self.clone(), Arc::new(state.clone()))
    }

    /// A view of a shared state.
    pub fn at_shared(&self, state: &Arc<SkillState>) -> SkillView {
        SkillView::new(self.clone(), Arc::clone(state))
    }

    /// The options.
    pub fn options(&self) -> &SessionOptions {
        &self.0.options
    }

    /// The permissions.
    pub fn permissions(&self) -> &Permissions {
        &self.0.permissions
    }

    /// The catalog without the skills that rules deny to this agent, and without those that are off.
    pub fn catalog_view(&self) -> CatalogView {
        self.visible().view.clone()
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.0.secret
    }

    /// The visible skills under the current policy.
    pub(crate) fn visible(&self) -> Arc<VisibleSkills> {
        let policy = self.permissions().policy();
        let mut cache = self.0.cache.lock();
        if !cache.visible.is_under(&policy) {
            cache.visible = self.visible_in(cache.visible.view.catalog());
        }
        Arc::clone(&cache.visible)
    }

    fn visible_in(&self, catalog: &Catalog) -> Arc<VisibleSkills> {
        Arc::new(VisibleSkills::new(catalog, self.permissions(), &self.options().modes))
    }

    /// The recently used skills that were kept.
    pub(crate) fn kept_recent(&self) -> Option<Arc<[UsedSkill]>> {
        self.0.cache.lock().recent.clone()
    }

    /// The section of the system prompt for these skills in this state, made by `render` unless it is cached. A request is
    /// made more than once: to measure it, and to send it.
    pub(crate) fn section(
        &self,
        visible: &Arc<VisibleSkills>,
        state: &Arc<SkillState>,
        render: impl FnOnce() -> String,
    ) -> Arc<str> {
        let is_same = |cached: &&CachedPrompt, cache: &EngineCache| {
            let recent = |recent: &Option<Arc<[UsedSkill]>>| recent.as_ref().map(Arc::as_ptr);
            Arc::ptr_eq(&cached.visible, visible)
                && Arc::ptr_eq(&cached.state, state)
                && Arc::ptr_eq(&cached.resources, &cache.resources)
                && recent(&cached.recent) == recent(&cache.recent)
        };
        let cache = self.0.cache.lock();
        if let Some(cached) = cache.prompt.as_ref().filter(|cached| is_same(cached, &cache)) {
            return Arc::clone(&cached.text);
        }
        drop(cache);
        let text: Arc<str> = render().into();
        let mut cache = self.0.cache.lock();
        cache.prompt = Some(CachedPrompt {
            visible: Arc::clone(visible),
            state: Arc::clone(state),
            resources: Arc::clone(&cache.resources),
            recent: cache.recent.clone(),
            text: Arc::clone(&text),
        });
        text
    }

    /// Keeps the recently used skills, so that the order of the overview stays.
    pub(crate) fn keep_recent(&self, recent: Arc<[UsedSkill]>) -> Arc<[UsedSkill]> {
        self.0.cache.lock().recent = Some(Arc::clone(&recent));
        recent
    }

    /// The skills that the overview lists whatever is loaded and whatever files are in play.
    pub(crate) fn listed<'a>(&self, visible: &'a VisibleSkills) -> impl Iterator<Item = &'a SkillEntry> {
        let has_manual = self.options().manual == ManualSkills::Marked;
        let entries = visible.view.entries().iter().map(AsRef::as_ref);
        entries.filter(move |entry: &&SkillEntry| {
            let is_marked = has_manual && !visible.is_manual_by_mode(entry);
            entry.skill.extensions.paths.is_empty() && (is_marked || visible.is_for_models(entry))
        })
    }

    /// What the texts of a frozen prompt depend on, as a digest. It is computed once.
    pub(crate) fn made_with(&self, compute: impl FnOnce() -> String) -> &str {
        self.0.made_with.get_or_init(compute)
    }

    /// The checksums of these skills. They are computed once.
    pub(crate) fn listing_of(&self, visible: &Arc<VisibleSkills>) -> Arc<Listing> {
        let mut cache = self.0.cache.lock();
        match &cache.listing {
            Some((of, listing)) if Arc::ptr_eq(of, visible) => Arc::clone(listing),
            _ => {
                let listing = Arc::new(Listing::of(self.listed(visible), self.secret()));
                cache.listing = Some((Arc::clone(visible), Arc::clone(&listing)));
                listing
            }
        }
    }

    /// Where the text of a skill goes. The text of a server's skill never goes into the system message.
    pub(crate) fn placement_of(&self, is_server_skill: bool) -> Placement {
        if is_server_skill { Placement::ToolAnswer } else { self.options().placement }
    }

    /// Takes a newer catalog and publishes an event. Returns the changes that the agent may see.
    pub(crate) fn take_catalog(&self, catalog: &Catalog, state: &Arc<SkillState>) -> Refreshed {
        let newer = self.visible_in(catalog);
        let diff = {
            let mut cache = self.0.cache.lock();
            let cache = &mut *cache;
            let older = std::mem::replace(&mut cache.visible, newer);
            let mut diff = older.view.catalog().diff(catalog);
            cache.forget(&diff, state);
            // The agent learns nothing about denied skills.
            let is_visible = |visible: &VisibleSkills, name: &String| visible.view.get(name).is_some();
            diff.added.retain(|name| is_visible(&cache.visible, name));
            diff.changed.retain(|name| is_visible(&cache.visible, name));
            diff.removed.retain(|name| is_visible(&older, name));
            diff
        };
        let refreshed = Refreshed { diff, stale: self.at_shared(state).stale() };
        if !refreshed.diff.is_empty() {
            let Refreshed { diff, stale } = &refreshed;
            self.publish(|| SkillEvent::Refreshed { diff: diff.clone(), stale: stale.clone() });
        }
        refreshed
    }

    /// Takes a catalog that was made from that of `of`, unless another one came meanwhile.
    pub(crate) fn take_catalog_of(
        &self,
        of: &Arc<VisibleSkills>,
        catalog: &Catalog,
        state: &Arc<SkillState>,
    ) {
        let is_newest = Arc::ptr_eq(&self.visible(), of);
        if is_newest {
            self.take_catalog(catalog, state);
        }
    }

    /// Subscribes to newer catalogs, and to the changes of a session.
    pub(crate) fn events(&self) -> broadcast::Receiver<SkillEvent> {
        self.0.events.get_or_init(|| broadcast::channel(MAX_QUEUED_EVENTS).0).subscribe()
    }

    /// Sends an event to the watchers, if there ever was one.
    pub(crate) fn publish(&self, event: impl FnOnce() -> SkillEvent) {
        if let Some(events) = self.0.events.get() {
            // All watchers may be gone.
            let _ = events.send(event());
        }
    }

    /// The cached text with this nonce.
    pub(crate) fn text(&self, nonce: &str) -> Option<Arc<FramedText>> {
        self.0.cache.lock().texts.get(nonce).cloned()
    }

    /// Whether the file of this text has changed since it was read.
    pub(crate) fn is_outdated(&self, nonce: &str) -> bool {
        self.0.cache.lock().outdated.contains(nonce)
    }

    /// Notes that the file of this text has changed since it was read.
    pub(crate) fn note_outdated(&self, nonce: &str) {
        self.0.cache.lock().outdated.insert(nonce.to_owned());
    }

    /// Caches new texts, and forgets texts that are not loaded in `state`.
    pub(crate) fn cache_texts(&self, state: &SkillState, texts: impl IntoIterator<Item = Arc<FramedText>>) {
        let mut cache = self.0.cache.lock();
        let cache = &mut *cache;
        cache.texts.retain(|nonce, _| state.has_text(nonce));
        for text in texts {
            cache.outdated.remove(&text.nonce);
            cache.texts.insert(text.nonce.clone(), text);
        }
    }

    /// The resources that eager discovery found.
    pub(crate) fn eager_resources(&self) -> Arc<BTreeMap<String, Vec<ResourceMetadata>>> {
        Arc::clone(&self.0.cache.lock().resources)
    }

    /// The resources that eager discovery found for a skill, for its first load. A later load lists them again.
    pub(crate) fn discovered_for_load(&self, name: &str) -> Option<Vec<ResourceMetadata>> {
        let mut cache = self.0.cache.lock();
        let found = cache.resources.get(name).cloned()?;
        cache.used.insert(name.to_owned()).then_some(found)
    }

    /// With eager discovery, lists the resources of all skills that are not listed yet.
    pub(crate) fn discovery(&self) -> Operation<()> {
        let engine = self.clone();
        Operation::new(self, |io| async move { engine.discover(&io).await })
    }

    pub(crate) async fn discover(&self, io: &Io) -> Result<(), SkillError> {
        if self.options().discovery == Discovery::Lazy {
            return Ok(());
        }
        let (visible, before) = (self.visible(), self.eager_resources());
        let mut found = BTreeMap::new();
        let is_missing = |entry: &&Arc<SkillEntry>| !before.contains_key(entry.skill.name.as_str());
        for entry in visible.view.entries().iter().filter(is_missing) {
            let resources = io.resources(entry, self.options().resource_depth).await?;
            found.insert(entry.skill.name.to_string(), ResourceMetadata::of_skill(entry, &resources));
        }
        drop(before);
        let mut cache = self.0.cache.lock();
        // If another catalog came meanwhile, its refresh lists the resources.
        if Arc::ptr_eq(&cache.visible, &visible) {
            cache.used.retain(|name| !found.contains_key(name));
            Arc::make_mut(&mut cache.resources).extend(found);
        }
        Ok(())
    }

    /// The state after all of `deltas`, if they fit it and the budgets.
    pub(crate) fn after(&self, state: &SkillState, deltas: &[SkillDelta]) -> Result<SkillState, Conflict> {
        let mut after = state.clone();
        deltas.iter().try_for_each(|delta| after.apply(delta, &self.options().budgets))?;
        Ok(after)
    }

    /// Logs changes.
    pub(crate) fn log(&self, deltas: &[SkillDelta], after: &SkillState) {
        for delta in deltas {
            log(delta, after, self.options().budgets.max_loaded_skills);
        }
    }
}

impl fmt::Debug for SkillEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillEngine").field("dialect", &self.options().dialect).finish_non_exhaustive()
    }
}

impl EngineCache {
    /// Forgets the texts and resources of skills that have changed.
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
            tracing::info!(skill, "Text of the server skill {} is in the conversation", quote_name(skill))
        }
        SkillDelta::Offered { .. } => tracing::info!(skill, "Skill {} offered", quote_name(skill)),
        SkillDelta::Used { .. } => tracing::debug!(skill, "Skill {} used", quote_name(skill)),
    }
}
