//! One run from the request to the report: stage, run, collect, save.

mod command;
mod context;
mod error;
mod outputs;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::context::{RunContext, RunReview, SkillSources};
pub use self::error::RunError;
use self::outputs::OutputPlan;
use crate::artifact::ArtifactStore;
use crate::blocking::blocking;
use crate::command::{Command, Mount};
use crate::error::WorkspaceError;
use crate::executor::local::{LocalExecutor, LocalOptions};
use crate::executor::{ExecuteError, Executor, OutputSink};
use crate::input::{self, ReadyMounts, StagedInputs};
use crate::path::escaped_name;
use crate::report::RunReport;
use crate::request::{RunRequest, SkillInput};
use crate::stage::{StageSource, StagedSkill, check_name};
use crate::warning::RunWarning;
use crate::workspace::{Workspace, Workspaces};
use crate::writable::{self, Copies};

/// Runs commands of skills in workspaces.
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
/// let report = runner.run("workspace-1", request, RunContext::new(&skills)).await?;
/// assert_eq!(report.artifact_files[0].name, "out/greeting.txt");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Runner {
    /// The workspaces.
    pub workspaces: Workspaces,
    /// The store for artifacts, if there is one.
    pub artifacts: Option<Arc<dyn ArtifactStore>>,
    /// The executor of commands, if there is one.
    pub executor: Option<Arc<dyn Executor>>,
}

/// A run that is ready to start: its executor, workspace and inputs, and which files to collect afterwards.
pub(crate) struct PreparedRun {
    executor: Arc<dyn Executor>,
    request: RunRequest,
    workspace: Workspace,
    /// The local directory that the command runs in.
    directory: PathBuf,
    _skills: (StagedSkill, Vec<StagedSkill>),
    inputs: StagedInputs,
    mounts: ReadyMounts,
    review: Option<Arc<dyn RunReview>>,
    copies: Option<Copies>,
    plan: OutputPlan,
    warnings: Vec<RunWarning>,
}

impl PreparedRun {
    /// The name of the skill that the command belongs to.
    pub(crate) fn skill(&self) -> &str {
        &self.request.skill
    }
}

impl Runner {
    /// A runner with the local sandbox and workspaces below `directory`, without artifacts.
    ///
    /// # Errors
    ///
    /// The directory cannot be made or opened.
    pub fn local(directory: impl AsRef<Path>) -> Result<Self, WorkspaceError> {
        let executor: Arc<dyn Executor> = Arc::new(LocalExecutor::new(LocalOptions::default()));
        Ok(Self { workspaces: Workspaces::open(directory)?, artifacts: None, executor: Some(executor) })
    }

    /// Runs a command: stages its skill and inputs, runs it to its end, collects output files and saves artifacts.
    ///
    /// The whole request is checked before anything runs. A command that fails or takes too long has a report like
    /// any other. Problems after the command ran are warnings in the report.
    ///
    /// # Errors
    ///
    /// Nothing ran.
    pub async fn run(
        &self,
        workspace_id: &str,
        request: RunRequest,
        context: RunContext<'_>,
    ) -> Result<RunReport, RunError> {
        let (command, prepared) = self.prepare(workspace_id, request, &context).await?;
        self.finish(command, prepared, context.output).await
    }

    /// Checks a request and stages what it needs. Returns the command, and what happens after it.
    pub(crate) async fn prepare(
        &self,
        workspace_id: &str,
        request: RunRequest,
        context: &RunContext<'_>,
    ) -> Result<(Command, PreparedRun), RunError> {
        let request = request.with_places(&self.workspaces.path_of(workspace_id));
        let unknown = || RunError::UnknownSkill(escaped_name(request.skill.as_ref()));
        // A name that could be a path never reaches the caller's lookup.
        check_name(&request.skill).map_err(|_| unknown())?;
        let source = context.skills.source(&request.skill).await.ok_or_else(unknown)?;
        let executor = self.executor.clone().ok_or(ExecuteError::NotConfigured)?;
        let mut warnings = context.warnings.clone();
        let plan = OutputPlan::parse(&request, &mut warnings)?;
        input::check(&request.inputs)?;
        let network = request.network_within(&context.network)?;

        let workspace = self.workspace(workspace_id).await?;
        sweep_copies(&workspace, context).await?;
        let skill = workspace.stage(&request.skill, &source).await?;
        let others = self.stage_others(&workspace, &request, context).await?;
        let skills = || std::iter::once(&skill).chain(&others);
        for staged in skills() {
            if context.expected.get(&staged.name).is_some_and(|expected| *expected != staged.digest) {
                return Err(RunError::Changed { skill: staged.name.clone() });
            }
        }
        let staged: Vec<String> = skills().map(|skill| skill.directory_name().to_owned()).collect();
        let inputs = command::point_at_staged(&request.inputs, skills());
        command::check_skill_inputs(&inputs, &staged)?;
        let inputs = workspace.stage_inputs(&inputs, self.artifacts.as_deref(), context.input_gate).await?;
        warnings.extend(skill.warnings.iter().chain(&inputs.warnings).cloned());

        let (mounts, copies) = make_copies(&workspace, context, &mut warnings).await?;
        let directory = command::directory(&workspace, &skill, &staged, &mounts, request.cwd.as_deref())?;
        let local = workspace.path().join(&directory);
        let mut command = command::command(&workspace, directory, &inputs, &request, context, &mut warnings);
        let mounts = self.ready_mounts(&workspace, &mounts).await?;
        command.mounts.clone_from(&mounts.mounts);
        warnings.extend(mounts.warnings.iter().cloned());
        command.network = network;
        command.skills = staged;
        let review = context.review.clone();
        let _skills = (skill, others);
        let prepared = PreparedRun {
            executor,
            request,
            workspace,
            directory: local,
            _skills,
            inputs,
            mounts,
            review,
            copies,
            plan,
            warnings,
        };
        Ok((command, prepared))
    }

