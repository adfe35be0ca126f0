//! The tasks to measure, each in a new process.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use prowess_catalog::search::IndexCache;
use prowess_catalog::{Catalog, CatalogView, OverviewOptions, Root, ScanOptions};
use serde::{Deserialize, Serialize};

use crate::agent::{self, ThreadStorage};
use crate::mcp::{self, Over};
use crate::{permission, running, session};

/// A task to measure.
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
    /// Refreshes that catalog and renders its overview, as an agent does in every turn.
    Turn,
    /// Builds the search index of a catalog.
    Index,
    /// Loads the search index of a catalog from the disk.
    IndexStored,
    /// Searches a catalog that has its index, and makes its overview.
    Search,
    /// Searches by the description of each of many skills, and takes the time of each search.
    SearchTimes,
    /// Runs `prowess list`.
    List,
    /// Runs `prowess check`.
    Check,
    /// Runs `prowess list` with the skills that come with the repository.
    ListExamples,
    /// Runs `prowess --version`, which starts and ends.
    Version,
    /// Reads the files of a load, and does nothing with them.
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
    /// Starts the sandbox of a run that sees files of a large project, by hand.
    RunGivenByHand,
    /// Runs `true` through a session, with these files in the command.
    RunGiven,
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
    /// Runs a turn of many steps, without middleware.
    StepsBare,
    /// The same with the usual middleware.
    Steps,
    /// Appends the events of that turn to a file, and flushes it.
    StepsRaw,
    /// Runs that turn with a database on the disk.
    StepsDurable,
    /// Runs turns of many threads at once.
    AtOnce,
    /// The same, on the disk.
    AtOnceDurable,
    /// Opens many threads and keeps them.
    Idle,
    /// The same, on the disk.
    IdleDurable,
    /// Builds an agent, until its model gets a request.
    Start,
    /// The same with a new database.
    StartDurable,
    /// Compacts a long conversation.
    Compact,
    /// Makes model calls in a conversation with few skills, in which nothing changes.
    CallsFew,
    /// The same with many skills.
    CallsMany,
    /// Calls a bare echo of the same answers on standard input and output.
    EchoStdio,
    /// Calls `load_skill` of `prowess mcp` in the same way.
    LoadStdio,
    /// Calls the echo over HTTP, in a session.
    EchoHttp,
    /// Calls `load_skill` in the same way.
    LoadHttp,
    /// Calls the echo over HTTP, without a session.
    EchoSessionless,
    /// Calls `load_skill` in the same way.
    LoadSessionless,
}

impl Task {
    /// The arguments for `prowess`.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::List => &["list", "--root"],
            Self::Check => &["check", "--format", "jsonl"],
            Self::ListExamples => &["list", "--only", "--root", EXAMPLES],
            Self::Version => &["--version"],
            _ => &[],
        }
    }

    /// Whether the skills need resources.
    pub(crate) fn needs_resources(self) -> bool {
        matches!(self, Self::LoadFloor | Self::Load | Self::Prompt)
            || matches!(self, Self::LoadStdio | Self::LoadHttp | Self::LoadSessionless)
            || matches!(self, Self::EchoStdio | Self::EchoHttp | Self::EchoSessionless)
    }

    /// Whether the task needs only a directory on the disk.
    pub(crate) fn needs_no_skills(self) -> bool {
        use Task::{AtOnce, AtOnceDurable, Compact, Idle, IdleDurable, Start, StartDurable};
        use Task::{Steps, StepsBare, StepsDurable, StepsRaw};
        matches!(self, Self::ListExamples | Self::Version)
            || matches!(self, StepsBare | Steps | StepsRaw | StepsDurable | AtOnce | AtOnceDurable)
            || matches!(self, Idle | IdleDurable | Start | StartDurable | Compact | Self::CallsFew)
    }

    /// Whether the task needs a large project.
    pub(crate) fn needs_project(self) -> bool {
        matches!(self, Self::RunGivenByHand | Self::RunGiven)
    }

    /// Whether the task measures a skill of many files.
    pub(crate) fn needs_files(self) -> bool {
        matches!(self, Self::StageFloor | Self::Stage)
    }
}

