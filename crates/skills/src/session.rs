//! A session: the skills of one conversation, and which of them are loaded.

mod builder;

use std::fmt;
use std::sync::Arc;

use prowess_catalog::Catalog;
use prowess_permission::{Asker, NoAsker, Permissions};
use serde_json::Value;
use tokio::sync::broadcast;

use crate::answer::{SkillAnswer, SkillToolAnswer};
use crate::call::PreparedCall;
use crate::conflict::conflict_error;
use crate::context::LoadedSection;
use crate::delta::{SelectMode, SkillDelta};
use crate::dialect::ToolSpec;
use crate::documents::DocumentChoice;
use crate::engine::SkillEngine;
use crate::error::SkillError;
use crate::event::SkillEvent;
use crate::lock::Lock;
use crate::operation::{Operation, Outcome};
use crate::options::SessionOptions;
use crate::overview::ModelView;
use crate::refresh::Refreshed;
use crate::saved::{SavedState, SkillMetadata};
use crate::service::SkillService;
use crate::state::SkillState;
use crate::view::SkillView;
pub use builder::SkillSessionBuilder;

/// How often a load starts again because another call unloaded the skill meanwhile.
const MAX_LOAD_ATTEMPTS: usize = 16;

/// The skills of one agent and the state of what is loaded, for programs that keep no log of their own.
///
/// Clones are handles to the same session. All operations can run at the same time: no change is lost, and no limit is
/// exceeded. The crate's front page has another example.
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
/// let session = SkillSession::builder(catalog).build().await;
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
pub struct SkillSession(Arc<SessionInner>);

struct SessionInner {
    service: SkillService,
    state: Lock<SessionState>,
}

/// What is loaded. The lock is never held while the session reads a file or asks a person.
struct SessionState {
    state: Arc<SkillState>,
    /// The number of changes so far.
    sequence: u64,
}

impl SkillSession {
    /// A builder for a session over a snapshot of a catalog.
    pub fn builder(catalog: Catalog) -> SkillSessionBuilder {
        SkillSessionBuilder::new(catalog)
    }

    /// The service, which has no state.
    pub fn service(&self) -> &SkillService {
        &self.0.service
    }

    /// The engine: visible skills, options and permissions.
    pub fn engine(&self) -> &SkillEngine {
        self.0.service.engine()
    }

    /// The options.
    pub fn options(&self) -> &SessionOptions {
        self.engine().options()
    }

    /// The permissions.
    pub fn permissions(&self) -> &Permissions {
        self.engine().permissions()
    }

    /// The view of the current state.
    pub fn view(&self) -> SkillView {
        self.engine().at_shared(&self.state())
    }

    /// The current state.
    pub fn state(&self) -> Arc<SkillState> {
        Arc::clone(&self.0.state.lock().state)
    }

    /// The state to save, for [`SkillSessionBuilder::saved_state`].
    pub fn save(&self) -> SavedState {
        let engine = self.engine();
        let view = engine.catalog_view();
        let metadata = SkillMetadata::of_view(&view);
        let mut eager = std::collections::BTreeMap::clone(&engine.eager_resources());
        eager.retain(|name, _| view.get(name).is_some());
        let state = SkillState::clone(&self.state());
        SavedState { metadata, state, secret: Some(engine.secret().clone()), eager }
    }

    /// Subscribes to all later changes.
    pub fn events(&self) -> broadcast::Receiver<SkillEvent> {
        self.engine().events()
    }

    /// Loads a skill for the model, with arguments if it takes some; see [`SkillView::load`].
    ///
    /// # Errors
    ///
    /// The skill was not loaded. Nothing has changed.
    pub async fn load(&self, name: &str, arguments: Option<&str>) -> Result<SkillAnswer, SkillError> {
        let mut attempt = 1;
        loop {
            let prepared = self.drive(self.view().load(name, arguments, None)).await?;
            match self.hold(|state| prepared.finish(state)) {
                // It was loaded at first, and another call has unloaded it meanwhile.
                Err(SkillError::NotLoaded { .. }) if attempt < MAX_LOAD_ATTEMPTS => attempt += 1,
                finished => return finished,
            }
        }
    }

    /// Starts a skill that a person typed; see [`SkillView::invoke`].
    ///
    /// # Errors
    ///
    /// The skill was not loaded. Nothing has changed.
    pub async fn invoke(&self, line: &str) -> Result<SkillAnswer, SkillError> {
        let prepared = self.drive(self.view().invoke(line)).await?;
        self.hold(|state| prepared.finish(state))
    }

