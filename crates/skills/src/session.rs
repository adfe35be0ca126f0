//! A session: what one agent knows of a catalog, and what it has loaded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};

use prowess_catalog::{Catalog, CatalogView};
use prowess_permission::Permissions;
use serde_json::Value;
use tokio::sync::broadcast;

use crate::delta::{ResourceMetadata, SkillDelta, UnloadReason};
use crate::event::SkillEvent;
use crate::files::{LocalFiles, SkillFiles};
use crate::known::Known;
use crate::options::{Lifetime, SessionOptions};
use crate::render::FramedText;
use crate::saved::{SavedState, SkillMetadata};
use crate::secret::Secret;
use crate::state::SkillState;
use crate::sync::{Mutex, MutexGuard};

/// How many events a slow watcher may be behind before it misses some, and is told so.
const EVENTS: usize = 1024;

/// One agent's skills.
///
/// Clones are handles on the same session, and all operations can be used at the same time: whatever
/// their order, no change is lost and no limit exceeded. See the crate's documentation for an example.
///
/// ```
/// use prowess_skills::{SkillEvent, SkillSession};
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
/// let mut events = session.events();
/// let answer = session.load("greet", None).await?;
/// assert!(answer.text.contains("Wave."));
/// assert!(session.state().get("greet").is_some());
/// assert!(matches!(events.recv().await?, SkillEvent::Changed { .. }));
///
/// session.unload("greet")?;
/// assert!(session.state().loaded().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SkillSession(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) options: SessionOptions,
    pub(crate) files: Arc<dyn SkillFiles>,
    pub(crate) permissions: Permissions,
    pub(crate) secret: Secret,
    #[cfg(feature = "run")]
    pub(crate) runs: Option<crate::run::Runs>,
    /// Commands that go on, which end with the session.
    #[cfg(feature = "run")]
    pub(crate) live: prowess_workspace::LiveRuns,
    pub(crate) shared: Mutex<Shared>,
    /// Where watchers hear of changes. It has room for many, and so it is made for the first of them.
    events: OnceLock<broadcast::Sender<SkillEvent>>,
}

/// What changes while a session lives. The lock is never held while something is read or asked.
pub(crate) struct Shared {
    pub(crate) known: Arc<Known>,
    pub(crate) state: Arc<SkillState>,
    /// How many changes of state there were.
    pub(crate) sequence: u64,
    pub(crate) texts: HashMap<String, LoadedText>,
    /// Loaded skills whose documents have changed since they were read.
    pub(crate) changed: BTreeSet<String>,
    /// Of all skills, with eager discovery.
    pub(crate) resources: Arc<BTreeMap<String, Vec<ResourceMetadata>>>,
    /// Skills whose resources are to be looked for again when they are loaded again.
    pub(crate) unloaded: BTreeSet<String>,
}

/// The text of a loaded skill, kept so that it need not be read again.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadedText {
    pub(crate) instructions: Option<Arc<FramedText>>,
    pub(crate) heading: String,
    pub(crate) documents: BTreeMap<String, Arc<FramedText>>,
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

/// Puts a session together.
///
/// ```
/// use prowess_permission::{Decision, Layer, Permissions, Policy, Rule};
/// use prowess_skills::{Dialect, SessionOptions, SkillSession};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let rules = [Rule::new("skill", "secret-*", Decision::Deny)];
/// let session = SkillSession::builder(catalog)
///     .options(SessionOptions::new(Dialect::OpenCode))
///     .permissions(Permissions::unattended(Policy::new().with(Layer::User, rules)))
///     .start()
///     .await;
/// assert_eq!(session.tools()[0].name, "skill");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SessionBuilder {
    catalog: Catalog,
    options: SessionOptions,
    files: Arc<dyn SkillFiles>,
    permissions: Option<Permissions>,
    secret: Option<Secret>,
    saved: Option<SavedState>,
    known: Option<Arc<Known>>,
    #[cfg(feature = "run")]
    runs: Option<crate::run::Runs>,
}

impl SessionBuilder {
    /// What runs commands of skills; without it none can be run.
    #[cfg(feature = "run")]
    pub fn runs(mut self, runs: crate::run::Runs) -> Self {
        self.runs = Some(runs);
        self
    }

    /// How the session behaves.
    pub fn options(mut self, options: SessionOptions) -> Self {
        self.options = options;
        self
    }

    /// What this agent may do. Without any, trusted skills can be loaded and nothing is asked.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// The same with these rules, and words of its own: what somebody allows another session once is not allowed here.
    pub fn apart(mut self) -> Self {
        self.permissions = Some(self.permissions.unwrap_or_default().apart());
        self
    }

