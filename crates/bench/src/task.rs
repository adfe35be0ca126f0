//! What is measured, each in a fresh process.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use prowess_catalog::{Catalog, CatalogView, OverviewOptions, Root, ScanOptions};
use serde::{Deserialize, Serialize};

use crate::agent::{self, ThreadStorage};
use crate::mcp::{self, Over};
use crate::{permission, running, session};

/// One thing that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Task {
    /// Reads the files and does nothing with them.
    Floor,
    /// Discovers the skills.
    Discover,
    /// Refreshes a catalog in which nothing changed.
    Refresh,
    /// Renders the overview of a catalog in which nothing changed.
    Overview,
    /// Refreshes that catalog and renders its overview, as a host does in every turn.
    Turn,
    /// Runs `prowess list`.
    List,
    /// Runs `prowess check`.
    Check,
    /// Runs `prowess list` with the skills that come with the repository.
    ListExamples,
    /// Runs `prowess --version`, which starts and ends.
    Version,
    /// Reads what a load has to read, and does nothing with it.
    LoadFloor,
    /// Loads skills.
    Load,
    /// Renders the prompt after a load.
    Prompt,
    /// Evaluates a request that the first of many rules matches.
    PermissionFirst,
    /// Evaluates a request that none of many rules matches.
    PermissionNone,
    /// Starts the sandbox of a run by hand.
    RunByHand,
    /// Runs `true` as `skill_run` does.
    Run,
    /// Asks for the version of every file of a skill.
    StageFloor,
    /// Stages a skill that is staged already.
    Stage,
    /// Reads files and keeps them.
    CollectFloor,
    /// Collects the same files.
    Collect,
    /// Runs many commands, several at a time, and counts what is left.
    LeftBehind,
    /// A turn of an agent of many steps, without parts.
    StepsBare,
    /// The same with the parts that most agents have.
    Steps,
    /// Appends what that turn stores to a file, and flushes it.
    StepsRaw,
    /// That turn, on the disk.
    StepsDurable,
    /// Turns of many threads at once.
    AtOnce,
    /// The same, on the disk.
    AtOnceDurable,
    /// Opens many threads and keeps them.
    Idle,
    /// The same, on the disk.
    IdleDurable,
    /// Builds an agent, until its model is asked.
    Start,
    /// The same with a new database.
    StartDurable,
    /// Compacts a long conversation.
    Compact,
    /// Calls a bare echo of the same answers on standard input and output.
    EchoStdio,
    /// Calls `load_skill` of `prowess mcp` there.
    LoadStdio,
    /// Calls the echo over HTTP, in a session.
    EchoHttp,
    /// Calls `load_skill` there.
    LoadHttp,
    /// Calls the echo over HTTP, without a session.
    EchoSessionless,
    /// Calls `load_skill` there.
    LoadSessionless,
}

impl Task {
    /// The arguments of `prowess`, for what it is to run.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::List => &["list", "--root"],
            Self::Check => &["check", "--format", "jsonl"],
            Self::ListExamples => &["list", "--only", "--root", EXAMPLES],
            Self::Version => &["--version"],
            _ => &[],
        }
    }

    /// Whether the binary `prowess` is needed.
    pub(crate) fn runs_prowess(self) -> bool {
        !self.arguments().is_empty()
    }

    /// Whether the skills have to bring files along.
    pub(crate) fn needs_resources(self) -> bool {
        matches!(self, Self::LoadFloor | Self::Load | Self::Prompt)
            || matches!(self, Self::LoadStdio | Self::LoadHttp | Self::LoadSessionless)
            || matches!(self, Self::EchoStdio | Self::EchoHttp | Self::EchoSessionless)
    }

    /// Whether all that is needed is a place on the disk.
    pub(crate) fn needs_no_skills(self) -> bool {
        use Task::{AtOnce, AtOnceDurable, Compact, Idle, IdleDurable, Start, StartDurable};
        use Task::{Steps, StepsBare, StepsDurable, StepsRaw};
        matches!(self, Self::ListExamples | Self::Version)
            || matches!(self, StepsBare | Steps | StepsRaw | StepsDurable | AtOnce | AtOnceDurable)
            || matches!(self, Idle | IdleDurable | Start | StartDurable | Compact)
    }

    /// Whether what is measured is a skill of many files.
    pub(crate) fn needs_files(self) -> bool {
        matches!(self, Self::StageFloor | Self::Stage)
    }
}

