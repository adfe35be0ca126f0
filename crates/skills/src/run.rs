//! Layer 3: runs of a skill's commands, in a workspace and behind the gates.

#[cfg(feature = "backend")]
pub(crate) mod backend_stage;
mod binding;
mod gates;
mod given;
pub(crate) mod interactive;
mod local_inputs;
mod preapproval;
mod report;
mod writable;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use prowess_permission::Asker;
use prowess_workspace::executor::OutputSink;
use prowess_workspace::live::LiveError;
use prowess_workspace::tree::Tree;
use prowess_workspace::writable::WritablePath;
use prowess_workspace::{Limits, LiveOptions, LiveRuns, Network, RunContext, RunReport, RunRequest, Runner};

use self::interactive::{PollRequest, StartRequest, TypeRequest};
use self::report::shorten_report;
pub use self::report::{MAX_SHOWN_FILES, MAX_SHOWN_OUTPUT, report_text};
use crate::answer::SkillAnswer;
use crate::delta::SkillDelta;
use crate::dialect::RunToolInfo;
use crate::error::SkillError;
use crate::files::SkillFiles;
use crate::load::{Caller, loaded_from};
use crate::operation::Halt;
use crate::options::SkillPaths;
use crate::run_summary::RunSummary;
use crate::view::SkillView;

/// How a session runs commands.
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
///     .permissions(Permissions::unattended(Policy::new().rules(RuleSource::User, rules)))
///     .runs(RunSetup::new(runner, "session-1"))
///     .build()
///     .await;
/// let answer = session.run(RunRequest::new("greet", "echo hello")).await?;
/// assert_eq!(answer.data.unwrap()["stdout"], "hello\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunSetup {
    /// Stages skills, runs commands and collects files.
    pub runner: Runner,
    /// The workspace id. The same id finds the same files, also in another process.
    pub workspace: String,
    /// The limits of a command.
    pub limits: Limits,
    /// The hosts that a command may ask for. Each host also needs permission.
    pub network: Network,
    /// The limits of interactive commands: how many, and how long without input.
    pub live: LiveOptions,
    /// The paths that the model sees. By default it has no project.
    pub tree: Tree,
    /// The directories of the project that a command may write. Only sandbox levels with mounts can do that.
    pub writable: Vec<WritablePath>,
}

impl RunSetup {
    /// Runs in the workspace with this id, with default limits and without network.
    pub fn new(runner: Runner, workspace: impl Into<String>) -> Self {
        let workspace = workspace.into();
        Self {
            tree: Tree::new(runner.workspaces.path_of(&workspace)),
            runner,
            workspace,
            limits: Limits::default(),
            network: Network::None,
            live: LiveOptions::default(),
            writable: Vec::new(),
        }
    }

    /// The real paths of the directories that a command may write.
    fn writable_directories(&self) -> Vec<PathBuf> {
        let project = self.tree.project_directory().filter(|_| self.tree.has_own_names());
        let below = |project: &Path| self.writable.iter().map(|path| project.join(path.as_str())).collect();
        project.map(below).unwrap_or_default()
    }

    /// The hosts that a command may ask for.
    pub(crate) fn hosts(&self) -> Vec<String> {
        match &self.network {
            Network::Hosts(rules) => rules.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    }
}

/// Runs commands of skills, and keeps the running interactive ones. Clones are handles to the same runner.
///
/// A [`SkillService`](crate::SkillService) has one.
#[derive(Clone, Debug)]
pub struct SkillRunner {
    setup: Arc<RunSetup>,
    live: Arc<LiveRuns>,
}

impl SkillRunner {
    /// A runner with this setup. Dropping the last handle ends all running commands.
    pub fn new(setup: RunSetup) -> Self {
        let live = Arc::new(LiveRuns::new(setup.live.clone()));
        Self { setup: Arc::new(setup), live }
    }

    /// What the run tools say about hosts and limits.
    pub(crate) fn tool_info(&self) -> RunToolInfo {
        let directories = self.setup.writable_directories();
        let writable = directories.iter().filter_map(|path| self.setup.tree.shown(path)).collect();
        RunToolInfo { hosts: self.setup.hosts(), writable, timeout: self.setup.limits.timeout.as_secs() }
    }

