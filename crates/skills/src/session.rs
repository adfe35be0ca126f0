//! A session: what one agent knows of a catalog, and what it has loaded.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError};

use prowess_catalog::{Catalog, CatalogView, Resources, SkillEntry};
use prowess_permission::{Kind, Permissions, Policy};
use serde_json::Value;
use tokio::sync::broadcast;

use crate::delta::{ResourceMetadata, SkillDelta, UnloadReason};
use crate::event::{SkillEvent, Stale, Staleness};
use crate::files::{LocalFiles, SkillFiles};
use crate::options::{Discovery, Lifetime, SessionOptions};
use crate::render::FramedText;
use crate::saved::{SavedState, SkillMetadata};
use crate::secret::Secret;
use crate::state::{Conflict, SkillState};
use crate::sync::{Mutex, MutexGuard};
use crate::tools::{self, ToolCall, ToolVerdict};

/// How many events a slow watcher may be behind before it misses some, and is told so.
const EVENTS: usize = 1024;

/// One agent's skills.
///
/// Clones are handles on the same session, and all operations can be used at the same time: whatever
/// their order, no change is lost and no limit exceeded. See the crate's documentation for an example.
#[derive(Clone)]
pub struct SkillSession(Arc<Inner>);

struct Inner {
    options: SessionOptions,
    files: Arc<dyn SkillFiles>,
    permissions: Permissions,
    secret: Secret,
    shared: Mutex<Shared>,
    events: broadcast::Sender<SkillEvent>,
}

/// What changes while a session lives. The lock is never held while something is read or asked.
struct Shared {
    known: Arc<Known>,
    state: SkillState,
    sequence: u64,
    texts: HashMap<String, LoadedText>,
    /// Of all skills, with eager discovery.
    resources: Arc<BTreeMap<String, Vec<ResourceMetadata>>>,
}

/// What this agent may know of the catalog.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) view: CatalogView,
    policy: Policy,
    /// Whether some skills are listed only once a file of theirs is in play.
    has_paths: bool,
}

/// The text of a loaded skill, kept so that it need not be read again.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadedText {
    pub(crate) instructions: Option<Arc<FramedText>>,
    pub(crate) heading: String,
    pub(crate) documents: BTreeMap<String, Arc<FramedText>>,
}

impl LoadedText {
    /// Adds the texts of `newer`, in the place of those that were there.
    fn take(&mut self, newer: Self) {
        if newer.instructions.is_some() {
            self.instructions = newer.instructions;
            self.heading = newer.heading;
        }
        self.documents.extend(newer.documents);
    }
}

/// What an operation comes to.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// What the model reads.
    pub text: String,
    /// The changes of state, which the session has made already; none when nothing had to change.
    pub deltas: Vec<SkillDelta>,
    /// The answer as data, where it is more than text.
    pub data: Option<Value>,
}

/// What a refresh came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refreshed {
    /// What changed in the catalog.
    pub diff: prowess_catalog::CatalogDiff,
    /// Loaded skills that are not what they were.
    pub stale: Vec<Stale>,
}

/// Puts a session together.
#[derive(Debug)]
pub struct SessionBuilder {
    catalog: Catalog,
    options: SessionOptions,
    files: Arc<dyn SkillFiles>,
    permissions: Permissions,
    secret: Option<Secret>,
    saved: Option<SavedState>,
}

impl SessionBuilder {
    /// How the session behaves.
    pub fn options(mut self, options: SessionOptions) -> Self {
        self.options = options;
        self
    }

    /// What this agent may do. Without any, trusted skills can be loaded and nothing is asked.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Where skills are read from; the local disk otherwise.
    pub fn files(mut self, files: Arc<dyn SkillFiles>) -> Self {
        self.files = files;
        self
    }

    /// The secret of the conversation; a random one otherwise, or that of a restored state.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Goes on where a session was saved.
    pub fn restore(mut self, saved: SavedState) -> Self {
        self.saved = Some(saved);
        self
    }

