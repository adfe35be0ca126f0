//! Measures the libraries in CPU time against a floor, the cost of reading the same files.
//!
//! Every measurement is made in a fresh process of this program; the repetitions of all of them are
//! interleaved, so that noise meets all alike, and the least of each counts.

mod machine;
mod permission;
mod report;
mod resources;
mod running;
mod session;
mod task;
mod tree;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::machine::Machine;
use crate::report::{Bar, Report, Row, Unit};
use crate::task::{Sample, Task};

/// Measures the libraries in CPU time against the cost of reading the same files.
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
    /// Writes skills into a directory.
    Make {
        /// The directory.
        directory: PathBuf,
        /// How many.
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
        /// Longer ones, each with ten files beside it.
        #[arg(long)]
        resources: bool,
    },
    /// Does one thing in this process and prints what it used, as JSON.
    Task {
        /// The thing.
        task: Task,
        /// The directory of skills.
        directory: PathBuf,
        /// The binary `prowess`.
        #[arg(long, default_value = "prowess")]
        prowess: PathBuf,
    },
}

#[derive(Args)]
struct Measure {
    /// How often everything is measured; the least counts.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Where the skills are, or are made; a temporary directory if not given.
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// The binary `prowess`; the one beside this program if not given.
    #[arg(long, value_name = "FILE")]
    prowess: Option<PathBuf>,
    /// Writes the results there.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Shows the change of every ratio against the results in this file.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

/// How many skills are discovered.
const SIZES: [usize; 3] = [100, 1_000, LARGE];
const LARGE: usize = 10_000;
const OVERVIEW_SIZE: usize = 1_000;
/// How many are loaded one after another.
const LOAD_SIZE: usize = 1_000;
/// How many rules there are.
const RULES: usize = 1_000;

/// The bars. Discovery has a goal beyond its bar: twice the floor.
const COLD: Bar = Bar::Floors(4.0);
const WARM: Bar = Bar::Floors(0.5);
const OVERVIEW: Bar = Bar::Most(1.0);
const LOAD: Bar = Bar::Floors(3.0);
/// Microseconds.
const PERMISSION: Bar = Bar::Most(20.0);
const PEAK: Bar = Bar::Most(60.0);
const RUN: Bar = Bar::Floors(1.25);
const STAGE: Bar = Bar::Floors(4.0);
const COLLECT: Bar = Bar::Floors(3.0);
const NOTHING: Bar = Bar::Most(0.0);
/// `prowess list` may take so many times what the library takes, and so many milliseconds.
const LIST_TIMES: f64 = 1.5;
const LIST_EXTRA_MS: f64 = 20.0;

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
        None => return measure.run(),
    }
    Ok(ExitCode::SUCCESS)
}

impl Measure {
    fn run(&self) -> Result<ExitCode> {
        let baseline = self.compare.as_deref().map(read_report).transpose()?;
        let temporary = tempfile::tempdir()?;
        let trees = self.dir.as_deref().unwrap_or(temporary.path());
        let trees = std::path::absolute(trees)?;
        let cannot = |tree: &Path| format!("skills cannot be made in {}", tree.display());
        for size in SIZES {
            let tree = tree_of(&trees, Task::Discover, size);
            tree::write(&tree, size).with_context(|| cannot(&tree))?;
        }
        let tree = tree_of(&trees, Task::Load, LOAD_SIZE);
        resources::write(&tree, LOAD_SIZE).with_context(|| cannot(&tree))?;
        let tree = tree_of(&trees, Task::Stage, running::STAGED);
        running::write(&tree).with_context(|| cannot(&tree))?;

        let program = std::env::current_exe()?;
        let prowess = self.prowess.clone().unwrap_or_else(|| program.with_file_name("prowess"));
        let least = self.least(&program, &prowess, &trees)?;
        let report = Report {
            machine: Machine::this(&trees),
            repetitions: self.repetitions.into(),
            rows: rows(&least),
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
            std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))?;
        }
        let met = report.rows.iter().all(Row::is_met);
        Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The least of every task, at every size that it is measured at.
    fn least(&self, program: &Path, prowess: &Path, trees: &Path) -> Result<HashMap<(Task, usize), Sample>> {
        let mut tasks = Vec::new();
        for size in SIZES {
            tasks.extend([Task::Floor, Task::Discover, Task::Refresh].map(|task| (task, size)));
        }
        tasks.extend([Task::Overview, Task::Turn].map(|task| (task, OVERVIEW_SIZE)));
        tasks.extend([Task::LoadFloor, Task::Load, Task::Prompt].map(|task| (task, LOAD_SIZE)));
        tasks.extend([Task::PermissionFirst, Task::PermissionNone].map(|task| (task, RULES)));
        tasks.extend([Task::RunByHand, Task::Run].map(|task| (task, 1)));
        tasks.extend([Task::StageFloor, Task::Stage].map(|task| (task, running::STAGED)));
        tasks.extend([Task::CollectFloor, Task::Collect].map(|task| (task, running::COLLECTED)));
        if prowess.exists() {
            tasks.extend([Task::List, Task::Check].map(|task| (task, LARGE)));
        }
        let mut least: HashMap<_, Sample> = HashMap::new();
        // The first round brings the files into the page cache, and does not count.
        for round in 0..=self.repetitions {
            for &(task, size) in &tasks {
                let sample = in_fresh_process(program, task, &tree_of(trees, task, size), prowess)?;
                ensure!(sample.skills >= size, "{task:?} met {} of {size}", sample.skills);
                if round > 0 {
                    let kept = least.entry((task, size)).or_insert(sample);
                    kept.ms = kept.ms.min(sample.ms);
                    // Of memory it is the most that counts, and of what should not be there.
                    kept.peak_mib = kept.peak_mib.max(sample.peak_mib);
                    kept.counted = kept.counted.max(sample.counted);
                }
            }
        }
        // Once is enough: nothing is timed.
        let left = in_fresh_process(program, Task::LeftBehind, trees, prowess)?;
        least.insert((Task::LeftBehind, running::RUNS), left);
        Ok(least)
    }
}

