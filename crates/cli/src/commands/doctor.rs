//! `prowess doctor`

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use clap::Args;
use prowess_workspace::command::Sandbox;
use prowess_workspace::limits::MAX_TIMEOUT;
use prowess_workspace::{
    ContainerExecutor, Executor as _, Level, Limits, LocalExecutor, LocalOptions, Missing,
};
use serde::Serialize;

use crate::commands::CommandOutcome;
use crate::config::{Config, OfProject, Settings};
use crate::executor::ContainerArgs;
use crate::options::VERSION;
use crate::sandbox_level;
use crate::terminal::{Style, Terminal, printable, size, styled};
use crate::workspace_dir::WorkspaceDir;

const AFTER_HELP: &str =
    "Exit codes: 0 skills can run, 1 skills cannot run until a problem is fixed, 2 usage error";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    containers: ContainerArgs,
    #[command(flatten)]
    workspace_dir: WorkspaceDir,
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    can_run: bool,
    /// What to mend before anything can run.
    problems: Vec<String>,
    sandbox: Option<Sandbox>,
    bubblewrap: Program,
    /// Gives up root; other users do not need it.
    setpriv: Option<Program>,
    /// Carries what a command says to hosts that it may reach.
    socat: Program,
    /// Whether commands can be given a list of hosts to reach.
    allowed_hosts: bool,
    /// Whether the memory of a whole command is limited by a control group.
    memory_cgroup: bool,
    containers: ContainersReport,
    workspaces: Directory,
    artifacts: Directory,
    limits: LimitsReport,
}

#[derive(Serialize)]
struct Program {
    path: Option<PathBuf>,
    version: Option<String>,
    package: &'static str,
}

/// Whether commands can run in containers, which nobody needs to have.
#[derive(Serialize)]
struct ContainersReport {
    can_run: bool,
    /// What to mend before a container can run.
    problem: Option<String>,
    /// How to start an engine that is installed and does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    engine: Option<EngineReport>,
    image: String,
    /// What the engine cannot do.
    missing: Vec<Missing>,
}

#[derive(Serialize)]
struct EngineReport {
    name: &'static str,
    version: String,
    socket: PathBuf,
}

#[derive(Serialize)]
struct Directory {
    path: Option<PathBuf>,
    writable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize)]
struct LimitsReport {
    timeout_seconds: u64,
    max_timeout_seconds: u64,
    memory_bytes: u64,
    processes: u64,
    open_files: u64,
    file_bytes: u64,
    workspace_bytes: u64,
    workspace_files: u64,
    temporary_bytes: u64,
    output_kept_bytes: u64,
    output_bytes: u64,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let report = examine(options)?;
    if options.json {
        terminal.json(&report)?;
    } else {
        print(&report, terminal)?;
    }
    Ok(if report.can_run { CommandOutcome::Done } else { CommandOutcome::Findings })
}

fn examine(options: &Options) -> Result<Report> {
    let workspace_dir = &options.workspace_dir;
    let mut problems = Vec::new();
    // Whatever is wrong with the configuration is one thing more to mend.
    let settings = match Config::load(&OfProject::Nothing, &[]) {
        Ok(config) => config.settings.sandbox,
        Err(mistake) => {
            problems.push(format!("{mistake:#}"));
            Settings::built_in()?.sandbox
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot test the sandbox")?;
    // What there is, however weak; then whether that is enough.
    let mut anything = LocalOptions::default();
    anything.least = Level::None;
    let mut enough = LocalOptions::default();
    enough.least = settings.level;
    let sandbox = runtime.block_on(LocalExecutor::new(anything).probe());
    if let Err(error) = runtime.block_on(LocalExecutor::new(enough).probe()) {
        problems.push(error.to_string());
    }
    let containers = runtime.block_on(examine_containers(&options.containers.over(&settings)));
    let workspaces = match workspace_dir.workspaces() {
        Ok(place) => {
            Directory { writable: is_writable(&place.path), path: Some(place.path), note: place.moved }
        }
        Err(error) => {
            problems.push(format!("{error:#}"));
            Directory { path: None, writable: false, note: None }
        }
    };
    if let (Some(path), false) = (&workspaces.path, workspaces.writable) {
        problems.push(format!("cannot write to {}; choose another --workspace DIR", path.display()));
    }
    let artifacts = match workspace_dir.artifacts().and_then(|_| workspace_dir.artifacts_path()) {
        Ok(path) => Directory { writable: is_writable(&path), path: Some(path), note: None },
        Err(error) => Directory { path: None, writable: false, note: Some(format!("{error:#}")) },
    };
    let is_root = rustix::process::geteuid().is_root();
    let sandbox = sandbox.ok();
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
        artifacts,
        limits: limits(&Limits::default()),
    })
}

