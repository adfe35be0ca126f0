//! Skills with what they are read from and run by: what every host of skills shares, whoever owns the state.

use std::sync::{Arc, Mutex, PoisonError};

use prowess_catalog::Catalog;
#[cfg(feature = "run")]
use prowess_permission::Asker;
use prowess_permission::NoAsker;
#[cfg(feature = "run")]
use prowess_workspace::{RunReport, RunRequest, executor::OutputSink, stage::StageSource};

use crate::dialect::{self, RunSetting, ToolSpec};
use crate::engine::SkillEngine;
use crate::files::SkillFiles;
use crate::known::Known;
#[cfg(feature = "run")]
use crate::load::Caller;
use crate::refresh::Refreshed;
#[cfg(feature = "run")]
use crate::run::{Running, SkillRunner};
#[cfg(feature = "run")]
use crate::session::SkillAnswer;
use crate::state::SkillState;
#[cfg(feature = "run")]
use crate::step::Outcome;
use crate::view::SkillView;

/// A [`SkillEngine`] with what its skills are read from and run by. It owns no state: an agent's is in the log of its
/// thread, a [`SkillSession`](crate::SkillSession) holds one.
///
/// Clones are handles on the same; [`SessionBuilder::open`](crate::SessionBuilder::open) makes one.
///
/// ```
/// use prowess_catalog::Catalog;
/// use prowess_skills::{SkillSession, SkillState};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let service = SkillSession::builder(Catalog::empty()).open().await;
/// let state = SkillState::default(); // the host's own
/// assert_eq!(service.tools(&service.engine().at(&state))[0].name, "load_skill");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SkillService {
    engine: SkillEngine,
    files: Arc<dyn SkillFiles>,
    #[cfg(feature = "run")]
    runs: Option<SkillRunner>,
    /// The tools that were asked for last: every call of a model needs them, and they seldom change.
    made: Arc<Mutex<Option<MadeTools>>>,
}

/// Tools, and what they were made for.
#[derive(Debug)]
struct MadeTools {
    known: Arc<Known>,
    /// The names that a model may load, where files in play decide that.
    offered: Option<Vec<String>>,
    tools: Arc<[ToolSpec]>,
}

impl SkillService {
    pub(crate) fn new(engine: SkillEngine, files: Arc<dyn SkillFiles>) -> Self {
        Self {
            engine,
            files,
            #[cfg(feature = "run")]
            runs: None,
            made: Arc::default(),
        }
    }

    /// The tools that a model handles skills with. Descriptions and schemas follow the catalog: ask again for every model
    /// call. As long as nothing about them has changed they are the same ones.
    pub fn tools(&self, view: &SkillView) -> Arc<[ToolSpec]> {
        let known = view.known();
        let offered = known.offers_by_files().then(|| view.offered_names());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*made
            && Arc::ptr_eq(&made.known, known)
            && made.offered == offered
        {
            return Arc::clone(&made.tools);
        }
        let tools: Arc<[ToolSpec]> = dialect::tools(view, self.run_setting().as_ref()).into();
        *made = Some(MadeTools { known: Arc::clone(known), offered, tools: Arc::clone(&tools) });
        tools
    }

    #[cfg(feature = "run")]
    pub(crate) fn with_runs(mut self, runs: Option<SkillRunner>) -> Self {
        self.runs = runs;
        self
    }

    /// What its agent may know, and how it behaves.
    pub fn engine(&self) -> &SkillEngine {
        &self.engine
    }

    /// Where skills are read from.
    pub fn files(&self) -> &dyn SkillFiles {
        &*self.files
    }

    /// Where commands can be run, what they may use.
    pub(crate) fn run_setting(&self) -> Option<RunSetting> {
        #[cfg(feature = "run")]
        return self.runs.as_ref().map(SkillRunner::setting);
        #[cfg(not(feature = "run"))]
        None
    }

    /// Goes on with a newer snapshot of the catalog. Loaded skills stay loaded; what became of those that changed is in
    /// the answer, and [`SkillView::stale`](crate::SkillView::stale) keeps saying it.
    pub async fn refresh(&self, catalog: &Catalog, state: &SkillState) -> Refreshed {
        let refreshed = self.engine.take_catalog(catalog, &Arc::new(state.clone()));
        self.discover_eagerly().await;
        refreshed
    }

    /// Looks for the resources of all skills, with eager discovery.
    pub(crate) async fn discover_eagerly(&self) {
        // It asks nobody, and what cannot be listed is left out.
        let _ = self.engine.discovery().drive(self.files(), &NoAsker).await;
    }

    #[cfg(feature = "run")]
    pub(crate) fn running<'a>(&'a self, view: &'a SkillView, asker: &'a dyn Asker) -> Running<'a> {
        Running { view, files: &*self.files, runs: self.runs.as_ref(), asker, caller: Caller::Model }
    }

    /// Where the files of a skill are that the model may know of, to run something of it. The gates are not passed:
    /// whoever runs something sees to that.
    #[cfg(feature = "run")]
    pub fn stage_source(&self, view: &SkillView, name: &str) -> Option<StageSource> {
        self.files.stage_source(&view.visible_to_model(name).ok()?)
    }

    /// Runs a command of a skill, once the gate has let it pass. A command that fails or takes too long has an
    /// answer like any other.
    ///
    /// The skill itself and every skill that an input names pass the gate as for a load. Then it is asked with
    /// kind `run`; the subjects are the skill's name and the command, [joined](prowess_permission::owned_subject), and what gives
    /// the command another meaning: `kit env NAME=value`, `kit cwd scripts`, `kit type into COMMAND`. An approval is bound
    /// to all files of these skills and to everything else that was asked for. Files of the host are asked about with kind
    /// `read`, by their real path; a directory comes in only if nothing in it is denied, and no file of a skill that this
    /// agent must not know of. Hosts to reach have to be in [`RunSetup::network`](crate::RunSetup::network), and each is asked
    /// about with kind `network`; the subject is the host as the rules write it. An approval of one is bound like that of
    /// the run. A run of a server's skill, and every run while the model has words of one, is asked about whatever the
    /// rules allow.
    #[cfg(feature = "run")]
    pub async fn run(
        &self,
        view: &SkillView,
        request: RunRequest,
        asker: &dyn Asker,
    ) -> Outcome<SkillAnswer> {
        self.running(view, asker).run(request).await.into()
    }

    /// [`SkillService::run`] for a host: the report itself, and its output while it is written.
    #[cfg(feature = "run")]
    pub async fn run_watched(
        &self,
        view: &SkillView,
        request: RunRequest,
        output: &dyn OutputSink,
        asker: &dyn Asker,
    ) -> Outcome<RunReport> {
        self.running(view, asker).run_watched(request, None, output).await.into()
    }

    /// [`SkillService::run_watched`] for a command that a person typed, with any bytes to read.
    ///
    /// The gates are those of a model's run, and whoever answers questions here answers for that person. A person may also
    /// run commands of skills that models must not start, and may give a skill its own files and those of skills that are
    /// not loaded. Errors about inputs name files and skills that a model must not know of.
    #[cfg(feature = "run")]
    pub async fn run_typed(
        &self,
        view: &SkillView,
        request: RunRequest,
        stdin: Option<bytes::Bytes>,
        output: &dyn OutputSink,
        asker: &dyn Asker,
    ) -> Outcome<RunReport> {
        let running = Running { caller: Caller::Person, ..self.running(view, asker) };
        running.run_watched(request, stdin, output).await.into()
    }
}