/// Where the skills for `task` are.
fn tree_of(trees: &Path, task: Task, size: usize) -> PathBuf {
    trees.join(if task.needs_resources() {
        format!("{size}-with-resources")
    } else if task.needs_files() {
        format!("skill-of-{size}-files")
    } else {
        size.to_string()
    })
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

fn rows(least: &HashMap<(Task, usize), Sample>) -> Vec<Row> {
    let cpu = |task, size| least.get(&(task, size)).map(|sample| sample.ms);
    let row = |what: &str, count, unit, measured: Option<f64>, floor: Option<f64>, bar| {
        let ratio = measured.zip(floor).map(|(measured, floor)| measured / floor);
        Row { what: what.to_owned(), count, unit, measured, floor, ratio, bar }
    };
    let timed =
        |what, task, size, bar| row(what, size, Unit::Ms, cpu(task, size), cpu(Task::Floor, size), bar);
    let short = |what, task, size, floor: Option<Task>, bar| {
        let us = |task| cpu(task, size).map(|ms| ms * 1_000.0);
        row(what, size, Unit::Us, us(task), floor.and_then(us), Some(bar))
    };
    let resident = |what, task| {
        let measured = least.get(&(task, LARGE)).map(|sample| sample.peak_mib);
        row(what, LARGE, Unit::MiB, measured, None, Some(PEAK))
    };
    let counted = |what, task, size| {
        let measured = least.get(&(task, size)).map(|sample| sample.counted as f64);
        row(what, size, Unit::Things, measured, None, Some(NOTHING))
    };
    let against = |what, task, floor, size, bar| {
        row(what, size, Unit::Ms, cpu(task, size), cpu(floor, size), Some(bar))
    };
    let mut rows = Vec::new();
    rows.extend(SIZES.map(|size| timed("discover, cold process", Task::Discover, size, Some(COLD))));
    rows.extend(SIZES.map(|size| {
        let bar = (size == LARGE).then_some(WARM);
        timed("refresh, nothing changed", Task::Refresh, size, bar)
    }));
    let library = cpu(Task::Discover, LARGE).unwrap_or_default();
    let list = Bar::Most(LIST_TIMES * library + LIST_EXTRA_MS);
    let prompt = cpu(Task::Prompt, LOAD_SIZE);
    rows.extend([
        timed("overview, nothing changed", Task::Overview, OVERVIEW_SIZE, Some(OVERVIEW)),
        timed("refresh and overview", Task::Turn, OVERVIEW_SIZE, None),
        row("prompt, one more loaded", LOAD_SIZE, Unit::Ms, prompt, None, Some(OVERVIEW)),
        short("load and unload, each", Task::Load, LOAD_SIZE, Some(Task::LoadFloor), LOAD),
        short("permission, first rule matches", Task::PermissionFirst, RULES, None, PERMISSION),
        short("permission, no rule matches", Task::PermissionNone, RULES, None, PERMISSION),
        timed("`prowess list`", Task::List, LARGE, Some(list)),
        timed("`prowess check --format jsonl`", Task::Check, LARGE, None),
        resident("peak memory, library", Task::Discover),
        resident("peak memory, `prowess list`", Task::List),
        against("`skill_run` of `true`, clock", Task::Run, Task::RunByHand, 1, RUN),
        against("stage again, nothing changed", Task::Stage, Task::StageFloor, running::STAGED, STAGE),
        counted("files copied by that", Task::Stage, running::STAGED),
        against("collect files of 100 KB", Task::Collect, Task::CollectFloor, running::COLLECTED, COLLECT),
        counted("left behind by runs, 8 at a time", Task::LeftBehind, running::RUNS),
    ]);
    rows
}

fn read_report(file: &Path) -> Result<Report> {
    let text = std::fs::read(file)
        .with_context(|| format!("{} cannot be read; make it with --json", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not such a report", file.display()))
}