/// The cost of a task in one process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// The time in milliseconds: CPU time of all threads, user and system, or clock time if the task starts a sandbox.
    pub(crate) ms: f64,
    /// The clock time, if the task reports it beside the CPU time.
    pub(crate) clock_ms: f64,
    /// The peak of the resident memory.
    pub(crate) peak_mib: f64,
    /// The memory of each item, if it is measured.
    pub(crate) kib: f64,
    /// The number of skills, files, rules, steps or threads.
    pub(crate) skills: usize,
    /// The number of characters in their descriptions, to compare with other programs.
    pub(crate) description_chars: usize,
    /// Unwanted items: copied files, or leftovers.
    pub(crate) counted: usize,
}

impl Sample {
    /// The cost of this process so far.
    pub(crate) fn of(ms: f64, skills: usize) -> Result<Self> {
        let peak_mib = peak_mib(UsageWho::RUSAGE_SELF)?;
        Ok(Self { ms, clock_ms: 0.0, peak_mib, kib: 0.0, skills, description_chars: 0, counted: 0 })
    }
}

/// The skills that come with the repository.
pub(crate) const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/skills");

/// One overview is shorter than the resolution of the clock.
const OVERVIEWS: u32 = 50;

/// The queries of a search: words of the skills, a long request, mistyped words, and another language.
const QUERIES: [&str; 4] = [
    "check signed invoices before sending",
    "the customer wrote again this morning, look up what we promised and draft a short reply for the team to review",
    "convrt the quaterly reprots",
    "Rechnungen prüfen und an die Buchhaltung schicken",
];

/// One search is shorter than the resolution of the clock.
const SEARCHES: u32 = 20;

/// The number of timed searches, and the most words of one.
const QUERY_COUNT: usize = 1_000;
const MAX_QUERY_WORDS: usize = 30;

/// Does `task` with the skills in `root`, in this process.
pub(crate) fn run(task: Task, root: &Path, prowess: &Path) -> Result<Sample> {
    match task {
        Task::List | Task::Check | Task::ListExamples | Task::Version => spawn(task, root, prowess),
        Task::Floor => floor(root),
        Task::Discover => measure_discovery(root),
        Task::Refresh => measure_refresh(root),
        Task::Overview => measure_overview(root),
        Task::Turn => measure_turn(root),
        Task::Index => measure_index(root),
        Task::IndexStored => measure_stored_index(root),
        Task::Search => measure_search(root),
        Task::SearchTimes => measure_search_times(root),
        Task::CallsFew => agent::unchanged(Path::new(EXAMPLES)),
        Task::CallsMany => agent::unchanged(root),
        Task::LoadFloor => session::load_floor(root),
        Task::Load => session::load(root),
        Task::Prompt => session::prompt(root),
        Task::PermissionFirst => permission::first_matches(),
        Task::PermissionNone => permission::none_matches(),
        Task::RunByHand => running::run_by_hand(),
        Task::Run => running::run_true(),
        Task::RunGivenByHand => running::given_by_hand(root),
        Task::RunGiven => running::run_given(root),
        Task::StageFloor => running::stage_floor(root),
        Task::Stage => running::stage(root),
        Task::CollectFloor => running::collect_floor(),
        Task::Collect => running::collect(),
        Task::LeftBehind => running::left_behind(),
        Task::StepsBare => agent::bare(),
        Task::Steps => agent::full(root, ThreadStorage::Memory),
        Task::StepsRaw => agent::raw(root),
        Task::StepsDurable => agent::full(root, ThreadStorage::Sqlite),
        Task::AtOnce => agent::at_once(root, ThreadStorage::Memory),
        Task::AtOnceDurable => agent::at_once(root, ThreadStorage::Sqlite),
        Task::Idle => agent::idle(root, ThreadStorage::Memory),
        Task::IdleDurable => agent::idle(root, ThreadStorage::Sqlite),
        Task::Start => agent::start(root, ThreadStorage::Memory),
        Task::StartDurable => agent::start(root, ThreadStorage::Sqlite),
        Task::Compact => agent::compact(root),
        Task::EchoStdio => mcp::echoed(Over::Stdio, root, prowess),
        Task::LoadStdio => mcp::loaded(Over::Stdio, root, prowess),
        Task::EchoHttp => mcp::echoed(Over::Http, root, prowess),
        Task::LoadHttp => mcp::loaded(Over::Http, root, prowess),
        Task::EchoSessionless => mcp::echoed(Over::HttpWithoutSession, root, prowess),
        Task::LoadSessionless => mcp::loaded(Over::HttpWithoutSession, root, prowess),
    }
}