    /// [`SkillSession::invoke`] with an asker.
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
    /// The skill is not loaded.
    pub fn unload(&self, name: &str) -> Result<SkillAnswer, SkillError> {
        let engine = self.engine();
        self.hold(|state| engine.at(state).unload(name))
    }

    /// The paths of a skill's documents; see [`SkillView::list_documents`].
    ///
    /// # Errors
    ///
    /// The skill is not visible to the agent, or prowess must ask a person before it shows any of it.
    pub async fn list_documents(&self, name: &str) -> Result<SkillAnswer, SkillError> {
        self.drive(self.view().list_documents(name)).await
    }

    /// Selects which documents of a loaded skill are in context.
    ///
    /// # Errors
    ///
    /// The skill is not loaded, a document does not exist or cannot be read, or a budget does not allow it. Nothing has
    /// changed.
    pub async fn select_documents(
        &self,
        name: &str,
        mode: SelectMode,
        choice: DocumentChoice,
    ) -> Result<SkillAnswer, SkillError> {
        let prepared = self.drive(self.view().select_documents(name, mode, choice)).await?;
        self.hold(|state| prepared.finish(state))
    }

    /// The section of the system prompt about skills; see [`SkillView::prompt`].
    pub fn prompt(&self) -> prowess_catalog::overview::Rendered {
        self.view().prompt()
    }

    /// The tools for skills; see [`SkillService::tools`].
    pub fn tools(&self) -> Arc<[ToolSpec]> {
        self.service().tools(&self.view())
    }

    /// Calls one of [`SkillSession::tools`]. The answer to a wrong call says what is wrong. If the call needs a reply, only
    /// the front ends of the broker are asked.
    pub async fn call(&self, tool: &str, arguments: Value) -> SkillToolAnswer {
        without_question(self.attempt(tool, arguments, &NoAsker).await)
            .unwrap_or_else(|error| SkillToolAnswer::from(Err(error)))
    }

    /// [`SkillSession::call`] with an asker.
    pub async fn attempt(&self, tool: &str, arguments: Value, asker: &dyn Asker) -> Outcome<SkillToolAnswer> {
        match self.service().call(&self.view(), tool, arguments, asker).await {
            Outcome::Done(prepared) => Outcome::Done(self.finish(prepared)),
            Outcome::Asks(question) => Outcome::Asks(question),
            Outcome::Refused(error) => Outcome::Refused(error),
        }
    }

    /// Finishes a call that this session's service prepared.
    pub fn finish(&self, prepared: PreparedCall) -> SkillToolAnswer {
        self.commit(|state| Ok(prepared.finish(state)), |answer| &answer.deltas)
            .unwrap_or_else(|error| SkillToolAnswer::from(Err(error)))
    }

    /// Everything that one model call needs, from the same state.
    pub async fn model_view(&self) -> ModelView {
        let loaded = self.loaded_section().await;
        let view = self.view();
        ModelView { prompt: view.prompt(), tools: self.service().tools(&view), loaded }
    }

    /// The section of the system message with the text of loaded skills; see [`SkillView::loaded_section`].
    pub async fn loaded_section(&self) -> LoadedSection {
        self.section(SkillView::loaded_section).await
    }

