//! Commands of hooks in the sandbox of the workspace.

use async_trait::async_trait;
use bytes::Bytes;
use prowess_workspace::command::Input;
use prowess_workspace::executor::NoSink;
use prowess_workspace::{
    Command, ExecuteError, Exit, Finished, Limits, RunContext, RunReport, RunRequest, Runner, WorkspaceError,
};

use super::run::{HookCommand, HookCommands, HookExit, HookRan, HookSkill, MAX_HOOK_OUTPUT};

/// A hook that prints more than this is killed, in bytes.
const MAX_PRINTED: u64 = 16 * 1024 * 1024;

/// The directory of the user's own hooks, beside what skills see of a workspace.
const OWN: &str = "hooks";

/// Variables that keep Python from importing what lies in the current directory or in the home of its user.
const ISOLATED: [(&str, &str); 2] = [("PYTHONSAFEPATH", "1"), ("PYTHONNOUSERSITE", "1")];

/// Commands of hooks in the sandbox, in the workspaces of threads.
///
/// A skill's hook runs in the directory of the skill, which is staged as for any run. The user's own runs in a directory
/// that no skill can write, and reads the workspace without its skills. Neither has a network.
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
    /// Hooks in the workspaces that are named as their threads.
    pub fn new(runner: Runner) -> Self {
        let mut limits = Limits::default();
        // Half from the head and half from the tail: a stream that fits is whole.
        limits.output_kept = MAX_HOOK_OUTPUT;
        limits.output_total = MAX_PRINTED;
        Self { runner, limits }
    }

    /// A hook of the user.
    async fn run_own(&self, hook: HookCommand<'_>) -> Result<HookRan, String> {
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
        // A guard that ran among files of skills would load what they planted there.
        command.apart = Some(own);
        command.environment = hook.environment;
        for (name, value) in ISOLATED {
            command.environment.insert(name.to_owned(), value.to_owned());
        }
        command.stdin = Input::Bytes(Bytes::from(hook.stdin));
        command.limits = self.limits.clone();
        command.limits.timeout = hook.timeout;
        let finished = executor.run(command, &NoSink).await.map_err(|error| error.to_string())?;
        Ok(HookRan::from(finished))
    }

    /// A hook of a skill.
    async fn run_staged(&self, hook: HookCommand<'_>, skill: HookSkill<'_>) -> Result<HookRan, String> {
        let HookSkill { name: skill, service, view } = skill;
        let source =
            service.stage_source(view, skill).ok_or("the files of the skill cannot be had to run it")?;
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
        report.map(HookRan::from).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl HookCommands for SandboxedHooks {
    async fn run(&self, command: HookCommand<'_>) -> Result<HookRan, String> {
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

impl From<Finished> for HookRan {
    fn from(finished: Finished) -> Self {
        Self {
            exit: match finished.exit {
                Exit::Code(code) => HookExit::Code(code),
                Exit::TimedOut => HookExit::TimedOut,
                exit => HookExit::Killed(exit.killed_because().unwrap_or("it was killed").to_owned()),
            },
            is_whole: finished.stdout.left_out() == 0,
            // No JSON can have what this says of what was left out: what is not whole is never read as if it were.
            stdout: finished.stdout.text(),
            stderr: finished.stderr.text(),
        }
    }
}

impl From<RunReport> for HookRan {
    fn from(report: RunReport) -> Self {
        let exit = if report.timed_out { HookExit::TimedOut } else { HookExit::Code(report.exit_code) };
        // A report says in its text that something was left out, and is longer for it.
        let is_whole = report.stdout.len() < MAX_HOOK_OUTPUT;
        Self { exit, is_whole, stdout: report.stdout, stderr: report.stderr }
    }
}