    /// The command line of an interactive run.
    pub(crate) fn command(&self, run_id: &str) -> Option<String> {
        self.live.command(run_id)
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
        let RunSetup { runner, workspace, .. } = &*self.setup;
        self.live.start(runner, workspace, request, context, terminal).await
    }
}

/// A call of a tool that runs commands.
#[derive(Debug, PartialEq)]
pub(crate) enum RunCall {
    Run(Box<RunRequest>),
    Start(Box<StartRequest>),
    Type(TypeRequest),
    Poll(PollRequest),
    Kill { run_id: String },
}

/// Makes runs for one caller: it has the view, the files, the runner and the asker.
#[derive(Clone, Copy)]
pub(crate) struct RunDriver<'a> {
    pub(crate) view: &'a SkillView,
    pub(crate) files: &'a dyn SkillFiles,
    pub(crate) runner: Option<&'a SkillRunner>,
    pub(crate) asker: &'a dyn Asker,
    pub(crate) caller: Caller,
    /// Sees the output of a command while the command runs.
    pub(crate) output: &'a dyn OutputSink,
}

impl<'a> RunDriver<'a> {
    pub(crate) async fn call(self, call: RunCall) -> Result<SkillAnswer, Halt> {
        match call {
            RunCall::Run(request) => self.run(*request).await,
            RunCall::Start(request) => self.start(*request).await,
            RunCall::Type(request) => self.type_into(request).await,
            RunCall::Poll(request) => self.poll(request).await,
            RunCall::Kill { run_id } => self.kill(&run_id).await,
        }
    }

    /// Runs a command to its end.
    pub(crate) async fn run(self, request: RunRequest) -> Result<SkillAnswer, Halt> {
        let name = request.skill.clone();
        let (report, preapproved_by) = self.run_to_end(request, None).await?;
        let mut data = serde_json::to_value(&report).unwrap_or_default();
        let has_tree = self.view.engine().options().skill_paths != SkillPaths::Real;
        if let Some(runner) = self.runner.filter(|_| has_tree) {
            report::add_paths(&mut data, &runner.setup.tree);
        }
        self.view.engine().note_use(&name);
        let deltas = self.deltas_of_run(&name);
        let ran = Some(Box::new(RunSummary::from(&report)));
        let text = shorten_report(data.clone()).to_string();
        Ok(SkillAnswer { text, deltas, data: Some(data), ran, preapproved_by })
    }

    /// The changes after a run of a skill: it was used. The output of a server's skill counts as its text, even if the skill
    /// is not loaded.
    fn deltas_of_run(self, name: &str) -> Vec<SkillDelta> {
        let used = self.view.used(name);
        let from = self.view.visible_to_model(name).ok().and_then(|entry| loaded_from(&entry));
        let is_known = self.view.state().from_servers().contains_key(name);
        from.filter(|_| !is_known)
            .map(|from| SkillDelta::Led { name: name.to_owned(), server: from.server })
            .into_iter()
            .chain(used)
            .collect()
    }

    pub(crate) async fn run_watched(
        self,
        request: RunRequest,
        stdin: Option<Bytes>,
    ) -> Result<RunReport, Halt> {
        Ok(self.run_to_end(request, stdin).await?.0)
    }

    /// Runs a command to its end. Also returns the skill whose `allowed-tools` settled a question.
    async fn run_to_end(
        self,
        request: RunRequest,
        stdin: Option<Bytes>,
    ) -> Result<(RunReport, Option<String>), Halt> {
        let approved = self.pass_gates(&request, None).await?;
        let find = approved.skills();
        let input_gate = approved.input_gate(self, &request);
        let mut context = approved.context(&find, &input_gate);
        (context.output, context.stdin) = (self.output, stdin);
        let setup = &approved.runner.setup;
        let ran = setup.runner.run(&setup.workspace, approved.request.clone(), context).await;
        let report = ran.map_err(|error| SkillError::Run { name: request.skill.clone(), error })?;
        Ok((report, approved.preapproved_by.clone()))
    }

    /// The running commands, if there is a runner. `run_id` is for the error.
    fn live(self, run_id: &str) -> Result<&'a LiveRuns, SkillError> {
        let none = || SkillError::Live(LiveError::Unknown(run_id.to_owned()));
        self.runner.map(|runner| &*runner.live).ok_or_else(none)
    }
}
