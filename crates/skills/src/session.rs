//! A session: what one agent knows of a catalog, and what it has loaded.

use std::fmt;
use std::sync::{Arc, PoisonError};

use prowess_catalog::Catalog;
use prowess_permission::{Asker, NoAsker, Permissions};
use serde_json::Value;
use tokio::sync::broadcast;

use crate::call::PreparedCall;
use crate::context::LoadedSection;
use crate::delta::{SelectMode, SkillDelta};
use crate::dialect::{SkillToolAnswer, ToolSpec};
use crate::documents::DocumentChoice;
use crate::engine::SkillEngine;
use crate::error::SkillError;
use crate::event::SkillEvent;
use crate::files::{LocalFiles, SkillFiles};
use crate::known::Known;
use crate::load::rejected;
use crate::options::SessionOptions;
use crate::overview::ModelView;
use crate::refresh::Refreshed;
use crate::run_summary::RunSummary;
use crate::saved::{SavedState, SkillMetadata};
use crate::secret::Secret;
use crate::service::SkillService;
use crate::state::SkillState;
use crate::step::{Operation, Outcome};
use crate::sync::{Mutex, MutexGuard};
use crate::view::SkillView;

/// How often something is done again that others got in the way of, before it is left.
const ATTEMPTS: usize = 16;

/// One agent's skills with the state of what is loaded, for hosts without a log of their own.
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
    service: SkillService,
    held: Mutex<Held>,
}

/// What is loaded. The lock is never held while something is read or asked.
struct Held {
    state: Arc<SkillState>,
    /// How many changes of state there were.
    sequence: u64,
}

/// What an operation comes to.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SkillAnswer {
    /// What the model reads.
    pub text: String,
    /// The changes of state; none when nothing has to change.
    pub deltas: Vec<SkillDelta>,
    /// The answer as data, where it is more than text.
    pub data: Option<Value>,
    /// What came of a command, if one was run to its end.
    pub ran: Option<Box<RunSummary>>,
}

/// Puts a session together.
///
/// ```
/// use prowess_permission::{Decision, RuleSource, Permissions, Policy, Rule};
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
///     .permissions(Permissions::unattended(Policy::new().with(RuleSource::User, rules)))
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
    runs: Option<crate::run::RunSetup>,
}

impl SessionBuilder {
    /// What runs commands of skills; without it none can be run.
    #[cfg(feature = "run")]
    pub fn runs(mut self, runs: crate::run::RunSetup) -> Self {
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
    /// use prowess_permission::{Decision, RuleSource, Permissions, Policy, Rule};
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
    /// let other = SkillSession::builder(catalog.clone()).permissions(allowed.clone()).beside(&one).start().await;
    /// one.load("greet", None).await?;
    /// assert!(other.engine().catalog_view().get("greet").is_some() && other.state().loaded().is_empty());
    ///
    /// // Under other rules it finds out by itself.
    /// let rules = [Rule::new("skill", "greet", Decision::Deny)];
    /// let denied = Permissions::unattended(Policy::new().with(RuleSource::User, rules));
    /// let third = SkillSession::builder(catalog).permissions(denied).beside(&one).start().await;
    /// assert!(third.engine().catalog_view().get("greet").is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn beside(mut self, other: &SkillSession) -> Self {
        self.known = Some(other.engine().known());
        self
    }

    /// Skills for a host that has the state itself. With eager discovery it looks for the resources of all skills first.
    pub async fn open(self) -> SkillService {
        self.opened().await.0
    }

    /// The session. With eager discovery it looks for the resources of all skills first.
    pub async fn start(self) -> SkillSession {
        let (service, state) = self.opened().await;
        let held = Mutex::new(Held { state: Arc::new(state), sequence: 0 });
        SkillSession(Arc::new(Inner { service, held }))
    }

