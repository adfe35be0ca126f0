//! The service: an engine with files and a runner. The caller owns the state.

use std::sync::{Arc, Mutex, PoisonError};

use prowess_catalog::Catalog;
#[cfg(feature = "run")]
use prowess_permission::Asker;
use prowess_permission::NoAsker;
#[cfg(feature = "run")]
use prowess_workspace::{
    RunReport, RunRequest,
    executor::{NoSink, OutputSink},
    stage::StageSource,
};

#[cfg(feature = "run")]
use crate::answer::SkillAnswer;
use crate::dialect::{self, RunToolInfo, ToolSpec};
use crate::embeddings::Embeddings;
use crate::engine::SkillEngine;
use crate::files::SkillFiles;
use crate::frozen::FrozenPrompt;
#[cfg(feature = "run")]
use crate::load::Caller;
#[cfg(feature = "run")]
use crate::operation::Outcome;
use crate::refresh::Refreshed;
#[cfg(feature = "run")]
use crate::run::{RunDriver, SkillRunner};
use crate::state::SkillState;
use crate::view::SkillView;
use crate::visibility::VisibleSkills;

/// A [`SkillEngine`] with the files of its skills and a runner. It has no state: an agent keeps the state in the log of its
/// thread, and a [`SkillSession`](crate::SkillSession) keeps it in memory.
///
/// Clones are handles to the same service. [`SkillSessionBuilder::build_service`](crate::SkillSessionBuilder::build_service) makes one.
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_skills::{SkillSession, SkillState};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let service = SkillSession::builder(Catalog::empty()).build_service().await;
/// let state = SkillState::default(); // yours
/// assert_eq!(service.tools(&service.engine().at(&state))[0].name, "load_skill");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SkillService {
    engine: SkillEngine,
    files: Arc<dyn SkillFiles>,
    /// Searches by meaning.
    embeddings: Option<Arc<Embeddings>>,
    #[cfg(feature = "run")]
    runner: Option<SkillRunner>,
    /// The last list of tools: every model call needs it, and it seldom changes.
    cached_tools: Arc<Mutex<Option<CachedTools>>>,
}

/// A list of tools, and what it was made from.
#[derive(Debug)]
struct CachedTools {
    visible: Arc<VisibleSkills>,
    /// The names that a model may load, if they depend on files in play.
    offered: Option<Vec<String>>,
    frozen: Option<Arc<FrozenPrompt>>,
    tools: Arc<[ToolSpec]>,
}

impl SkillService {
    pub(crate) fn new(
        engine: SkillEngine,
        files: Arc<dyn SkillFiles>,
        embeddings: Option<Arc<Embeddings>>,
    ) -> Self {
        Self {
            engine,
            files,
            embeddings,
            #[cfg(feature = "run")]
            runner: None,
            cached_tools: Arc::default(),
        }
    }

    /// The tools for skills. Descriptions and schemas follow the catalog, so get them for every model call. They are cached
    /// until something changes.
    pub fn tools(&self, view: &SkillView) -> Arc<[ToolSpec]> {
        let visible = view.visible();
        let frozen = view.frozen().cloned();
        let offered = (visible.has_paths() && frozen.is_none()).then(|| view.offered_names());
        let mut cached = self.cached_tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = &*cached
            && Arc::ptr_eq(&cached.visible, visible)
            && cached.offered == offered
            && cached.frozen.as_ref().map(Arc::as_ptr) == frozen.as_ref().map(Arc::as_ptr)
        {
            return Arc::clone(&cached.tools);
        }
        let tools: Arc<[ToolSpec]> = dialect::tools(view, self.run_tool_info().as_ref()).into();
        *cached =
            Some(CachedTools { visible: Arc::clone(visible), offered, frozen, tools: Arc::clone(&tools) });
        tools
    }

    #[cfg(feature = "run")]
    pub(crate) fn with_runner(mut self, runner: Option<SkillRunner>) -> Self {
        self.runner = runner;
        self
    }

    /// The engine: visible skills, options and permissions.
    pub fn engine(&self) -> &SkillEngine {
        &self.engine
    }

    /// Where skills are read from.
    pub fn files(&self) -> &dyn SkillFiles {
        &*self.files
    }

    /// What searches by meaning, if anything does.
    pub(crate) fn embeddings(&self) -> Option<&Arc<Embeddings>> {
        self.embeddings.as_ref()
    }

