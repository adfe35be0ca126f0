//! Layer 3: a skill's commands, in the session's workspace and behind the gate.

mod binding;
mod gates;
mod report;

use std::sync::Arc;

use bytes::Bytes;
use prowess_permission::Asker;
use prowess_workspace::executor::{NoSink, OutputSink};
use prowess_workspace::live::LiveError;
use prowess_workspace::{Limits, LiveOptions, LiveRuns, Network, RunContext, RunReport, RunRequest, Runner};

pub(crate) use self::report::shown;
pub use self::report::{MAX_SHOWN_FILES, MAX_SHOWN_OUTPUT, report_text};
use crate::delta::SkillDelta;
use crate::dialect::RunSetting;
use crate::error::SkillError;
use crate::files::SkillFiles;
use crate::load::{Caller, loaded_from};
use crate::run_summary::RunSummary;
use crate::session::SkillAnswer;
use crate::step::Halt;
use crate::view::SkillView;

/// What a session runs commands with.
///
/// ```
/// use std::sync::Arc;
/// use prowess_permission::{Decision, RuleSource, Permissions, Policy, Rule};
/// use prowess_skills::{RunSetup, SkillSession};
/// use prowess_workspace::testing::FakeExecutor;
/// use prowess_workspace::{RunRequest, Runner, Workspaces};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// # let place = scratch.path().join("workspaces");
/// let runner = Runner {
///     workspaces: Workspaces::open(place)?,
///     artifacts: None,
///     executor: Some(Arc::new(FakeExecutor)), // `LocalExecutor` outside of tests
/// };
/// let rules = [Rule::new("run", "*", Decision::Allow)];
/// let session = SkillSession::builder(catalog)
///     .permissions(Permissions::unattended(Policy::new().with(RuleSource::User, rules)))
///     .runs(RunSetup::new(runner, "session-1"))
///     .start()
///     .await;
/// let answer = session.run(RunRequest::new("greet", "echo hello")).await?;
/// assert_eq!(answer.data.unwrap()["stdout"], "hello\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunSetup {
    /// Stages, runs and collects.
    pub runner: Runner,
    /// Whose workspace is used: the same word finds the same files again, in another process too.
    pub workspace: String,
    /// How much a command may use.
    pub limits: Limits,
    /// Which hosts a command may ask for at most. Each that it asks for passes the gate.
    pub network: Network,
    /// How long commands that go on may be left alone, and how many there may be.
    pub live: LiveOptions,
}

impl RunSetup {
    /// Runs in the workspace of this session, with the usual limits and without network.
    pub fn new(runner: Runner, workspace: impl Into<String>) -> Self {
        Self {
            runner,
            workspace: workspace.into(),
            limits: Limits::default(),
            network: Network::None,
            live: LiveOptions::default(),
        }
    }

    /// The hosts that a command may ask for.
    pub(crate) fn hosts(&self) -> Vec<String> {
        match &self.network {
            Network::Hosts(rules) => rules.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    }
}

/// What runs commands of skills, and the commands that go on. Clones are handles on the same.
///
/// A [`SkillService`](crate::SkillService) has one, and runs with it.
#[derive(Clone, Debug)]
pub struct SkillRunner {
    runs: Arc<RunSetup>,
    live: Arc<LiveRuns>,
}

impl SkillRunner {
    /// Runs commands so. Those that go on end with the last handle.
    pub fn new(runs: RunSetup) -> Self {
        let live = Arc::new(LiveRuns::new(runs.live.clone()));
        Self { runs: Arc::new(runs), live }
    }

    /// What a command may use, for its schema.
    pub(crate) fn setting(&self) -> RunSetting {
        RunSetting { hosts: self.runs.hosts(), timeout: self.runs.limits.timeout.as_secs() }
    }

    pub(crate) fn check_room(&self) -> Result<(), LiveError> {
        self.live.check_room()
    }

    pub(crate) async fn start(
        &self,
        request: RunRequest,
        context: &RunContext<'_>,
        terminal: bool,
    ) -> Result<String, LiveError> {
        let RunSetup { runner, workspace, .. } = &*self.runs;
        self.live.start(runner, workspace, request, context, terminal).await
    }
}

/// A run in a moment: what is loaded, where files are, and who can be asked.
#[derive(Clone, Copy)]
pub(crate) struct Running<'a> {
    pub(crate) view: &'a SkillView,
    pub(crate) files: &'a dyn SkillFiles,
    pub(crate) runs: Option<&'a SkillRunner>,
    pub(crate) asker: &'a dyn Asker,
    /// Who wants it.
    pub(crate) caller: Caller,
}

impl<'a> Running<'a> {
    pub(crate) async fn run(self, request: RunRequest) -> Result<SkillAnswer, Halt> {
        let name = request.skill.clone();
        let report = self.run_watched(request, None, &NoSink).await?;
        let data = serde_json::to_value(&report).unwrap_or_default();
        let deltas = self.led_by_run(&name);
        let ran = Some(Box::new(RunSummary::from(&report)));
        Ok(SkillAnswer { text: shown(data.clone()).to_string(), deltas, data: Some(data), ran })
    }

    /// What a server's skill puts out is its words, loaded or not.
    pub(crate) fn led_by_run(self, name: &str) -> Vec<SkillDelta> {
        let from = self.view.visible_to_model(name).ok().and_then(|entry| loaded_from(&entry));
        let is_known = self.view.state().from_servers().contains_key(name);
        let led = from.filter(|_| !is_known);
        led.map(|from| SkillDelta::Led { name: name.to_owned(), server: from.server }).into_iter().collect()
    }

    pub(crate) async fn run_watched(
        self,
        request: RunRequest,
        stdin: Option<Bytes>,
        output: &dyn OutputSink,
    ) -> Result<RunReport, Halt> {
        let passed = self.pass_gates(&request, None).await?;
        let find = passed.skills();
        let host = passed.host(self, &request);
        let mut context = passed.context(&find, &host);
        (context.output, context.stdin) = (output, stdin);
        let runs = &passed.runs.runs;
        let ran = runs.runner.run(&runs.workspace, passed.request.clone(), context).await;
        Ok(ran.map_err(|error| SkillError::Run { name: request.skill.clone(), error })?)
    }

    /// The commands that go on, one of which is meant.
    pub(crate) fn live(self, id: &str) -> Result<&'a LiveRuns, SkillError> {
        let none = || SkillError::Live(LiveError::Unknown(id.to_owned()));
        self.runs.map(|runs| &*runs.live).ok_or_else(none)
    }
}