    async fn opened(self) -> (SkillService, SkillState) {
        let Self { catalog, options, files, permissions, secret, saved, known, .. } = self;
        let permissions = permissions.unwrap_or_default();
        let (mut state, saved_secret) = saved.map(|saved| (saved.state, saved.secret)).unwrap_or_default();
        state.keep_last(options.budgets.max_loaded_skills);
        let known = known
            .filter(|known| known.is_of(&catalog, &permissions))
            .unwrap_or_else(|| Arc::new(Known::new(&catalog, &permissions)));
        let secret = secret.or(saved_secret).unwrap_or_else(Secret::random);
        let engine = SkillEngine::knowing(known, options, permissions, secret);
        let service = SkillService::new(engine, files);
        #[cfg(feature = "run")]
        let service = service.with_runs(self.runs.map(crate::run::SkillRunner::new));
        service.discover_eagerly().await;
        (service, state)
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

    /// Its skills, without what is loaded.
    pub fn service(&self) -> &SkillService {
        &self.0.service
    }

    /// What its agent may know, and how it behaves.
    pub fn engine(&self) -> &SkillEngine {
        self.0.service.engine()
    }

    /// How it behaves.
    pub fn options(&self) -> &SessionOptions {
        self.engine().options()
    }

    /// What its agent may do.
    pub fn permissions(&self) -> &Permissions {
        self.engine().permissions()
    }

    /// What can be seen and done now.
    pub fn view(&self) -> SkillView {
        self.engine().at_shared(&self.state())
    }

    /// What is loaded now.
    pub fn state(&self) -> Arc<SkillState> {
        Arc::clone(&self.lock().state)
    }

    /// What to save, so that [`SessionBuilder::restore`] can go on from here.
    pub fn save(&self) -> SavedState {
        let engine = self.engine();
        let view = engine.catalog_view();
        let metadata = SkillMetadata::of_view(&view);
        let mut eager = std::collections::BTreeMap::clone(&engine.eager_resources());
        eager.retain(|name, _| view.get(name).is_some());
        let state = SkillState::clone(&self.state());
        SavedState { metadata, state, secret: Some(engine.secret().clone()), eager }
    }

    /// Every change from now on.
    pub fn events(&self) -> broadcast::Receiver<SkillEvent> {
        self.engine().events()
    }

    /// Loads a skill for the model, with arguments if it takes some; see [`SkillView::load`].
    ///
    /// # Errors
    ///
    /// Why it was not loaded. Nothing has changed then.
    pub async fn load(&self, name: &str, arguments: Option<&str>) -> Result<SkillAnswer, SkillError> {
        let mut attempt = 1;
        loop {
            let prepared = self.done(self.view().load(name, arguments, None)).await?;
            match self.hold(|state| prepared.finish(state)) {
                // It was loaded when it was looked at, and somebody has unloaded it.
                Err(SkillError::NotLoaded { .. }) if attempt < ATTEMPTS => attempt += 1,
                finished => return finished,
            }
        }
    }

    /// Starts a skill as a person asked for it; see [`SkillView::invoke`].
    ///
    /// # Errors
    ///
    /// Why it was not loaded. Nothing has changed then.
    pub async fn invoke(&self, line: &str) -> Result<SkillAnswer, SkillError> {
        let prepared = self.done(self.view().invoke(line)).await?;
        self.hold(|state| prepared.finish(state))
    }

    /// The same, with somebody to ask.
    pub async fn attempt_invoke(&self, line: &str, asker: &dyn Asker) -> Outcome<SkillAnswer> {
        match self.view().invoke(line).drive(self.service().files(), asker).await {
            Outcome::Done(prepared) => self.hold(|state| prepared.finish(state)).into(),
            Outcome::Asks(question) => Outcome::Asks(question),
            Outcome::Refused(error) => Outcome::Refused(error),
        }
    }

    /// Unloads a skill, with its resources and documents.
    ///
    /// # Errors
    ///
    /// When it is not loaded.
    pub fn unload(&self, name: &str) -> Result<SkillAnswer, SkillError> {
        let engine = self.engine();
        self.hold(|state| engine.at(state).unload(name))
    }

    /// The paths of a skill's documents; see [`SkillView::list_documents`].
    ///
    /// # Errors
    ///
    /// When the skill is not one that this agent may know of, or has to be asked about before any of it is told.
    pub async fn list_documents(&self, name: &str) -> Result<SkillAnswer, SkillError> {
        self.done(self.view().list_documents(name)).await
    }

    /// Chooses which documents of a loaded skill are in context with it.
    ///
    /// # Errors
    ///
    /// When the skill is not loaded, a document is not one of its own or cannot be read, or the budget does not allow it.
    /// Nothing has changed then.
    pub async fn select_documents(
        &self,
        name: &str,
        mode: SelectMode,
        choice: DocumentChoice,
    ) -> Result<SkillAnswer, SkillError> {
        let prepared = self.done(self.view().select_documents(name, mode, choice)).await?;
        self.hold(|state| prepared.finish(state))
    }

    /// The section of the system prompt about skills; see [`SkillView::prompt`].
    pub fn prompt(&self) -> prowess_catalog::overview::Rendered {
        self.view().prompt()
    }

    /// The tools that a model handles skills with; see [`SkillService::tools`].
    pub fn tools(&self) -> Arc<[ToolSpec]> {
        self.service().tools(&self.view())
    }

    /// Calls one of [`SkillSession::tools`]. Wrong arguments get an answer that says what is wrong. Where nobody can be
    /// asked, what needs an answer is refused.
    pub async fn call(&self, tool: &str, arguments: Value) -> SkillToolAnswer {
        settled(self.attempt(tool, arguments, &NoAsker).await)
            .unwrap_or_else(|error| SkillToolAnswer::from(Err(error)))
    }

    /// Calls one of [`SkillSession::tools`], with somebody to ask.
    pub async fn attempt(&self, tool: &str, arguments: Value, asker: &dyn Asker) -> Outcome<SkillToolAnswer> {
        match self.service().call(&self.view(), tool, arguments, asker).await {
            Outcome::Done(prepared) => Outcome::Done(self.finish(prepared)),
            Outcome::Asks(question) => Outcome::Asks(question),
            Outcome::Refused(error) => Outcome::Refused(error),
        }
    }

    /// Finishes a call that was prepared by this session's service.
    pub fn finish(&self, prepared: PreparedCall) -> SkillToolAnswer {
        self.commit(|state| Ok(prepared.finish(state)), |reply| &reply.deltas)
            .unwrap_or_else(|error| SkillToolAnswer::from(Err(error)))
    }

    /// What one model call needs, all of the same moment.
    pub async fn model_view(&self) -> ModelView {
        let loaded = self.loaded_section().await;
        let view = self.view();
        ModelView { prompt: view.prompt(), tools: self.service().tools(&view), loaded }
    }

    /// The part of the system message that has the loaded skills' text; see [`SkillView::loaded_section`].
    pub async fn loaded_section(&self) -> LoadedSection {
        self.section(SkillView::loaded_section).await
    }

    /// What must be put back into context after compaction; see [`SkillView::put_back`].
    pub async fn put_back<'a>(
        &self,
        kept: impl IntoIterator<Item = &'a str>,
        budget: Option<usize>,
    ) -> LoadedSection {
        let kept: Vec<&str> = kept.into_iter().collect();
        self.section(|view| view.put_back(kept.iter().copied(), budget)).await
    }