    /// The text to put back into context after compaction; see [`SkillView::put_back`].
    pub async fn put_back<'a>(
        &self,
        kept: impl IntoIterator<Item = &'a str>,
        budget: Option<usize>,
    ) -> LoadedSection {
        let kept: Vec<&str> = kept.into_iter().collect();
        self.section(|view| view.put_back(kept.iter().copied(), budget)).await
    }

    async fn section(&self, make: impl Fn(&SkillView) -> Operation<LoadedSection>) -> LoadedSection {
        // Another attempt is needed only after another change, so this ends.
        loop {
            let view = self.view();
            let section = self.drive(make(&view)).await.unwrap_or_else(|error| {
                tracing::error!(%error, "Cannot assemble the text of loaded skills");
                LoadedSection::default()
            });
            if section.deltas.is_empty() {
                return section;
            }
            // Its deltas fit only the state that it was made for.
            let if_unchanged =
                |state: &Arc<SkillState>| Ok(Arc::ptr_eq(state, view.state()).then_some(section));
            if let Ok(Some(section)) = self.commit(if_unchanged, section_deltas) {
                return section;
            }
        }
    }

    /// Takes a newer snapshot of the catalog; see [`SkillService::refresh`].
    pub async fn refresh(&self, catalog: &Catalog) -> Refreshed {
        // Under the lock, so that nothing is loaded meanwhile.
        let refreshed = {
            let locked = self.0.state.lock();
            self.engine().take_catalog(catalog, &locked.state)
        };
        self.service().discover_eagerly().await;
        refreshed
    }

    /// Applies the deltas that `decide` returns, such as those of [`SkillView::note_files`],
    /// [`SkillView::after_model_call`] and [`SkillView::end_turn`]. If they do not fit, it applies none. Returns the applied
    /// deltas. It holds the session's lock, so `decide` must not use the session.
    pub fn change(&self, decide: impl FnOnce(&SkillView) -> Vec<SkillDelta>) -> Vec<SkillDelta> {
        let engine = self.engine();
        self.commit(|state| Ok(decide(&engine.at_shared(state))), |deltas| deltas).unwrap_or_default()
    }

    /// Drives an operation. Only the front ends of the broker are asked.
    async fn drive<T: Send + 'static>(&self, operation: Operation<T>) -> Result<T, SkillError> {
        without_question(operation.drive(self.service().files(), &NoAsker).await)
    }

    /// Finishes a prepared operation, such as a [`PreparedLoad`](crate::load::PreparedLoad), with the current state, and
    /// applies all its deltas. It holds the session's lock, so `finish` must not use the session.
    ///
    /// # Errors
    ///
    /// It cannot be finished, or its deltas do not fit. Nothing has changed.
    pub fn hold(
        &self,
        finish: impl FnOnce(&SkillState) -> Result<SkillAnswer, SkillError>,
    ) -> Result<SkillAnswer, SkillError> {
        self.commit(|state| finish(state), |answer| &answer.deltas)
    }

    /// Decides with the current state, and applies all deltas of the decision or none.
    fn commit<T>(
        &self,
        decide: impl FnOnce(&Arc<SkillState>) -> Result<T, SkillError>,
        deltas: impl Fn(&T) -> &[SkillDelta],
    ) -> Result<T, SkillError> {
        let mut locked = self.0.state.lock();
        let locked = &mut *locked;
        let decided = decide(&locked.state)?;
        let Some(first) = deltas(&decided).first() else { return Ok(decided) };
        let (engine, all) = (self.engine(), deltas(&decided));
        let after = engine.after(&locked.state, all).map_err(|conflict| {
            conflict_error(engine.options(), first.skill(), all, conflict, &locked.state)
        })?;
        locked.state = Arc::new(after);
        for delta in all {
            locked.sequence += 1;
            engine.publish(|| SkillEvent::Changed { sequence: locked.sequence, delta: delta.clone() });
        }
        Ok(decided)
    }
}

#[cfg(feature = "run")]
impl SkillSession {
    /// Runs a command of a skill; see [`SkillService::run`].
    ///
    /// # Errors
    ///
    /// The command did not run.
    pub async fn run(&self, request: prowess_workspace::RunRequest) -> Result<SkillAnswer, SkillError> {
        let answer = without_question(self.service().run(&self.view(), request, &NoAsker).await)?;
        self.hold(|_| Ok(answer))
    }

    /// Runs a command of a skill, streams its output and returns the report.
    ///
    /// # Errors
    ///
    /// The command did not run.
    pub async fn run_watched(
        &self,
        request: prowess_workspace::RunRequest,
        output: &dyn prowess_workspace::executor::OutputSink,
    ) -> Result<prowess_workspace::RunReport, SkillError> {
        without_question(self.service().run_watched(&self.view(), request, output, &NoAsker).await)
    }
}

fn section_deltas(section: &Option<LoadedSection>) -> &[SkillDelta] {
    section.as_ref().map_or(&[], |section| &section.deltas)
}

/// The result of an operation that was driven with [`NoAsker`].
fn without_question<T>(outcome: Outcome<T>) -> Result<T, SkillError> {
    match outcome {
        Outcome::Done(done) => Ok(done),
        Outcome::Refused(error) => Err(error),
        // `NoAsker` keeps no questions, so the permissions have refused this already.
        Outcome::Asks(_) => Err(SkillError::NeedsReply),
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
