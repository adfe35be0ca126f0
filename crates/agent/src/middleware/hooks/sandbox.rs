//! Runs the commands of hooks in the sandbox.

use async_trait::async_trait;
use bytes::Bytes;
use prowess_workspace::command::Input;
use prowess_workspace::executor::NoSink;
use prowess_workspace::{
    Command, ExecuteError, Exit, Finished, Limits, RunContext, RunReport, RunRequest, Runner, WorkspaceError,
};

use super::command::{HookCommand, HookCommands, HookExit, HookOutput, HookSkill, MAX_HOOK_OUTPUT};

/// A hook that prints more than this many bytes is killed.
const MAX_PRINTED: u64 = 16 * 1024 * 1024;

/// The directory of the user's own hooks. Skills cannot see it.
const OWN: &str = "hooks";

/// Variables that keep Python from importing files in the current directory or in the user's home.
const ISOLATED: [(&str, &str); 2] = [("PYTHONSAFEPATH", "1"), ("PYTHONNOUSERSITE", "1")];

/// Runs the commands of hooks in the sandbox, in the workspaces of their threads.
///
/// A skill's hook runs in the directory of the skill, which is staged as for any run. The user's own hook runs in a directory
/// that no skill can write to. It can read the workspace, without the skills. Neither has network access.
///
/// ```
/// use std::sync::Arc;
/// use prowess_agent::middleware::{HookSet, Hooks, SandboxedHooks};
/// use prowess_workspace::{LocalExecutor, LocalOptions, Runner, Workspaces};
///
/// # let place = tempfile::tempdir()?;
/// let runner = Runner {
///     workspaces: Workspaces::open(place.path())?,
///     artifacts: None,
///     executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
/// };
/// let hooks = Hooks::new(HookSet::default()).commands(SandboxedHooks::new(runner));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SandboxedHooks {
    runner: Runner,
    limits: Limits,
}

impl SandboxedHooks {
    /// Runs hooks in workspaces that have the names of their threads.
    pub fn new(runner: Runner) -> Self {
        let mut limits = Limits::default();
        // The head and the tail of a stream are kept, half each. A stream that fits is complete.
        limits.output_kept = MAX_HOOK_OUTPUT;
        limits.output_total = MAX_PRINTED;
        Self { runner, limits }
    }

    /// Runs the user's own hook.
    async fn run_own(&self, hook: HookCommand<'_>) -> Result<HookOutput, String> {
        let executor =
            self.runner.executor.as_ref().ok_or_else(|| ExecuteError::NotConfigured.to_string())?;
        let (workspaces, name) = (self.runner.workspaces.clone(), hook.thread.to_string());
        let opened = tokio::task::spawn_blocking(move || {
            let workspace = workspaces.workspace(&name)?;
            let own = workspace.own_directory(OWN)?;
            Ok::<_, WorkspaceError>((workspace, own))
        });
        let opened = opened.await.map_err(|error| error.to_string())?;
        let (workspace, own) = opened.map_err(|error| error.to_string())?;
        let mut command = Command::new(workspace.path(), "", hook.line);
        // Among the files of skills, the hook could load files that a skill planted.
        command.apart = Some(own);
        command.environment = hook.environment;
        for (name, value) in ISOLATED {
            command.environment.insert(name.to_owned(), value.to_owned());
        }
        command.stdin = Input::Bytes(Bytes::from(hook.stdin));
        command.limits = self.limits.clone();
        command.limits.timeout = hook.timeout;
        let finished = executor.run(command, &NoSink).await.map_err(|error| error.to_string())?;
        Ok(HookOutput::from(finished))
    }

    /// Runs a hook of a skill.
    async fn run_staged(&self, hook: HookCommand<'_>, skill: HookSkill<'_>) -> Result<HookOutput, String> {
        let HookSkill { name: skill, service, view } = skill;
        let source = service.stage_source(view, skill).ok_or("the files of the skill are not available")?;
        let mut request = RunRequest::new(skill, hook.line);
        request.env = hook.environment;
        let sources = move |name: &str| (name == skill).then(|| source.clone());
        let mut context = RunContext::new(&sources);
        context.shell = view.shell_of(skill).map_err(|error| error.to_string())?;
        context.stdin = Some(Bytes::from(hook.stdin));
        context.limits = self.limits.clone();
        context.limits.timeout = hook.timeout;
        let workspace = hook.thread.as_str();
        let report = self.runner.run(workspace, request, context).await;
        report.map(HookOutput::from).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl HookCommands for SandboxedHooks {
    async fn run(&self, command: HookCommand<'_>) -> Result<HookOutput, String> {
        match command.skill {
            Some(skill) => self.run_staged(command, skill).await,
            None => self.run_own(command).await,
        }
    }
}

impl std::fmt::Debug for SandboxedHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxedHooks").field("runner", &self.runner).finish_non_exhaustive()
    }
}

impl From<Finished> for HookOutput {
    fn from(finished: Finished) -> Self {
        Self {
            exit: match finished.exit {
                Exit::Code(code) => HookExit::Code(code),
                Exit::TimedOut => HookExit::TimedOut,
                exit => HookExit::Killed(exit.killed_because().unwrap_or("it was killed").to_owned()),
            },
            is_whole: finished.stdout.left_out() == 0,
            // If something was left out, a note in the text says so, and the text is not valid JSON.
            stdout: finished.stdout.text(),
            stderr: finished.stderr.text(),
        }
    }
}

impl From<RunReport> for HookOutput {
    fn from(report: RunReport) -> Self {
        let exit = if report.timed_out { HookExit::TimedOut } else { HookExit::Code(report.exit_code) };
        // If something was left out, a note makes the text longer.
        let is_whole = report.stdout.len() < MAX_HOOK_OUTPUT;
        Self { exit, is_whole, stdout: report.stdout, stderr: report.stderr }
    }
}
