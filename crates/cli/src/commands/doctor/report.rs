//! Examines the machine: sandbox, programs, container engine and directories.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use prowess_workspace::command::Sandbox;
use prowess_workspace::limits::MAX_TIMEOUT;
use prowess_workspace::{
    ContainerExecutor, Executor as _, Level, Limits, LocalExecutor, LocalOptions, Missing,
};
use serde::Serialize;

use super::Options;
use crate::config::{Config, OfProject, Settings};
use crate::executor::ContainerArgs;
use crate::options::VERSION;
use crate::terminal::printable;
use crate::workspace_dir::WorkspaceDir;

#[derive(Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) can_run: bool,
    /// What to fix before anything can run.
    pub(super) problems: Vec<String>,
    pub(super) sandbox: Option<Sandbox>,
    pub(super) bubblewrap: Program,
    /// The program that drops root. Other users do not need it.
    pub(super) setpriv: Option<Program>,
    /// The program that connects a command to its allowed hosts.
    pub(super) socat: Program,
    /// Whether `--allow-host` works.
    pub(super) allowed_hosts: bool,
    /// Whether a control group limits the memory of a whole command.
    pub(super) memory_cgroup: bool,
    pub(super) containers: ContainersReport,
    pub(super) workspaces: Directory,
    pub(super) artifacts: Directory,
    pub(super) limits: LimitsReport,
}

#[derive(Serialize)]
pub(super) struct Program {
    pub(super) path: Option<PathBuf>,
    pub(super) version: Option<String>,
    pub(super) package: &'static str,
}

/// Whether commands can run in containers. Containers are optional.
#[derive(Serialize)]
pub(super) struct ContainersReport {
    pub(super) can_run: bool,
    /// What to fix before a container can run.
    pub(super) problem: Option<String>,
    /// How to start an engine that is installed but does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
    pub(super) engine: Option<EngineReport>,
    pub(super) image: String,
    /// What the engine cannot do.
    pub(super) missing: Vec<Missing>,
}

#[derive(Serialize)]
pub(super) struct EngineReport {
    pub(super) name: &'static str,
    pub(super) version: String,
    pub(super) socket: PathBuf,
}

