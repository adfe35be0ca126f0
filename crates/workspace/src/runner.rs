//! A run from the request to the report: stage, run, collect, keep.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tracing::field::Empty;

use crate::artifact::{ArtifactError, ArtifactFile, ArtifactName, ArtifactNameProblem, ArtifactStore};
use crate::blocking::blocking;
use crate::collect::{CollectLimits, CollectedBytes, Collection, GlobError, Globs, VisibleSkills, collect};
use crate::command::{Command, Input, Network};
use crate::error::WorkspaceError;
use crate::executor::local::{LocalExecutor, LocalOptions};
use crate::executor::{ExecuteError, Executor, NoSink, OutputSink};
use crate::host_rule::HostRuleError;
use crate::input::{self, InputGate, InputPaths, InputSource, StagedInputs};
use crate::limits::{Limits, MAX_TIMEOUT};
use crate::path::{InnerPath, expand, expand_in, printable};
use crate::report::{MAX_REPORT_BYTES, ReportRoom, RunReport};
use crate::request::{MAX_HOSTS, RunInput, RunOutputs, RunRequest, SkillInput};
use crate::span::{count, step};
use crate::stage::{StageSource, StagedSkill, check_name};
use crate::warning::RunWarning;
use crate::workspace::{Workspace, Workspaces};