/// Asks the engine who it is, and runs nothing in a container for real.
async fn examine_containers(containers: &ContainerArgs) -> ContainersReport {
    let options = containers.options();
    let image = options.image.clone();
    let executor = ContainerExecutor::new(options);
    let engine = match executor.engine().await {
        Ok(found) => EngineReport { name: found.kind.name(), version: found.version, socket: found.socket },
        Err(error) => {
            let (problem, advice) = (Some(error.to_string()), start_of_podman());
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

/// What to do where Podman is installed: unlike Docker, it listens only while somebody runs its service.
fn start_of_podman() -> Option<String> {
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

/// The program as the executor finds it: at an absolute entry of PATH.
fn program(name: &str, package: &'static str) -> Program {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&places)
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

fn print(report: &Report, terminal: &mut Terminal) -> Result<()> {
    let verdict = if report.can_run {
        styled("Skills can run here.", Style::Good)
    } else {
        styled("Skills cannot run here yet.", Style::Bad)
    };
    writeln!(terminal, "{verdict}\n")?;
    let mut line = |label: &str, text: &str| {
        writeln!(terminal, "  {} {}", styled(format!("{label:<12}"), Style::Faint), printable(text))
    };
    for problem in &report.problems {
        line("to fix", problem)?;
    }
    line("prowess", report.version)?;
    line(
        "sandbox",
        &report.sandbox.as_ref().map_or("none works".to_owned(), |sandbox| describe_level(sandbox.level)),
    )?;
    let missing = report.sandbox.iter().flat_map(|sandbox| &sandbox.missing);
    // Memory has a line of its own.
    for missing in missing.filter(|missing| **missing != Missing::MemoryGroup) {
        line("missing", &missing.to_string())?;
    }
    line("bubblewrap", &told(&report.bubblewrap))?;
    if let Some(setpriv) = &report.setpriv {
        line("setpriv", &format!("{}; drops root before commands run", told(setpriv)))?;
    }
    line("network", &network(report))?;
    let group = "a control group limits the memory of each command";
    line(
        "memory",
        if report.memory_cgroup {
            group
        } else {
            "no control group: limited per process and by regular checks; /tmp and /dev/shm count separately"
        },
    )?;
    let containers = &report.containers;
    if let Some(engine) = &containers.engine {
        line("engine", &format!("{} {} at {}", engine.name, engine.version, engine.socket.display()))?;
    }
    let verdict = match &containers.problem {
        None => format!("can run, with the image {}", containers.image),
        Some(problem) => format!("not available (optional): {problem}"),
    };
    line("containers", &verdict)?;
    if let Some(advice) = &containers.advice {
        line("", advice)?;
    }
    for missing in &containers.missing {
        line("", &missing.to_string())?;
    }
    for (label, directory) in [("workspaces", &report.workspaces), ("artifacts", &report.artifacts)] {
        let place = directory.path.as_ref().map_or("nowhere".to_owned(), |path| path.display().to_string());
        let state = if directory.writable { "writable" } else { "not writable" };
        line(label, &format!("{place} ({state})"))?;
        if let Some(note) = &directory.note {
            line("", note)?;
        }
    }
    let limits = &report.limits;
    line(
        "limits",
        &format!(
            "{} s (--timeout up to {} s), {} of memory, {} processes, {} open files",
            limits.timeout_seconds,
            limits.max_timeout_seconds,
            size(limits.memory_bytes),
            limits.processes,
            limits.open_files
        ),
    )?;
    line(
        "",
        &format!(
            "{} per file, {} and {} files per workspace, {} in /tmp, {} of output kept, killed at {}",
            size(limits.file_bytes),
            size(limits.workspace_bytes),
            limits.workspace_files,
            size(limits.temporary_bytes),
            size(limits.output_kept_bytes),
            size(limits.output_bytes)
        ),
    )?;
    Ok(())
}

/// What commands can reach.
fn network(report: &Report) -> String {
    let level = report.sandbox.as_ref().map(|sandbox| sandbox.level);
    match (level, &report.socat.path) {
        (Some(Level::Bwrap | Level::BwrapNoproc), Some(path)) => {
            format!("none, or the hosts of --allow-host, through socat at {}", path.display())
        }
        (Some(Level::Bwrap | Level::BwrapNoproc), None) => {
            format!("none; for --allow-host install the Debian package {}", report.socat.package)
        }
        (Some(Level::None), _) => "unrestricted: commands use the network of this machine".to_owned(),
        _ => "none; --allow-host needs a bwrap sandbox".to_owned(),
    }
}

fn describe_level(level: Level) -> String {
    format!("{level}: {}", sandbox_level::describe(level))
}

fn told(program: &Program) -> String {
    match (&program.path, &program.version) {
        (Some(path), Some(version)) => format!("{version} at {}", path.display()),
        (Some(path), None) => path.display().to_string(),
        (None, _) => format!("not found: install the Debian package {}", program.package),
    }
}