#[derive(Serialize)]
pub(super) struct Directory {
    pub(super) path: Option<PathBuf>,
    pub(super) writable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

#[derive(Serialize)]
pub(super) struct LimitsReport {
    pub(super) timeout_seconds: u64,
    pub(super) max_timeout_seconds: u64,
    pub(super) memory_bytes: u64,
    pub(super) processes: u64,
    pub(super) open_files: u64,
    pub(super) file_bytes: u64,
    pub(super) workspace_bytes: u64,
    pub(super) workspace_files: u64,
    pub(super) temporary_bytes: u64,
    pub(super) output_kept_bytes: u64,
    pub(super) output_bytes: u64,
}

/// Examines everything that runs need.
pub(super) fn examine(options: &Options) -> Result<Report> {
    let mut problems = Vec::new();
    // A mistake in the configuration is one more problem.
    let settings = match Config::load(&OfProject::Nothing, &[]) {
        Ok(config) => config.settings.sandbox,
        Err(mistake) => {
            problems.push(format!("{mistake:#}"));
            Settings::built_in()?.sandbox
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot test the sandbox")?;
    // The strongest level that works, and then whether it is strong enough.
    let mut weakest = LocalOptions::default();
    weakest.least = Level::None;
    let mut configured = LocalOptions::default();
    configured.least = settings.level;
    let sandbox = runtime.block_on(LocalExecutor::new(weakest).probe()).ok();
    if let Err(error) = runtime.block_on(LocalExecutor::new(configured).probe()) {
        problems.push(error.to_string());
    }
    let containers = runtime.block_on(examine_containers(&options.containers.or_configured(&settings)));
    let workspaces = examine_workspaces(&options.workspace_dir, &mut problems);
    let is_root = rustix::process::geteuid().is_root();
    let socat = program("socat", "socat");
    let has_network = |sandbox: &Sandbox| matches!(sandbox.level, Level::Bwrap | Level::BwrapNoproc);
    Ok(Report {
        version: VERSION,
        can_run: problems.is_empty(),
        problems,
        bubblewrap: program("bwrap", "bubblewrap"),
        setpriv: is_root.then(|| program("setpriv", "util-linux")),
        memory_cgroup: sandbox.as_ref().is_some_and(Sandbox::has_memory_group),
        allowed_hosts: socat.path.is_some() && sandbox.as_ref().is_some_and(has_network),
        socat,
        sandbox,
        containers,
        workspaces,
        artifacts: examine_artifacts(&options.workspace_dir),
        limits: limits(&Limits::default()),
    })
}

/// Examines the directory of workspaces, without which nothing can run.
fn examine_workspaces(workspace_dir: &WorkspaceDir, problems: &mut Vec<String>) -> Directory {
    let opened = match workspace_dir.workspaces() {
        Ok(opened) => opened,
        Err(error) => {
            problems.push(format!("{error:#}"));
            return Directory { path: None, writable: false, note: None };
        }
    };
    let writable = is_writable(&opened.path);
    if !writable {
        let path = opened.path.display();
        problems.push(format!("cannot write to {path}; choose another --workspace DIR"));
    }
    Directory { writable, path: Some(opened.path), note: opened.moved }
}

fn examine_artifacts(workspace_dir: &WorkspaceDir) -> Directory {
    match workspace_dir.artifacts().and_then(|_| workspace_dir.artifacts_path()) {
        Ok(path) => Directory { writable: is_writable(&path), path: Some(path), note: None },
        Err(error) => Directory { path: None, writable: false, note: Some(format!("{error:#}")) },
    }
}

/// Asks the container engine for its version. No container is started.
async fn examine_containers(containers: &ContainerArgs) -> ContainersReport {
    let options = containers.options();
    let image = options.image.clone();
    let executor = ContainerExecutor::new(options);
    let engine = match executor.engine().await {
        Ok(found) => EngineReport { name: found.kind.name(), version: found.version, socket: found.socket },
        Err(error) => {
            let (problem, advice) = (Some(error.to_string()), podman_advice());
            let missing = Vec::new();
            return ContainersReport { can_run: false, problem, advice, engine: None, image, missing };
        }
    };
    let (problem, missing) = match executor.probe().await {
        Ok(sandbox) => (None, sandbox.missing),
        Err(error) => (Some(error.to_string()), Vec::new()),
    };
    let can_run = problem.is_none();
    ContainersReport { can_run, problem, advice: None, engine: Some(engine), image, missing }
}

/// How to start the service of Podman, if Podman is installed. Unlike Docker, it does not always listen.
fn podman_advice() -> Option<String> {
    let podman = program("podman", "podman").path?;
    Some(format!(
        "{} is installed, but its service is not running: start it with `podman system service --time=0 &`",
        podman.display()
    ))
}

fn limits(limits: &Limits) -> LimitsReport {
    LimitsReport {
        timeout_seconds: limits.timeout.as_secs(),
        max_timeout_seconds: MAX_TIMEOUT.as_secs(),
        memory_bytes: limits.memory,
        processes: limits.processes,
        open_files: limits.open_files,
        file_bytes: limits.file_size,
        workspace_bytes: limits.workspace_bytes,
        workspace_files: limits.workspace_entries,
        temporary_bytes: limits.temporary_bytes,
        output_kept_bytes: limits.output_kept as u64,
        output_bytes: limits.output_total,
    }
}

fn is_writable(path: &std::path::Path) -> bool {
    tempfile::tempfile_in(path).is_ok()
}

/// Finds a program as the executor does: in an absolute directory of PATH.
fn program(name: &str, package: &'static str) -> Program {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&directories)
        .filter(|place| place.is_absolute())
        .map(|place| place.join(name))
        .find(|path| path.is_file());
    let said = path.as_ref().and_then(|path| {
        let output = Command::new(path).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
        String::from_utf8(output.ok()?.stdout).ok()
    });
    let version = said.and_then(|said| said.lines().next()?.split(' ').next_back().map(printable));
    Program { path, version, package }
}