    async fn section(&self, make: impl Fn(&SkillView) -> Operation<LoadedSection>) -> LoadedSection {
        // Whoever got in the way has made a change, so this comes to an end.
        loop {
            let view = self.view();
            let made = self.done(make(&view)).await.unwrap_or_else(|error| {
                tracing::error!(%error, "The text of loaded skills cannot be put together");
                LoadedSection::default()
            });
            if made.deltas.is_empty() {
                return made;
            }
            // Its changes are for the state that it was made for.
            let is_now = |state: &Arc<SkillState>| Arc::ptr_eq(state, view.state());
            let fits =
                |state: &Arc<SkillState>| if is_now(state) { Ok(made) } else { Err(SkillError::Misfed) };
            if let Ok(made) = self.commit(fits, |made| &made.deltas) {
                return made;
            }
        }
    }

    /// Goes on with a newer snapshot of the catalog; see [`SkillService::refresh`].
    pub async fn refresh(&self, catalog: &Catalog) -> Refreshed {
        // Nothing is loaded between the look at what is loaded and the newer catalog.
        let refreshed = {
            let held = self.lock();
            self.engine().take_catalog(catalog, &held.state)
        };
        self.service().discover_eagerly().await;
        refreshed
    }

    /// Makes changes, such as [`SkillView::note_files`], [`SkillView::after_model_call`] and [`SkillView::end_turn`] give:
    /// all of them or, if they do not fit, none. Gives those that it made. Nobody else can do anything with the session
    /// while it decides.
    pub fn change(&self, decide: impl FnOnce(&SkillView) -> Vec<SkillDelta>) -> Vec<SkillDelta> {
        let engine = self.engine();
        self.commit(|state| Ok(decide(&engine.at_shared(state))), |deltas| deltas).unwrap_or_default()
    }

