//! Measures the CPU time of the libraries, relative to the cost of reading the same files (the floor).
//!
//! Each measurement runs in a new process of this program. Repetitions of all measurements are interleaved, so that noise
//! affects all of them alike. The lowest value of each counts.

mod agent;
mod machine;
mod mcp;
mod permission;
mod queue_load;
mod reach;
mod report;
mod resources;
mod rows;
mod running;
mod session;
mod task;
mod tree;

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::machine::Machine;
use crate::mcp::load::HttpLoad;
use crate::queue_load::QueueLoad;
use crate::report::{Report, Row};
use crate::rows::{EXAMPLES, LARGE, LOAD_SIZE, OVERVIEW_SIZE, RULES, SIZES};
use crate::task::{Sample, Task};

/// Measure the CPU time of the libraries, relative to the cost of reading the same files
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Action>,
    #[command(flatten)]
    measure: Measure,
}

#[derive(Subcommand)]
enum Action {
    /// Write skills into a directory
    Make {
        /// The directory
        directory: PathBuf,
        /// The number of skills
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
        /// Write longer skills, each with ten files
        #[arg(long)]
        resources: bool,
    },
    /// Do one task in this process, and print its cost as JSON
    Task {
        /// The task
        task: Task,
        /// The directory of skills
        directory: PathBuf,
        /// The binary `prowess`
        #[arg(long, default_value = "prowess")]
        prowess: PathBuf,
    },
    /// Search each skill of a directory by its name with the tool `search_skills`, and print how many are found
    Reach {
        /// The directory of skills
        directory: PathBuf,
    },
    /// Put `prowess mcp --http` under the load of many clients, and report errors and memory growth
    HttpLoad(HttpLoad),
    /// Simulate a server with many open threads on PostgreSQL: its real queue, store and workers with a model that pretends
    QueueLoad(QueueLoad),
    /// Serve a bare echo, to compare with the calls of `prowess mcp`
    #[command(hide = true)]
    Echo {
        /// `stdio` or `http`
        over: String,
        /// The file with its answers, by name
        answers: PathBuf,
    },
}

#[derive(Args)]
struct Measure {
    /// How often to repeat each measurement; the lowest value counts
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// The directory of the skills, which are created if missing [default: a temporary directory]
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// The binary `prowess` [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    prowess: Option<PathBuf>,
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show how each ratio changed since the results in this file
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let Cli { command, measure } = Cli::parse();
    match command {
        Some(Action::Make { directory, count, resources: false }) => {
            tree::write(&directory, count as usize)?;
        }
        Some(Action::Make { directory, count, resources: true }) => {
            resources::write(&directory, count as usize)?;
        }
        Some(Action::Task { task, directory, prowess }) => {
            let sample = task::run(task, &directory, &prowess)?;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&sample)?)?;
        }
        Some(Action::Reach { directory }) => {
            writeln!(std::io::stdout(), "{}", reach::reached(&directory)?)?;
        }
        Some(Action::HttpLoad(load)) => {
            let pressed = load.run()?;
            write!(std::io::stdout(), "{pressed}")?;
            return Ok(if pressed.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Some(Action::QueueLoad(load)) => write!(std::io::stdout(), "{}", load.run()?)?,
        Some(Action::Echo { over, answers }) => {
            let echo = mcp::echo::Echo::of(&answers)?;
            // As many threads as `prowess mcp` has.
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            match over.as_str() {
                "stdio" => runtime.block_on(mcp::echo::on_stdio(echo))?,
                _ => runtime.block_on(mcp::echo::over_http(echo, |line| {
                    Ok(writeln!(std::io::stderr(), "{line}")?)
                }))?,
            }
        }
        None => return measure.run(),
    }
    Ok(ExitCode::SUCCESS)
}