    /// The session. With eager discovery it looks for the resources of all skills first.
    pub async fn start(self) -> SkillSession {
        let Self { catalog, options, files, permissions, secret, saved } = self;
        let (state, saved_secret) = saved.map(|saved| (saved.state, saved.secret)).unwrap_or_default();
        let shared = Shared {
            known: Arc::new(Known::new(&catalog, &permissions)),
            state,
            sequence: 0,
            texts: HashMap::new(),
            resources: Arc::default(),
        };
        let session = SkillSession(Arc::new(Inner {
            options,
            files,
            permissions,
            secret: secret.or(saved_secret).unwrap_or_else(Secret::random),
            shared: Mutex::new(shared),
            events: broadcast::channel(EVENTS).0,
        }));
        session.discover_eagerly().await;
        session
    }
}

impl Known {
    fn new(catalog: &Catalog, permissions: &Permissions) -> Self {
        let policy = permissions.policy();
        let view = catalog.view(|entry| !permissions.is_denied(&Kind::SKILL, entry.skill.name.as_str()));
        let has_paths = view.entries().iter().any(|entry| !entry.skill.extensions.paths.is_empty());
        Self { view, policy, has_paths }
    }
}

impl SkillSession {
    /// A session over a snapshot of a catalog.
    pub fn builder(catalog: Catalog) -> SessionBuilder {
        SessionBuilder {
            catalog,
            options: SessionOptions::default(),
            files: Arc::new(LocalFiles),
            permissions: Permissions::default(),
            secret: None,
            saved: None,
        }
    }

    /// How the session behaves.
    pub fn options(&self) -> &SessionOptions {
        &self.0.options
    }

    /// What its agent may do.
    pub fn permissions(&self) -> &Permissions {
        &self.0.permissions
    }

    /// What is loaded now.
    pub fn state(&self) -> SkillState {
        self.lock().state.clone()
    }

    /// What to save, so that [`SessionBuilder::restore`] can go on from here.
    pub fn save(&self) -> SavedState {
        let known = self.known();
        let metadata = SkillMetadata::of_view(&known.view);
        let shared = self.lock();
        SavedState {
            metadata,
            state: shared.state.clone(),
            secret: Some(self.0.secret.clone()),
            eager: BTreeMap::clone(&shared.resources),
        }
    }

    /// Every change from now on.
    pub fn events(&self) -> broadcast::Receiver<SkillEvent> {
        self.0.events.subscribe()
    }

    /// What this agent may know of the catalog: skills that are denied to it are not there.
    pub fn view(&self) -> CatalogView {
        self.known().view.clone()
    }

    /// Goes on with a newer snapshot. Loaded skills stay loaded; what became of those that changed is in
    /// the answer, and [`SkillSession::stale`] keeps saying it.
    pub async fn refresh(&self, catalog: &Catalog) -> Refreshed {
        let newer = Arc::new(Known::new(catalog, &self.0.permissions));
        let refreshed = {
            let mut shared = self.lock();
            let shared = &mut *shared;
            let older = std::mem::replace(&mut shared.known, newer);
            let diff = older.view.catalog().diff(catalog);
            for name in &diff.changed {
                // It is read again before it is shown again.
                shared.texts.remove(name);
            }
            if !shared.resources.is_empty() {
                let resources = Arc::make_mut(&mut shared.resources);
                diff.changed.iter().chain(&diff.removed).for_each(|name| drop(resources.remove(name)));
            }
            let stale = stale(&shared.state, &shared.known);
            let refreshed = Refreshed { diff, stale };
            if !refreshed.diff.is_empty() {
                let Refreshed { diff, stale } = refreshed.clone();
                // Nobody may be watching.
                let _ = self.0.events.send(SkillEvent::Refreshed { diff, stale });
            }
            refreshed
        };
        self.discover_eagerly().await;
        refreshed
    }