    /// What the run tools say about hosts and limits; `None` if there is no runner.
    pub(crate) fn run_tool_info(&self) -> Option<RunToolInfo> {
        #[cfg(feature = "run")]
        return self.runner.as_ref().map(SkillRunner::tool_info);
        #[cfg(not(feature = "run"))]
        None
    }

    /// Takes a newer snapshot of the catalog. Loaded skills stay loaded. The result names those that have changed, and
    /// [`SkillView::stale`](crate::SkillView::stale) does so later.
    pub async fn refresh(&self, catalog: &Catalog, state: &SkillState) -> Refreshed {
        let refreshed = self.engine.take_catalog(catalog, &Arc::new(state.clone()));
        self.discover_eagerly().await;
        refreshed
    }

    /// Lists the resources of all skills, with eager discovery.
    pub(crate) async fn discover_eagerly(&self) {
        // It asks nobody. Resources that cannot be listed are left out.
        let _ = self.engine.discovery().drive(self.files(), &NoAsker).await;
    }

    #[cfg(feature = "run")]
    pub(crate) fn run_driver<'a>(&'a self, view: &'a SkillView, asker: &'a dyn Asker) -> RunDriver<'a> {
        let (files, runner) = (&*self.files, self.runner.as_ref());
        RunDriver { view, files, runner, asker, caller: Caller::Model, output: &NoSink }
    }

    /// The command line of an interactive run, if there is one with this id.
    pub fn running_command(&self, run_id: &str) -> Option<String> {
        #[cfg(feature = "run")]
        return self.runner.as_ref()?.command(run_id);
        #[cfg(not(feature = "run"))]
        {
            let _ = run_id;
            None
        }
    }

    /// The source of a skill's files for a run, if the model may see the skill. It passes no gate: the caller must do that.
    #[cfg(feature = "run")]
    pub fn stage_source(&self, view: &SkillView, name: &str) -> Option<StageSource> {
        self.files.stage_source(&view.visible_to_model(name).ok()?)
    }

    /// Runs a command of a skill. A command that fails or takes too long also has an answer.
    ///
    /// A run needs these permissions:
    ///
    /// - kind `skill`, like a load: for the skill, and for every skill that an input names.
    /// - kind `run`: for the command. The subjects are [`owned_subject`](prowess_permission::owned_subject) of the skill's
    ///   name and the command, and of everything that changes the command's meaning: `kit env NAME=value`,
    ///   `kit cwd scripts`, `kit type into COMMAND`. An approval is bound to all files of these skills and to the whole
    ///   request.
    /// - kind `network`: for each host. The host must be in [`RunSetup::network`](crate::RunSetup::network). The subject is
    ///   the host, and an approval is bound like that of the run.
    /// - kind `read`: for each local file among the inputs, by its real path. A directory is refused if a rule denies
    ///   something in it, or if it contains files of a skill that the agent may not see.
    ///
    /// For a server's skill, and while the model has text of one, prowess asks before every run.
    #[cfg(feature = "run")]
    pub async fn run(
        &self,
        view: &SkillView,
        request: RunRequest,
        asker: &dyn Asker,
    ) -> Outcome<SkillAnswer> {
        self.run_driver(view, asker).run(request).await.into()
    }

    /// [`SkillService::run`] that streams the output and returns the report.
    #[cfg(feature = "run")]
    pub async fn run_watched(
        &self,
        view: &SkillView,
        request: RunRequest,
        output: &dyn OutputSink,
        asker: &dyn Asker,
    ) -> Outcome<RunReport> {
        RunDriver { output, ..self.run_driver(view, asker) }.run_watched(request, None).await.into()
    }

    /// [`SkillService::run_watched`] for a command that a person typed, with any bytes as standard input.
    ///
    /// It needs the same permissions as a model's run, and `asker` replies for the person. A person may also run skills that
    /// models must not start, and use files of the skill itself and of skills that are not loaded as inputs. Errors about
    /// inputs may name files and skills that a model must not see.
    #[cfg(feature = "run")]
    pub async fn run_typed(
        &self,
        view: &SkillView,
        request: RunRequest,
        stdin: Option<bytes::Bytes>,
        output: &dyn OutputSink,
        asker: &dyn Asker,
    ) -> Outcome<RunReport> {
        let driver = RunDriver { caller: Caller::Person, output, ..self.run_driver(view, asker) };
        driver.run_watched(request, stdin).await.into()
    }
}