    /// Does something that takes time, with whoever answers for this session's permissions.
    async fn done<T: Send + 'static>(&self, operation: Operation<T>) -> Result<T, SkillError> {
        settled(operation.drive(self.service().files(), &NoAsker).await)
    }

    /// Finishes something that was prepared, given the current state, such as a [`PreparedLoad`](crate::load::PreparedLoad), and
    /// makes its changes: all of them or none. `finish` must not use the session, whose lock is held meanwhile.
    ///
    /// # Errors
    ///
    /// It cannot be finished, or its changes do not fit. Nothing has changed then.
    pub fn hold(
        &self,
        finish: impl FnOnce(&SkillState) -> Result<SkillAnswer, SkillError>,
    ) -> Result<SkillAnswer, SkillError> {
        self.commit(|state| finish(state), |answer| &answer.deltas)
    }

    /// Decides, given the current state, and makes the changes that were decided: all of them or none.
    fn commit<T>(
        &self,
        decide: impl FnOnce(&Arc<SkillState>) -> Result<T, SkillError>,
        deltas: impl Fn(&T) -> &[SkillDelta],
    ) -> Result<T, SkillError> {
        let mut held = self.lock();
        let held = &mut *held;
        let decided = decide(&held.state)?;
        let Some(first) = deltas(&decided).first() else { return Ok(decided) };
        let (engine, all) = (self.engine(), deltas(&decided));
        let after = engine
            .after(&held.state, all)
            .map_err(|conflict| rejected(engine.options(), first.skill(), all, conflict, &held.state))?;
        held.state = Arc::new(after);
        for delta in all {
            held.sequence += 1;
            engine.tell(|| SkillEvent::Changed { sequence: held.sequence, delta: delta.clone() });
        }
        Ok(decided)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "run")]
impl SkillSession {
    /// Runs a command of a skill, once the gate has let it pass; see [`SkillService::run`].
    ///
    /// # Errors
    ///
    /// Why nothing ran.
    pub async fn run(&self, request: prowess_workspace::RunRequest) -> Result<SkillAnswer, SkillError> {
        let answer = settled(self.service().run(&self.view(), request, &NoAsker).await)?;
        self.hold(|_| Ok(answer))
    }

    /// The same with the report itself, and its output while it is written.
    ///
    /// # Errors
    ///
    /// Why nothing ran.
    pub async fn run_watched(
        &self,
        request: prowess_workspace::RunRequest,
        output: &dyn prowess_workspace::executor::OutputSink,
    ) -> Result<prowess_workspace::RunReport, SkillError> {
        settled(self.service().run_watched(&self.view(), request, output, &NoAsker).await)
    }
}

/// What came of something that nobody could be asked about.
fn settled<T>(outcome: Outcome<T>) -> Result<T, SkillError> {
    match outcome {
        Outcome::Done(done) => Ok(done),
        Outcome::Refused(error) => Err(error),
        // Where nobody keeps a question, it was refused.
        Outcome::Asks(_) => Err(SkillError::Misfed),
    }
}

impl fmt::Debug for SkillSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("SkillSession")
            .field("dialect", &self.engine().options().dialect)
            .field("loaded", &state.names().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