    async fn ready_mounts(&self, workspace: &Workspace, mounts: &[Mount]) -> Result<ReadyMounts, RunError> {
        if mounts.is_empty() {
            return Ok(ReadyMounts::default());
        }
        let (own, mounts) = (workspace.clone(), mounts.to_vec());
        let ready = blocking(move || own.ready_mounts(mounts)).await;
        Ok(ready.map_err(|error| WorkspaceError::io("reading files for", workspace.path(), error))??)
    }

    /// Runs a command to its end, collects its files, and makes the report.
    pub(crate) async fn finish(
        &self,
        command: Command,
        prepared: PreparedRun,
        output: &dyn OutputSink,
    ) -> Result<RunReport, RunError> {
        let PreparedRun {
            executor,
            request,
            workspace,
            directory,
            _skills,
            inputs,
            mounts,
            review,
            copies,
            plan,
            warnings,
        } = prepared;
        let skills = command.skills.clone();
        let ran = executor.run(command, output).await;
        // All processes are dead: placeholders of linked inputs and copies can go, and files can be read.
        drop((inputs, mounts));
        let mut ran = ran?;
        let run = ran.run.take();
        let mut report = RunReport::of(ran, warnings);
        write_back(copies, &mut report).await;
        if let Some(review) = review.filter(|_| report.exit_code != 0) {
            report = reviewed(review, report, directory).await;
        }
        let plan = plan.for_run_directory(&request, run.as_deref(), &mut report.warnings);
        self.collect(&workspace, skills, &request, plan, output, &mut report).await;
        Ok(report)
    }

    /// Stages a skill as a run would. Its [`StagedSkill::digest`] says what a run would execute.
    ///
    /// # Errors
    ///
    /// The name is not a skill's name, or the workspace or the skill cannot be opened.
    pub async fn stage(
        &self,
        workspace_id: &str,
        name: &str,
        source: &StageSource,
    ) -> Result<StagedSkill, RunError> {
        check_name(name).map_err(|_| RunError::UnknownSkill(escaped_name(name.as_ref())))?;
        Ok(self.workspace(workspace_id).await?.stage(name, source).await?)
    }

    async fn workspace(&self, id: &str) -> Result<Workspace, RunError> {
        let (workspaces, id) = (self.workspaces.clone(), id.to_owned());
        let workspace = blocking(move || workspaces.workspace(&id)).await;
        Ok(workspace
            .map_err(|error| ExecuteError::System { action: "opening the workspace".to_owned(), error })??)
    }

    /// Stages the other skills that inputs or the context name.
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
        let named = named.chain(context.other_skills.iter().cloned());
        let others: BTreeSet<String> = named.filter(|name| *name != request.skill).collect();
        let mut staged = Vec::new();
        for name in others {
            let unknown = || RunError::UnknownSkill(escaped_name(name.as_ref()));
            let source = context.skills.source(&name).await.ok_or_else(unknown)?;
            staged.push(workspace.stage(&name, &source).await?);
        }
        Ok(staged)
    }
}

/// Removes the copies of writable directories that a killed process left.
async fn sweep_copies(workspace: &Workspace, context: &RunContext<'_>) -> Result<(), RunError> {
    if context.writable.is_none() {
        return Ok(());
    }
    let workspace = workspace.clone();
    let swept = blocking(move || writable::sweep(&workspace)).await.flatten();
    Ok(swept.map_err(|error| ExecuteError::System { action: "removing old copies".to_owned(), error })?)
}

/// The mounts of a run, with copies of the directories that it may write.
async fn make_copies(
    workspace: &Workspace,
    context: &RunContext<'_>,
    warnings: &mut Vec<RunWarning>,
) -> Result<(Vec<Mount>, Option<Copies>), RunError> {
    let mut mounts = context.mounts.clone();
    let Some(project) = context.writable.clone() else { return Ok((mounts, None)) };
    let workspace = workspace.clone();
    let made = blocking(move || {
        let mut warnings = Vec::new();
        let copies = Copies::make(&workspace, project, &mut mounts, &mut warnings)?;
        Ok::<_, std::io::Error>((mounts, copies, warnings))
    });
    let made = made.await.flatten();
    let failed =
        |error| ExecuteError::System { action: "copying the writable directories".to_owned(), error };
    let (mounts, copies, more) = made.map_err(failed)?;
    warnings.extend(more);
    Ok((mounts, Some(copies)))
}

/// Copies changes of writable directories back, and adds them to the report.
async fn write_back(copies: Option<Copies>, report: &mut RunReport) {
    let Some(copies) = copies else { return };
    // A process that may still exist could change the copy while it is read.
    if report.warnings.contains(&RunWarning::Hangs) {
        let reason = "a process of the run may still exist".to_owned();
        let (path, real) = copies.place();
        return report.warnings.push(RunWarning::NotCopiedBack { path, real, reason });
    }
    let (path, real) = copies.place();
    match blocking(move || copies.write_back()).await {
        Ok((changed, warnings)) => {
            report.project_files = changed;
            report.warnings.extend(warnings);
        }
        Err(error) => {
            report.warnings.push(RunWarning::NotCopiedBack { path, real, reason: error.to_string() });
        }
    }
}

/// The report with the warnings of a review.
async fn reviewed(review: Arc<dyn RunReview>, mut report: RunReport, directory: PathBuf) -> RunReport {
    let seen = report.clone();
    // A review that panics adds nothing.
    let warnings = blocking(move || review.warnings(&seen, &directory)).await;
    report.warnings.extend(warnings.unwrap_or_default());
    report
}