impl Measure {
    fn run(&self) -> Result<ExitCode> {
        let baseline = self.compare.as_deref().map(read_report).transpose()?;
        let temporary = tempfile::tempdir()?;
        // Commands of root run as another user, who must reach the files that a run is given.
        std::fs::set_permissions(temporary.path(), PermissionsExt::from_mode(0o711))?;
        let trees = self.dir.as_deref().unwrap_or(temporary.path());
        let trees = std::path::absolute(trees)?;
        let cannot = |tree: &Path| format!("could not write skills to {}", tree.display());
        for size in SIZES {
            let tree = tree_of(&trees, Task::Discover, size);
            tree::write(&tree, size).with_context(|| cannot(&tree))?;
        }
        let tree = tree_of(&trees, Task::Load, LOAD_SIZE);
        resources::write(&tree, LOAD_SIZE).with_context(|| cannot(&tree))?;
        let tree = tree_of(&trees, Task::Stage, running::STAGED);
        running::write(&tree).with_context(|| cannot(&tree))?;
        let tree = tree_of(&trees, Task::RunGiven, running::GIVEN_FROM);
        running::write_project(&tree)
            .with_context(|| format!("could not write files to {}", tree.display()))?;

        let program = std::env::current_exe()?;
        let prowess = self.prowess.clone().unwrap_or_else(|| program.with_file_name("prowess"));
        let least = self.least(&program, &prowess, &trees)?;
        let report = Report {
            machine: Machine::this(&trees),
            repetitions: self.repetitions.into(),
            rows: rows::of(&least, size_of(&prowess)),
        };

        let mut out = std::io::stdout();
        writeln!(out, "{}\n", report.machine)?;
        writeln!(out, "{}", report.table(baseline.as_ref()))?;
        if !prowess.exists() {
            let at = prowess.display();
            writeln!(out, "There is no {at}; build it: cargo build --release -p prowess -p prowess-bench")?;
        }
        if let Some(file) = &self.json {
            let text = serde_json::to_string_pretty(&report)? + "\n";
            std::fs::write(file, text).with_context(|| format!("could not write {}", file.display()))?;
        }
        let met = report.rows.iter().all(Row::is_met);
        Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The lowest sample of every task, at each of its sizes.
    fn least(&self, program: &Path, prowess: &Path, trees: &Path) -> Result<HashMap<(Task, usize), Sample>> {
        let mut tasks = Vec::new();
        for size in SIZES {
            tasks.extend([Task::Floor, Task::Discover, Task::Refresh].map(|task| (task, size)));
        }
        tasks.extend([Task::Overview, Task::Turn].map(|task| (task, OVERVIEW_SIZE)));
        tasks.extend([Task::Index, Task::IndexStored].map(|task| (task, LARGE)));
        tasks.extend([Task::Search, Task::SearchTimes].map(|task| (task, LARGE)));
        tasks.extend([(Task::CallsFew, agent::CALLS), (Task::CallsMany, LARGE)]);
        tasks.extend([Task::LoadFloor, Task::Load, Task::Prompt].map(|task| (task, LOAD_SIZE)));
        tasks.extend([Task::PermissionFirst, Task::PermissionNone].map(|task| (task, RULES)));
        tasks.extend([Task::RunByHand, Task::Run].map(|task| (task, 1)));
        tasks.extend([Task::RunGivenByHand, Task::RunGiven].map(|task| (task, running::GIVEN_FROM)));
        tasks.extend([Task::StageFloor, Task::Stage].map(|task| (task, running::STAGED)));
        tasks.extend([Task::CollectFloor, Task::Collect].map(|task| (task, running::COLLECTED)));
        tasks.extend([Task::StepsBare, Task::Steps, Task::StepsRaw].map(|task| (task, agent::STEPS)));
        tasks.push((Task::StepsDurable, agent::STEPS));
        tasks.extend([Task::AtOnce, Task::AtOnceDurable].map(|task| (task, agent::THREADS)));
        tasks.extend([Task::Idle, Task::IdleDurable].map(|task| (task, agent::THREADS)));
        tasks.extend([Task::Start, Task::StartDurable].map(|task| (task, 1)));
        tasks.push((Task::Compact, agent::MESSAGES));
        if prowess.exists() {
            tasks.extend([Task::List, Task::Check].map(|task| (task, LARGE)));
            tasks.extend([(Task::ListExamples, EXAMPLES), (Task::Version, 1)]);
            tasks.extend([Task::EchoStdio, Task::LoadStdio].map(|task| (task, LOAD_SIZE)));
            tasks.extend([Task::EchoHttp, Task::LoadHttp].map(|task| (task, LOAD_SIZE)));
            tasks.extend([Task::EchoSessionless, Task::LoadSessionless].map(|task| (task, LOAD_SIZE)));
        }
        let mut least: HashMap<_, Sample> = HashMap::new();
        // The first round fills the page cache and does not count.
        for round in 0..=self.repetitions {
            for &(task, size) in &tasks {
                let sample = in_fresh_process(program, task, &tree_of(trees, task, size), prowess)?;
                ensure!(sample.skills >= size, "{task:?} found {} of {size}", sample.skills);
                if round > 0 {
                    let kept = least.entry((task, size)).or_insert(sample);
                    kept.ms = kept.ms.min(sample.ms);
                    kept.clock_ms = kept.clock_ms.min(sample.clock_ms);
                    // For memory and for leftovers, the highest value counts.
                    kept.peak_mib = kept.peak_mib.max(sample.peak_mib);
                    kept.kib = kept.kib.max(sample.kib);
                    kept.counted = kept.counted.max(sample.counted);
                }
            }
        }
        // Once is enough, because nothing is timed.
        let left = in_fresh_process(program, Task::LeftBehind, trees, prowess)?;
        least.insert((Task::LeftBehind, running::RUNS), left);
        Ok(least)
    }
}

/// The directory of the skills for `task`.
fn tree_of(trees: &Path, task: Task, size: usize) -> PathBuf {
    if task.needs_no_skills() {
        return trees.to_owned();
    }
    trees.join(if task.needs_project() {
        format!("project-of-{size}-files")
    } else if task.needs_resources() {
        format!("{size}-with-resources")
    } else if task.needs_files() {
        format!("skill-of-{size}-files")
    } else {
        size.to_string()
    })
}

/// The size of the binary; `None` if it is missing.
fn size_of(prowess: &Path) -> Option<u64> {
    std::fs::metadata(prowess).map(|file| file.len()).ok()
}

fn in_fresh_process(program: &Path, task: Task, tree: &Path, prowess: &Path) -> Result<Sample> {
    let value = task.to_possible_value().context("every task has a name")?;
    let name = value.get_name();
    let output = Command::new(program)
        .args(["task", name])
        .arg(tree)
        .arg("--prowess")
        .arg(prowess)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "measuring `{name}` failed: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn read_report(file: &Path) -> Result<Report> {
    let text = std::fs::read(file)
        .with_context(|| format!("could not read {}; make it with --json", file.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a report of this program", file.display()))
}