/// What one process used.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// What it took: CPU time of all threads, user and system, or for what starts a sandbox the time on the clock.
    pub(crate) ms: f64,
    /// The time on the clock, where that is told beside the CPU time.
    pub(crate) clock_ms: f64,
    /// The most memory that was resident.
    pub(crate) peak_mib: f64,
    /// The memory of each, where that is measured.
    pub(crate) kib: f64,
    /// How many skills, files, rules, steps or threads there were.
    pub(crate) skills: usize,
    /// How many characters their descriptions have, to hold against what others read.
    pub(crate) description_chars: usize,
    /// What should not be there: files that were copied, or what was left behind.
    pub(crate) counted: usize,
}

impl Sample {
    /// What this process used, so far.
    pub(crate) fn of(ms: f64, skills: usize) -> Result<Self> {
        let peak_mib = peak_mib(UsageWho::RUSAGE_SELF)?;
        Ok(Self { ms, clock_ms: 0.0, peak_mib, kib: 0.0, skills, description_chars: 0, counted: 0 })
    }
}

/// The skills that come with the repository.
pub(crate) const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/skills");

/// An overview takes less time than the clock's resolution is worth.
const OVERVIEWS: u32 = 50;

/// Does `task` with the skills in `root`, in this process.
pub(crate) fn run(task: Task, root: &Path, prowess: &Path) -> Result<Sample> {
    if task.runs_prowess() {
        return spawn(task, root, prowess);
    }
    let (ms, catalog) = match task {
        Task::Floor => return floor(root),
        Task::Discover => cpu_of(|| discover(root)),
        Task::Refresh => {
            let catalog = discover(root);
            let (cpu, refreshed) = cpu_of(|| refresh(&catalog, root));
            ensure!(refreshed.is_same(&catalog), "the skills in {} changed meanwhile", root.display());
            (cpu, refreshed)
        }
        Task::Overview => {
            let catalog = discover(root);
            let view = catalog.view_all();
            let (cpu, ()) = cpu_of(|| (0..OVERVIEWS).for_each(|_| overview(&view)));
            (cpu / f64::from(OVERVIEWS), catalog)
        }
        Task::Turn => {
            let catalog = discover(root);
            let turn = || overview(&refresh(&catalog, root).view_all());
            let (cpu, ()) = cpu_of(|| (0..OVERVIEWS).for_each(|_| turn()));
            (cpu / f64::from(OVERVIEWS), catalog)
        }
        Task::LoadFloor => return session::load_floor(root),
        Task::Load => return session::load(root),
        Task::Prompt => return session::prompt(root),
        Task::PermissionFirst => return permission::first_matches(),
        Task::PermissionNone => return permission::none_matches(),
        Task::RunByHand => return running::run_by_hand(),
        Task::Run => return running::run_true(),
        Task::StageFloor => return running::stage_floor(root),
        Task::Stage => return running::stage(root),
        Task::CollectFloor => return running::collect_floor(),
        Task::Collect => return running::collect(),
        Task::LeftBehind => return running::left_behind(),
        Task::StepsBare => return agent::bare(),
        Task::Steps => return agent::full(root, ThreadStorage::Memory),
        Task::StepsRaw => return agent::raw(root),
        Task::StepsDurable => return agent::full(root, ThreadStorage::Sqlite),
        Task::AtOnce => return agent::at_once(root, ThreadStorage::Memory),
        Task::AtOnceDurable => return agent::at_once(root, ThreadStorage::Sqlite),
        Task::Idle => return agent::idle(root, ThreadStorage::Memory),
        Task::IdleDurable => return agent::idle(root, ThreadStorage::Sqlite),
        Task::Start => return agent::start(root, ThreadStorage::Memory),
        Task::StartDurable => return agent::start(root, ThreadStorage::Sqlite),
        Task::Compact => return agent::compact(root),
        Task::EchoStdio => return mcp::echoed(Over::Stdio, root, prowess),
        Task::LoadStdio => return mcp::loaded(Over::Stdio, root, prowess),
        Task::EchoHttp => return mcp::echoed(Over::Http, root, prowess),
        Task::LoadHttp => return mcp::loaded(Over::Http, root, prowess),
        Task::EchoSessionless => return mcp::echoed(Over::HttpWithoutSession, root, prowess),
        Task::LoadSessionless => return mcp::loaded(Over::HttpWithoutSession, root, prowess),
        Task::List | Task::Check | Task::ListExamples | Task::Version => unreachable!("these are programs"),
    };
    let characters = |text: &str| text.trim().chars().count();
    Ok(Sample {
        description_chars: catalog.entries().iter().map(|entry| characters(&entry.skill.description)).sum(),
        ..Sample::of(ms, catalog.entries().len())?
    })
}