fn measure_discovery(root: &Path) -> Result<Sample> {
    let (ms, catalog) = cpu_of(|| discover(root));
    sample_of(ms, &catalog)
}

fn measure_refresh(root: &Path) -> Result<Sample> {
    let catalog = discover(root);
    let (ms, refreshed) = cpu_of(|| refresh(&catalog, root));
    ensure!(refreshed.is_same(&catalog), "the skills in {} changed meanwhile", root.display());
    sample_of(ms, &refreshed)
}

fn measure_overview(root: &Path) -> Result<Sample> {
    let catalog = discover(root);
    let view = catalog.view_all();
    let (ms, ()) = cpu_of(|| (0..OVERVIEWS).for_each(|_| overview(&view)));
    sample_of(ms / f64::from(OVERVIEWS), &catalog)
}

fn measure_turn(root: &Path) -> Result<Sample> {
    let catalog = discover(root);
    let turn = || overview(&refresh(&catalog, root).view_all());
    let (ms, ()) = cpu_of(|| (0..OVERVIEWS).for_each(|_| turn()));
    sample_of(ms / f64::from(OVERVIEWS), &catalog)
}

fn measure_index(root: &Path) -> Result<Sample> {
    let catalog = discover(root);
    let (ms, words) = cpu_of(|| catalog.index().words());
    ensure!(words > 0, "the skills in {} have no words", root.display());
    sample_of(ms, &catalog)
}

fn measure_stored_index(root: &Path) -> Result<Sample> {
    let cache = tempfile::tempdir()?;
    let empty = Catalog::empty().with_index_cache(IndexCache::new(cache.path()));
    refresh(&empty, root).index();
    ensure!(fs::read_dir(cache.path())?.next().is_some(), "the index of {} was not stored", root.display());
    let catalog = refresh(&empty, root);
    let (ms, words) = cpu_of(|| catalog.index().words());
    ensure!(words > 0, "the skills in {} have no words", root.display());
    sample_of(ms, &catalog)
}

fn measure_search(root: &Path) -> Result<Sample> {
    let catalog = discover(root);
    let view = catalog.view_all();
    // The peak of the memory includes an overview.
    overview(&view);
    ensure!(!view.search(QUERIES[0]).is_empty(), "no skill in {} is found", root.display());
    let all = || QUERIES.iter().for_each(|query| drop(std::hint::black_box(view.search(query))));
    let (ms, ()) = cpu_of(|| (0..SEARCHES).for_each(|_| all()));
    sample_of(ms / f64::from(SEARCHES) / QUERIES.len() as f64, &catalog)
}

/// The median of the CPU times as `ms`, and the 99th percentile as `clock_ms`.
fn measure_search_times(root: &Path) -> Result<Sample> {
    let catalog = discover(root);
    let view = catalog.view_all();
    view.search(QUERIES[0]);
    let step = catalog.entries().len().div_ceil(QUERY_COUNT).max(1);
    let mut times: Vec<f64> = Vec::new();
    for (at, entry) in catalog.entries().iter().step_by(step).enumerate() {
        let words: Vec<&str> = entry.skill.description.split_whitespace().collect();
        // Short and long queries, from one word to a whole description.
        let query = words[..words.len().min(1 + at % MAX_QUERY_WORDS)].join(" ");
        times.push(cpu_of(|| std::hint::black_box(view.search(&query)).len()).0);
    }
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    Ok(Sample { clock_ms: at(99), ..sample_of(at(50), &catalog)? })
}

/// The sample of work on a catalog, with the length of its descriptions.
fn sample_of(ms: f64, catalog: &Catalog) -> Result<Sample> {
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

/// The floor of reading the files: list the root, then one open, one read into the same buffer and one close per file, by
/// two threads. Paths are relative to the root, so that the kernel does not resolve it every time.
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

/// Runs `prowess` to its end in an empty home, and reads its output through a pipe. This process has no other child, so
/// the usage of its children is that of `prowess`.
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
        .with_context(|| format!("could not start {}", prowess.display()))?;
    // A check with findings has the exit code 1.
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

/// Runs `work`, and returns the CPU time of all threads, in milliseconds.
pub(crate) fn cpu_of<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = cpu_so_far();
    let result = work();
    (cpu_so_far() - before, result)
}

/// The CPU time of all threads of this process so far, in milliseconds.
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