    /// Loaded skills that the catalog no longer has as they were.
    pub fn stale(&self) -> Vec<Stale> {
        let known = self.known();
        stale(&self.lock().state, &known)
    }

    /// What `allowed-tools` of the loaded skills says to a call of one of the host's tools.
    pub fn check_tool(&self, call: ToolCall<'_>) -> ToolVerdict {
        let options = self.options();
        let own = options.dialect.tool_names();
        tools::check(options.allowed_tools, &options.tools, own, &self.lock().state, call)
    }

    /// To be called when a model has answered, before its tool calls are run: skills that stay for one
    /// model call have been seen.
    pub fn after_model_call(&self) -> Vec<SkillDelta> {
        self.expire(|lifetime| lifetime == Lifetime::Once)
    }

    /// To be called when a turn ends: what stays for a turn goes.
    pub fn end_turn(&self) -> Vec<SkillDelta> {
        self.expire(|lifetime| lifetime != Lifetime::Session)
    }

    fn expire(&self, is_over: impl Fn(Lifetime) -> bool) -> Vec<SkillDelta> {
        let state = self.state();
        let over = state.loaded().iter().filter(|skill| is_over(skill.lifetime));
        let deltas = over
            .map(|skill| SkillDelta::Unloaded { name: skill.name.clone(), reason: UnloadReason::Expired });
        deltas.filter(|delta| self.commit(std::slice::from_ref(delta)).is_ok()).collect()
    }