fn discover(root: &Path) -> Catalog {
    Catalog::discover(&[Root::explicit(root)], &ScanOptions::default())
}

fn refresh(catalog: &Catalog, root: &Path) -> Catalog {
    catalog.refreshed(&[Root::explicit(root)], &ScanOptions::default())
}

fn overview(view: &CatalogView) {
    std::hint::black_box(view.overview(&OverviewOptions::default()));
}

/// The least that reading the files can cost: the names in the root, then for each file one open,
/// one read into the same buffer and one close, by two threads. Paths are relative to the root, so
/// that the kernel does not walk down to it every time.
fn floor(root: &Path) -> Result<Sample> {
    std::env::set_current_dir(root)?;
    let (cpu_ms, read) = cpu_of(|| -> std::io::Result<usize> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(".")? {
            let mut path = entry?.file_name();
            path.push("/SKILL.md");
            paths.push(path);
        }
        let read_all = |paths: &[std::ffi::OsString]| -> std::io::Result<usize> {
            let mut buffer = vec![0; 64 * 1024];
            let mut files = 0;
            for path in paths {
                files += usize::from(File::open(path)?.read(&mut buffer)? > 0);
            }
            Ok(files)
        };
        let (first, second) = paths.split_at(paths.len() / 2);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| read_all(second));
            Ok(read_all(first)? + second.join().map_err(|_| std::io::Error::other("a thread died"))??)
        })
    });
    Sample::of(cpu_ms, read?)
}

/// Runs `prowess` to its end, in an empty home, its output read through a pipe. This process has no
/// other child, so what its children used is what that one used, from its start.
fn spawn(task: Task, root: &Path, prowess: &Path) -> Result<Sample> {
    let home = tempfile::tempdir()?;
    let output = Command::new(prowess)
        .args(task.arguments())
        .args((!task.needs_no_skills()).then_some(root))
        .current_dir(home.path())
        .env("HOME", home.path())
        .env_remove("SKILLS_ROOT")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be started", prowess.display()))?;
    // A check that finds something to say says so with its exit code.
    ensure!(
        output.status.success() || (task == Task::Check && output.status.code() == Some(1)),
        "`prowess {}` failed: {}\n{}",
        task.arguments().join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let skills = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count();
    let ms = cpu_ms(UsageWho::RUSAGE_CHILDREN)?;
    Ok(Sample { peak_mib: peak_mib(UsageWho::RUSAGE_CHILDREN)?, ..Sample::of(ms, skills)? })
}

/// The CPU time of `work`, of all threads, in milliseconds.
pub(crate) fn cpu_of<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = cpu_so_far();
    let result = work();
    (cpu_so_far() - before, result)
}

/// The CPU time that this process has used, of all threads, in milliseconds.
pub(crate) fn cpu_so_far() -> f64 {
    cpu_ms(UsageWho::RUSAGE_SELF).unwrap_or(f64::NAN)
}

fn cpu_ms(who: UsageWho) -> nix::Result<f64> {
    let usage = getrusage(who)?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1_000.0)
}

fn peak_mib(who: UsageWho) -> nix::Result<f64> {
    let kibibytes = if cfg!(target_vendor = "apple") { 1_024.0 } else { 1.0 };
    Ok(getrusage(who)?.max_rss() as f64 / kibibytes / 1_024.0)
}