    /// The same where none were given.
    pub fn or_permissions(mut self, permissions: Permissions) -> Self {
        self.permissions.get_or_insert(permissions);
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

    /// Goes on where a session was saved. If more was loaded than the budget of skills allows now, what was
    /// loaded first is unloaded. A state is trusted as the session that saved it was: keep it where strangers
    /// cannot write.
    pub fn restore(mut self, saved: SavedState) -> Self {
        self.saved = Some(saved);
        self
    }

    /// Takes over what another session has found out about the skills that may be known, if catalog and rules are the
    /// same: for a host that starts many sessions.
    ///
    /// ```
    /// use prowess_permission::{Decision, Layer, Permissions, Policy, Rule};
    /// use prowess_skills::SkillSession;
    ///
    /// # use prowess_catalog::{Catalog, Root, ScanOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # std::fs::create_dir(scratch.path().join("greet"))?;
    /// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
    /// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
    /// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
    /// let allowed = Permissions::unattended(Policy::new());
    /// let one = SkillSession::builder(catalog.clone()).permissions(allowed.clone()).start().await;
    /// let other = SkillSession::builder(catalog.clone()).permissions(allowed.apart()).beside(&one).start().await;
    /// one.load("greet", None).await?;
    /// assert!(other.view().get("greet").is_some() && other.state().loaded().is_empty());
    ///
    /// // Under other rules it finds out by itself.
    /// let rules = [Rule::new("skill", "greet", Decision::Deny)];
    /// let denied = Permissions::unattended(Policy::new().with(Layer::User, rules));
    /// let third = SkillSession::builder(catalog).permissions(denied).beside(&one).start().await;
    /// assert!(third.view().get("greet").is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn beside(mut self, other: &SkillSession) -> Self {
        self.known = Some(other.known());
        self
    }

    /// The session. With eager discovery it looks for the resources of all skills first.
    pub async fn start(self) -> SkillSession {
        let Self { catalog, options, files, permissions, secret, saved, known, .. } = self;
        let permissions = permissions.unwrap_or_default();
        let (mut state, saved_secret) = saved.map(|saved| (saved.state, saved.secret)).unwrap_or_default();
        state.keep_last(options.budgets.max_loaded_skills);
        let shared = Shared {
            known: known
                .filter(|known| known.is_of(&catalog, &permissions))
                .unwrap_or_else(|| Arc::new(Known::new(&catalog, &permissions))),
            state: Arc::new(state),
            sequence: 0,
            texts: HashMap::new(),
            changed: BTreeSet::new(),
            resources: Arc::default(),
            unloaded: BTreeSet::new(),
        };
        let session = SkillSession(Arc::new(Inner {
            options,
            files,
            permissions,
            secret: secret.or(saved_secret).unwrap_or_else(Secret::random),
            #[cfg(feature = "run")]
            live: prowess_workspace::LiveRuns::new(
                self.runs.as_ref().map(|runs| runs.live.clone()).unwrap_or_default(),
            ),
            #[cfg(feature = "run")]
            runs: self.runs,
            shared: Mutex::new(shared),
            events: OnceLock::new(),
        }));
        session.discover_eagerly().await;
        session
    }
}

impl SkillSession {
    /// A session over a snapshot of a catalog.
    pub fn builder(catalog: Catalog) -> SessionBuilder {
        SessionBuilder {
            catalog,
            options: SessionOptions::default(),
            files: Arc::new(LocalFiles),
            permissions: None,
            secret: None,
            saved: None,
            known: None,
            #[cfg(feature = "run")]
            runs: None,
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
    pub fn state(&self) -> Arc<SkillState> {
        Arc::clone(&self.lock().state)
    }

    /// What to save, so that [`SessionBuilder::restore`] can go on from here.
    pub fn save(&self) -> SavedState {
        let known = self.known();
        let metadata = SkillMetadata::of_view(&known.view);
        let shared = self.lock();
        let mut eager = BTreeMap::clone(&shared.resources);
        eager.retain(|name, _| known.view.get(name).is_some());
        let state = SkillState::clone(&shared.state);
        SavedState { metadata, state, secret: Some(self.0.secret.clone()), eager }
    }

    /// Every change from now on.
    pub fn events(&self) -> broadcast::Receiver<SkillEvent> {
        self.0.events.get_or_init(|| broadcast::channel(EVENTS).0).subscribe()
    }

    /// Tells those who watch, if anybody ever did.
    pub(crate) fn tell(&self, event: impl FnOnce() -> SkillEvent) {
        if let Some(events) = self.0.events.get() {
            // They may have gone.
            let _ = events.send(event());
        }
    }

    /// What this agent may know of the catalog: skills that are denied to it are not there.
    pub fn view(&self) -> CatalogView {
        self.known().view.clone()
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

    #[cfg(feature = "run")]
    pub(crate) fn runs(&self) -> Option<&crate::run::Runs> {
        self.0.runs.as_ref()
    }

    pub(crate) fn files(&self) -> &dyn SkillFiles {
        &*self.0.files
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.0.secret
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