/// Why there is no report of a run. Nothing ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// No skill has that name.
    #[error("unknown skill: {0}")]
    UnknownSkill(String),
    /// The skill is not the one that was approved.
    #[error("the skill `{skill}` changed after it was approved; ask again")]
    Changed {
        /// The skill.
        skill: String,
    },
    /// The command could not be started.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The workspace, the skill or an input could not be had.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A host that was asked for is no rule for hosts.
    #[error(transparent)]
    Host(#[from] HostRuleError),
    /// A host was asked for that the run may not reach.
    #[error("the host {host} may not be reached{}", allowed_hosts(allowed))]
    HostNotAllowed {
        /// The host.
        host: String,
        /// Those that may be reached.
        allowed: Vec<String>,
    },
    /// More hosts were asked for than can be.
    #[error("a run can ask for {MAX_HOSTS} hosts at most")]
    TooManyHosts,
    /// A glob is refused.
    #[error(transparent)]
    Glob(#[from] GlobError),
    /// `name_template` or `artifact_prefix` make no names of artifacts.
    #[error(transparent)]
    ArtifactName(#[from] ArtifactNameProblem),
}

fn allowed_hosts(allowed: &[String]) -> String {
    if allowed.is_empty() {
        return ": the configuration allows no network".to_owned();
    }
    format!("; those that may are {}", allowed.join(", "))
}

/// Knows where skills are.
///
/// ```
/// use prowess_workspace::stage::StageSource;
/// use prowess_workspace::SkillSources;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Any function of a name is one.
/// let skills = |name: &str| (name == "greet").then(|| StageSource::Directory("/srv/skills/greet".into()));
/// assert!(skills.source("greet").await.is_some());
/// assert!(skills.source("dance").await.is_none());
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait SkillSources: Send + Sync {
    /// Where the files of a skill are; `None` for one that is not known, or not to this session.
    async fn source(&self, name: &str) -> Option<StageSource>;
}

#[async_trait]
impl<F: Fn(&str) -> Option<StageSource> + Send + Sync> SkillSources for F {
    async fn source(&self, name: &str) -> Option<StageSource> {
        self(name)
    }
}

/// What stands around a run: what it may have, and who sees its output.
///
/// ```
/// use prowess_workspace::input::InputPaths;
/// use prowess_workspace::stage::StageSource;
/// use prowess_workspace::{Network, RunContext};
///
/// let skills = |name: &str| (name == "greet").then(|| StageSource::Directory("/srv/skills/greet".into()));
/// let host = InputPaths(vec!["/srv/invoices".into()]);
/// let mut context = RunContext::new(&skills);
/// context.input_gate = &host;
/// context.network = Network::Hosts(vec!["pypi.org".parse()?]);
/// # Ok::<(), prowess_workspace::host_rule::HostRuleError>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RunContext<'a> {
    /// Where skills are.
    pub skills: &'a dyn SkillSources,
    /// Which files of the host may come in.
    pub input_gate: &'a dyn InputGate,
    /// Who sees output while it is written.
    pub output: &'a dyn OutputSink,
    /// How much the command may use; a request's `timeout` takes the place of the one here.
    pub limits: Limits,
    /// What the command may reach at most. It gets what the request asks for; what is not in here is an error.
    pub network: Network,
    /// The shell, an absolute path in the sandbox; bash unless the skill names another.
    pub shell: Option<String>,
    /// What the command reads from standard input, in the place of the request's: any bytes.
    pub stdin: Option<Bytes>,
    /// The digests that skills have to have, if somebody approved them: [`StagedSkill::digest`], by name.
    pub expected: BTreeMap<String, String>,
}

impl<'a> RunContext<'a> {
    /// Nothing of the host, no network, default limits, and nobody who watches.
    pub fn new(skills: &'a dyn SkillSources) -> Self {
        static NOTHING: InputPaths = InputPaths(Vec::new());
        Self {
            skills,
            input_gate: &NOTHING,
            output: &NoSink,
            limits: Limits::default(),
            network: Network::default(),
            shell: None,
            stdin: None,
            expected: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for RunContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("limits", &self.limits)
            .field("network", &self.network)
            .field("shell", &self.shell)
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}

impl PreparedRun {
    /// The name of the skill that the command belongs to.
    pub(crate) fn skill(&self) -> &str {
        &self.request.skill
    }
}

/// Runs commands of skills in the workspaces of sessions.
///
/// ```
/// use std::sync::Arc;
/// use prowess_workspace::stage::StageSource;
/// use prowess_workspace::{Artifacts, RunContext, RunRequest, Runner, Workspaces};
/// use prowess_workspace::testing::FakeExecutor;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let skill = scratch.path().join("greet");
/// # std::fs::create_dir(&skill)?;
/// let runner = Runner {
///     workspaces: Workspaces::open(scratch.path().join("workspaces"))?,
///     artifacts: Some(Arc::new(Artifacts::in_memory())),
///     executor: Some(Arc::new(FakeExecutor)), // `LocalExecutor` outside of tests
/// };
/// let skills = move |_: &str| Some(StageSource::Directory(skill.clone()));
/// let mut request = RunRequest::new("greet", "echo hello > out/greeting.txt");
/// request.output_files = vec!["out/*.txt".into()];
/// request.save_as_artifacts = true;
/// let report = runner.run("session-1", request, RunContext::new(&skills)).await?;
/// assert_eq!(report.artifact_files[0].name, "out/greeting.txt");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Runner {
    /// Where workspaces are.
    pub workspaces: Workspaces,
    /// Where artifacts are kept, if they are.
    pub artifacts: Option<Arc<dyn ArtifactStore>>,
    /// What runs commands, if anything does.
    pub executor: Option<Arc<dyn Executor>>,
}

/// What a request says about its outputs, checked before anything runs.
struct OutputPlan {
    output_files: Globs,
    outputs: Globs,
    limits: CollectLimits,
}

/// All that a command needs beside itself, and what its end needs.
pub(crate) struct PreparedRun {
    executor: Arc<dyn Executor>,
    request: RunRequest,
    workspace: Workspace,
    _skills: (StagedSkill, Vec<StagedSkill>),
    inputs: StagedInputs,
    wanted: OutputPlan,
    warnings: Vec<RunWarning>,
}

impl Runner {
    /// A runner that uses the sandbox of this machine, has its workspaces below `directory`, and keeps no artifacts.
    ///
    /// # Errors
    ///
    /// The directory cannot be made or opened.
    pub fn local(directory: impl AsRef<Path>) -> Result<Self, WorkspaceError> {
        let executor: Arc<dyn Executor> = Arc::new(LocalExecutor::new(LocalOptions::default()));
        Ok(Self { workspaces: Workspaces::open(directory)?, artifacts: None, executor: Some(executor) })
    }

    /// Runs a command: stages its skill and its inputs, runs it to its end, collects what it made, and saves
    /// what is to be kept.
    ///
    /// Everything in the request is checked before anything runs. A command that fails, or takes too long, has
    /// a report like any other. What goes wrong after the command ran is a warning in the report.
    ///
    /// # Errors
    ///
    /// Why nothing ran.
    pub async fn run(
        &self,
        session: &str,
        request: RunRequest,
        context: RunContext<'_>,
    ) -> Result<RunReport, RunError> {
        let (command, prepared) = self.prepare(session, request, &context).await?;
        self.finish(command, prepared, context.output).await
    }

    /// Checks a request and brings everything to its place: the command that can begin, and what comes after it.
    pub(crate) async fn prepare(
        &self,
        session: &str,
        request: RunRequest,
        context: &RunContext<'_>,
    ) -> Result<(Command, PreparedRun), RunError> {
        let unknown = || RunError::UnknownSkill(printable(request.skill.as_ref()));
        // Nobody is asked for a skill whose name could be a path.
        check_name(&request.skill).map_err(|_| unknown())?;
        let source = context.skills.source(&request.skill).await.ok_or_else(unknown)?;
        let executor = self.executor.clone().ok_or(ExecuteError::NotConfigured)?;
        let mut warnings = Vec::new();
        let wanted = OutputPlan::parse(&request, &mut warnings)?;
        input::check(&request.inputs)?;
        let network = request.network_within(&context.network)?;

        let workspace = self.workspace(session).await?;
        let skill = workspace.stage(&request.skill, &source).await?;
        let others = self.stage_others(&workspace, &request, context).await?;
        let skills = || std::iter::once(&skill).chain(&others);
        for staged in skills() {
            if context.expected.get(&staged.name).is_some_and(|expected| *expected != staged.digest) {
                return Err(RunError::Changed { skill: staged.name.clone() });
            }
        }
        let seen: Vec<String> = skills().map(|skill| skill.place().to_owned()).collect();
        let inputs = of_versions(&request.inputs, skills());
        check_seen(&inputs, &seen)?;
        let inputs = workspace.stage_inputs(&inputs, self.artifacts.as_deref(), context.input_gate).await?;
        warnings.extend(skill.warnings.iter().chain(&inputs.warnings).cloned());

        let directory = directory(&workspace, &skill, &seen, request.cwd.as_deref())?;
        let mut command = command(&workspace, directory, &inputs, &request, context, &mut warnings);
        command.network = network;
        command.skills = seen;
        let prepared =
            PreparedRun { executor, request, workspace, _skills: (skill, others), inputs, wanted, warnings };
        Ok((command, prepared))
    }

    /// Runs a command to its end and sees to what it made.
    pub(crate) async fn finish(
        &self,
        command: Command,
        prepared: PreparedRun,
        output: &dyn OutputSink,
    ) -> Result<RunReport, RunError> {
        let PreparedRun { executor, request, workspace, _skills, inputs, wanted, warnings } = prepared;
        let seen = command.skills.clone();
        let ran = executor.run(command, output).await;
        // The tree is gone: what stood for the host's files can go, and files can be looked at.
        drop(inputs);
        let mut ran = ran?;
        let run = ran.run.take();
        let mut report = RunReport::of(ran, warnings);
        let wanted = wanted.of_run(&request, run.as_deref(), &mut report.warnings);
        self.collect(&workspace, seen, &request, wanted, output, &mut report).await;
        Ok(report)
    }

    /// Stages a skill as a run would, to know before it what it would run: [`StagedSkill::digest`].
    ///
    /// # Errors
    ///
    /// The name can be no skill's, or the workspace or the skill cannot be had.
    pub async fn stage(
        &self,
        session: &str,
        name: &str,
        source: &StageSource,
    ) -> Result<StagedSkill, RunError> {
        check_name(name).map_err(|_| RunError::UnknownSkill(printable(name.as_ref())))?;
        Ok(self.workspace(session).await?.stage(name, source).await?)
    }

    async fn workspace(&self, session: &str) -> Result<Workspace, RunError> {
        let (workspaces, session) = (self.workspaces.clone(), session.to_owned());
        let workspace = blocking(move || workspaces.workspace(&session)).await;
        Ok(workspace
            .map_err(|error| ExecuteError::System { action: "opening the workspace".to_owned(), error })??)
    }

    /// Stages the other skills that inputs name.
    async fn stage_others(
        &self,
        workspace: &Workspace,
        request: &RunRequest,
        context: &RunContext<'_>,
    ) -> Result<Vec<StagedSkill>, RunError> {
        let named = request.inputs.iter().filter_map(|input| match input.skill()? {
            SkillInput::Named(name) => Some(name),
            SkillInput::Staged => None,
        });
        let others: BTreeSet<String> = named.filter(|name| *name != request.skill).collect();
        let mut staged = Vec::new();
        for name in others {
            let unknown = || RunError::UnknownSkill(printable(name.as_ref()));
            let source = context.skills.source(&name).await.ok_or_else(unknown)?;
            staged.push(workspace.stage(&name, &source).await?);
        }
        Ok(staged)
    }

    async fn collect(
        &self,
        workspace: &Workspace,
        seen: Vec<String>,
        request: &RunRequest,
        wanted: OutputPlan,
        output: &dyn OutputSink,
        report: &mut RunReport,
    ) {
        let place = workspace.clone();
        let collected = blocking(move || {
            let seen = VisibleSkills::Only(&seen);
            let plain = collect(place.dir(), &wanted.output_files, CollectLimits::default(), seen);
            (plain, collect(place.dir(), &wanted.outputs, wanted.limits, seen))
        });
        let (mut plain, mut declared) = match collected.await {
            Ok(collected) => collected,
            Err(error) => {
                report.warnings.push(RunWarning::NotCollected { reason: error.to_string() });
                return;
            }
        };
        for file in plain.files.iter().chain(&declared.files) {
            output.file(&file.name, &file.bytes, !file.truncated && !file.moving);
        }
        let omitted = request.save_as_artifacts && request.omit_inline_content;
        let inline = request.outputs.as_ref().is_some_and(|outputs| outputs.inline);
        let mut saved = BTreeSet::new();
        if request.save_as_artifacts {
            let prefix = request.artifact_prefix.as_deref().unwrap_or_default();
            self.save(&plain.files, prefix, &mut saved, report).await;
        }
        if let Some(RunOutputs { save: true, name_template, .. }) = &request.outputs {
            let prefix = name_template.as_deref().unwrap_or_default();
            self.save(&declared.files, prefix, &mut saved, report).await;
        }
        let secrets = self.executor.as_ref().map_or(&[][..], |executor| executor.secrets());
        plain.redact(secrets);
        declared.redact(secrets);
        let mut room = ReportRoom::beside(report);
        describe(plain, !omitted, &mut room, report);
        describe(declared, inline, &mut room, report);
        report.artifact_files.retain(|saved| room.names(&saved.name));
        room.report_cuts(report);
    }

    async fn save(
        &self,
        files: &[CollectedBytes],
        prefix: &str,
        saved: &mut BTreeSet<ArtifactName>,
        report: &mut RunReport,
    ) {
        let Some(artifacts) = &self.artifacts else {
            if !files.is_empty() {
                report.warnings.push(RunWarning::NoArtifacts);
            }
            return;
        };
        for file in files {
            let outcome = save_one(artifacts.as_ref(), file, prefix, saved).await;
            match outcome {
                Ok(Some(kept)) => report.artifact_files.push(kept),
                Ok(None) => {}
                Err(reason) => {
                    report.warnings.push(RunWarning::NotSaved { path: file.name.clone(), reason });
                }
            }
        }
    }
}

impl OutputPlan {
    fn parse(request: &RunRequest, warnings: &mut Vec<RunWarning>) -> Result<Self, RunError> {
        let outputs = request.outputs.as_ref();
        let prefixes = [
            request.artifact_prefix.as_deref(),
            outputs.and_then(|outputs| outputs.name_template.as_deref()),
        ];
        for prefix in prefixes.into_iter().flatten() {
            ArtifactName::with_prefix(prefix, "x")?;
        }
        Ok(Self {
            output_files: Globs::parse(&request.output_files)?,
            outputs: Globs::parse(outputs.map_or(&[], |outputs| &outputs.globs))?,
            limits: limits(outputs, warnings),
        })
    }

    /// The same with the run's own directory for `$RUN_DIR`. What cannot be bound to it matches nothing:
    /// other runs' files are no answer.
    fn of_run(self, request: &RunRequest, run: Option<&str>, warnings: &mut Vec<RunWarning>) -> Self {
        let is_name = |run: &&str| InnerPath::parse(run).is_ok_and(|path| path.split() == ("", *run));
        let own = run.filter(is_name).map(|run| format!("runs/{}", globset::escape(run)));
        let mut bind = |globs: &[String], known: Globs| {
            let is_run = |glob: &str| expand_in(glob, "") != expand_in(glob, "run");
            if !globs.iter().any(|glob| is_run(glob)) {
                return known;
            }
            let mut bound = Vec::new();
            for glob in globs {
                match &own {
                    _ if !is_run(glob) => bound.push(glob.clone()),
                    Some(own) => match expand_in(glob, own).strip_prefix(own.as_str()) {
                        Some(below) if below.is_empty() || below.starts_with('/') => {
                            bound.push(format!("{own}{below}"));
                        }
                        _ => warnings.push(RunWarning::RunDirectoryGlob { glob: glob.clone() }),
                    },
                    None => warnings.push(RunWarning::NoRunDirectory { glob: glob.clone() }),
                }
            }
            Globs::parse(&bound).unwrap_or_else(|error| {
                warnings.push(RunWarning::NotCollected { reason: error.to_string() });
                Globs::default()
            })
        };
        let globs = request.outputs.as_ref().map_or(&[][..], |outputs| &outputs.globs);
        Self {
            output_files: bind(&request.output_files, self.output_files),
            outputs: bind(globs, self.outputs),
            limits: self.limits,
        }
    }
}

/// How much of what `outputs` names is collected. What is only shown need not be read beyond what an answer holds.
fn limits(outputs: Option<&RunOutputs>, warnings: &mut Vec<RunWarning>) -> CollectLimits {
    let limits = outputs.map(RunOutputs::limits).unwrap_or_default().bounded(warnings);
    if outputs.is_some_and(|outputs| outputs.save) {
        return limits;
    }
    let most = MAX_REPORT_BYTES as u64;
    CollectLimits {
        max_file_bytes: limits.max_file_bytes.min(most),
        max_total_bytes: limits.max_total_bytes.min(most),
        ..limits
    }
}

/// Inputs from skills as they were staged: a version that came beside another has a directory of its own.
fn of_versions<'a>(inputs: &[RunInput], staged: impl Iterator<Item = &'a StagedSkill>) -> Vec<RunInput> {
    let mut inputs = inputs.to_vec();
    for skill in staged.filter(|skill| skill.directory != format!("skills/{}", skill.name)) {
        for input in &mut inputs {
            if let Ok(InputSource::Skill { name, path }) = InputSource::parse(&input.from)
                && name == skill.name
                && let Some(path) = path.as_str().strip_prefix(&format!("skills/{name}/"))
            {
                input.from = format!("workspace://{}/{path}", skill.directory);
            }
        }
    }
    inputs
}

/// Refuses inputs from skills that lie in the workspace and are not those of this run.
fn check_seen(inputs: &[RunInput], seen: &[String]) -> Result<(), WorkspaceError> {
    for input in inputs {
        if let Ok(InputSource::Workspace(path)) = InputSource::parse(&input.from)
            && path.top() == "skills"
            && !lies_in_seen(&path, seen)
        {
            let reason = "inputs from other skills are written skill://name/path".to_owned();
            return Err(WorkspaceError::Input { from: printable(input.from.as_ref()), reason });
        }
    }
    Ok(())
}

/// Whether a path of the workspace lies in one of these skills.
fn lies_in_seen(path: &InnerPath, seen: &[String]) -> bool {
    let place = path.as_str().strip_prefix("skills/").and_then(|below| below.split('/').next());
    place.is_some_and(|place| seen.iter().any(|seen| seen == place))
}

/// The command as the executor gets it.
fn command(
    workspace: &Workspace,
    directory: String,
    inputs: &StagedInputs,
    request: &RunRequest,
    context: &RunContext<'_>,
    warnings: &mut Vec<RunWarning>,
) -> Command {
    let mut command = Command::new(workspace.path(), directory, &request.command);
    command.environment = request.env.clone();
    command.environment.insert("SKILL_NAME".to_owned(), request.skill.clone());
    let stdin = context.stdin.clone().or_else(|| request.stdin.clone().map(Bytes::from));
    command.stdin = stdin.map_or(Input::Closed, Input::Bytes);
    command.read_only = inputs.read_only.clone();
    command.limits = context.limits.clone();
    if let Some(shell) = &context.shell {
        command.shell.clone_from(shell);
    }
    if let Some(seconds) = request.timeout.filter(|seconds| *seconds > 0) {
        let asked = Duration::from_secs(seconds);
        if asked > MAX_TIMEOUT {
            warnings.push(RunWarning::TimeoutLowered { seconds: MAX_TIMEOUT.as_secs() });
        }
        command.limits.timeout = asked.min(MAX_TIMEOUT);
    }
    command
}

/// The directory to run in, relative to the workspace.
fn directory(
    workspace: &Workspace,
    skill: &StagedSkill,
    seen: &[String],
    cwd: Option<&str>,
) -> Result<String, WorkspaceError> {
    let Some(cwd) = cwd.filter(|cwd| !matches!(*cwd, "" | "." | "./")) else {
        return Ok(skill.directory.clone());
    };
    let refused = |reason: String| WorkspaceError::Directory { path: printable(cwd.as_ref()), reason };
    let expanded = expand(cwd);
    // One of the workspace's own directories, or one of the skill's.
    let inner = if expanded == "." {
        return Ok(String::new());
    } else if expanded != cwd {
        InnerPath::parse(&expanded)
    } else {
        InnerPath::parse(cwd).and_then(|cwd| InnerPath::parse(&format!("{}/{cwd}", skill.directory)))
    };
    let inner = inner.map_err(|problem| refused(problem.to_string()))?;
    if inner.top() == "skills" && inner.as_str() != "skills" && !lies_in_seen(&inner, seen) {
        return Err(refused("it is in a skill that this run does not use".to_owned()));
    }
    // Through links: `out` in a skill is one.
    match workspace.dir().dir_through_links(inner.as_str()) {
        Ok(_) => Ok(inner.to_string()),
        Err(error) => Err(refused(format!("it is no directory that can be entered: {error}"))),
    }
}

/// Adds what was collected to the report, each file once.
fn describe(collection: Collection, inline: bool, room: &mut ReportRoom, report: &mut RunReport) {
    report.truncated |= collection.is_cut;
    for file in collection.files {
        match report.output_files.iter_mut().find(|known| known.name == file.name) {
            Some(known) if known.content.is_none() && inline => *known = room.describe(file, true),
            Some(_) => {}
            None if room.names(&file.name) => report.output_files.push(room.describe(file, inline)),
            None => {}
        }
    }
    for warning in collection.warnings {
        if !report.warnings.contains(&warning) {
            report.warnings.push(warning);
        }
    }
}

/// Saves a file, unless that very name was saved in this run already.
async fn save_one(
    artifacts: &dyn ArtifactStore,
    file: &CollectedBytes,
    prefix: &str,
    saved: &mut BTreeSet<ArtifactName>,
) -> Result<Option<ArtifactFile>, String> {
    if file.moving {
        return Err("it was written while it was collected".to_owned());
    }
    if file.truncated {
        return Err("it is truncated".to_owned());
    }
    let name = ArtifactName::with_prefix(prefix, &file.name).map_err(|problem| problem.to_string())?;
    if saved.contains(&name) {
        return Ok(None);
    }
    let span =
        tracing::info_span!("workspace.keep", bytes = count(file.bytes.len()), otel.status_code = Empty);
    let version = step(&span, artifacts.save(&name, file.bytes.clone(), &file.mime.name))
        .await
        .map_err(|error: ArtifactError| error.to_string())?;
    let kept = ArtifactFile { name: name.to_string(), version };
    saved.insert(name);
    Ok(Some(kept))
}