    pub(crate) fn files(&self) -> &dyn SkillFiles {
        &*self.0.files
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.0.secret
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this agent may know, by the policy of now.
    pub(crate) fn known(&self) -> Arc<Known> {
        let policy = self.0.permissions.policy();
        let mut shared = self.lock();
        if !shared.known.policy.is_same(&policy) {
            shared.known = Arc::new(Known::new(shared.known.view.catalog(), &self.0.permissions));
        }
        Arc::clone(&shared.known)
    }

    /// The skills that a model is told about: visible, and with a file in play where they ask for one.
    pub(crate) fn offered_view(&self) -> CatalogView {
        let known = self.known();
        if !known.has_paths {
            return known.view.clone();
        }
        let state = self.state();
        known.view.filtered(|entry| is_offered(entry, &state))
    }

    /// The names that a model may load.
    pub(crate) fn offered_names(&self) -> Vec<String> {
        let view = self.offered_view();
        let may_load = view.entries().iter().filter(|entry| entry.skill.is_model_invocable());
        may_load.map(|entry| entry.skill.name.to_string()).collect()
    }

    pub(crate) fn text_of(&self, name: &str) -> Option<LoadedText> {
        self.lock().texts.get(name).cloned()
    }

    /// Keeps texts that were read again for a skill that is still loaded.
    pub(crate) fn keep(&self, name: &str, text: LoadedText) {
        let mut shared = self.lock();
        if shared.state.get(name).is_some() {
            shared.texts.entry(name.to_owned()).or_default().take(text);
        }
    }

    /// The resources that eager discovery found.
    pub(crate) fn eager_resources(&self) -> Arc<BTreeMap<String, Vec<ResourceMetadata>>> {
        Arc::clone(&self.lock().resources)
    }

    /// Applies all of `deltas` or none.
    pub(crate) fn commit(&self, deltas: &[SkillDelta]) -> Result<(), Conflict> {
        self.commit_with(deltas, None)
    }

    /// Applies all of `deltas`, which are about one skill, or none, and keeps its texts for later calls
    /// beside those that are kept already. The only place where state changes.
    pub(crate) fn commit_with(
        &self,
        deltas: &[SkillDelta],
        text: Option<LoadedText>,
    ) -> Result<(), Conflict> {
        let mut shared = self.lock();
        let shared = &mut *shared;
        let mut state = shared.state.clone();
        deltas.iter().try_for_each(|delta| state.apply(delta, &self.0.options.budgets))?;
        shared.state = state;
        if let (Some(text), Some(delta)) = (text, deltas.first()) {
            shared.texts.entry(delta.skill().to_owned()).or_default().take(text);
        }
        for delta in deltas {
            if let SkillDelta::Unloaded { name, .. } = delta {
                shared.texts.remove(name);
            }
            shared.sequence += 1;
            self.log(delta, &shared.state);
            let event = SkillEvent::Changed { sequence: shared.sequence, delta: delta.clone() };
            // Nobody may be watching.
            let _ = self.0.events.send(event);
        }
        Ok(())
    }

    fn log(&self, delta: &SkillDelta, state: &SkillState) {
        let skill = delta.skill();
        match delta {
            SkillDelta::Loaded { skill: loaded, resources } => {
                let (resources, tokens) = (resources.len(), loaded.tokens);
                tracing::info!(
                    skill,
                    resources,
                    tokens,
                    "Skill '{skill}' loaded ({resources} resources discovered)"
                );
            }
            SkillDelta::Unloaded { reason, .. } => {
                let slots = self.0.options.budgets.max_loaded_skills;
                let free = slots.saturating_sub(state.loaded().len());
                tracing::info!(
                    skill,
                    free,
                    slots,
                    ?reason,
                    "Skill '{skill}' unloaded ({free}/{slots} slots available)"
                );
            }
            SkillDelta::Reloaded { .. } => tracing::info!(skill, "Skill '{skill}' loaded again"),
            SkillDelta::Selected { documents, .. } => {
                tracing::info!(skill, documents = documents.len(), "Documents of skill '{skill}' selected");
            }
            SkillDelta::Offered { .. } => tracing::info!(skill, "Skill '{skill}' offered"),
        }
    }

    async fn discover_eagerly(&self) {
        if self.options().discovery == Discovery::Lazy {
            return;
        }
        let known = self.known();
        let before = self.eager_resources();
        let mut found = BTreeMap::new();
        for entry in known.view.entries() {
            let name = entry.skill.name.as_str();
            if !before.contains_key(name) {
                found.insert(name.to_owned(), self.discover(entry).await);
            }
        }
        drop(before);
        Arc::make_mut(&mut self.lock().resources).extend(found);
    }

    /// Lists the files of one skill. What cannot be listed is left out, with a warning.
    pub(crate) async fn discover(&self, entry: &Arc<SkillEntry>) -> Vec<ResourceMetadata> {
        listed(entry, &self.files().resources(entry, self.options().resource_depth).await)
    }
}

/// What a session keeps of the files of one skill.
pub(crate) fn listed(entry: &SkillEntry, resources: &Resources) -> Vec<ResourceMetadata> {
    let skill = entry.skill.name.as_str();
    for diagnostic in &resources.diagnostics {
        tracing::warn!(skill, path = %diagnostic.file, "Failed to list resources for skill '{skill}': {diagnostic}");
    }
    let directory = entry.skill.location.directory().trim_end_matches('/');
    let metadata = |path: String, kind| ResourceMetadata { path, kind, skill_name: skill.to_owned() };
    resources.files.iter().map(|file| metadata(format!("{directory}/{}", file.path), file.kind)).collect()
}

pub(crate) fn is_offered(entry: &SkillEntry, state: &SkillState) -> bool {
    let name = entry.skill.name.as_str();
    entry.skill.extensions.paths.is_empty() || state.offered().contains(name) || state.get(name).is_some()
}

fn stale(state: &SkillState, known: &Known) -> Vec<Stale> {
    let why = |skill: &crate::delta::LoadedSkill| match known.view.get(&skill.name) {
        None => Some(Staleness::Gone),
        Some(entry) if entry.skill.location != skill.location => Some(Staleness::Replaced),
        Some(_) => None,
    };
    state
        .loaded()
        .iter()
        .filter_map(|skill| Some(Stale { name: skill.name.clone(), why: why(skill)? }))
        .collect()
}

impl fmt::Debug for SkillSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("SkillSession")
            .field("dialect", &self.options().dialect)
            .field("loaded", &state.names().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
