//! Measures runs of skills: the run, staging, collecting, and what runs leave behind.

mod by_hand;
mod collecting;
mod given;
mod left;
mod staging;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use prowess_workspace::stage::StageSource;
use prowess_workspace::{LocalExecutor, LocalOptions, RunContext, RunRequest, Runner, Workspace, Workspaces};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::task::Sample;

pub(crate) use collecting::{FILES as COLLECTED, collect, floor as collect_floor};
pub(crate) use given::{
    FILES as GIVEN_FROM, by_hand as given_by_hand, run as run_given, write as write_project,
};
pub(crate) use left::{RUNS, left_behind};
pub(crate) use staging::{FILES as STAGED, floor as stage_floor, stage, write};

/// How many runs one process measures. The lowest value counts.
const ROUNDS: usize = 10;
const SKILL: &str = "kit";
const SESSION: &str = "bench";

/// Temporary workspaces in a directory that the sandbox's user can enter.
struct Place {
    runtime: Runtime,
    workspaces: Workspaces,
    directory: TempDir,
}

impl Place {
    fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o711))?;
        let workspaces = Workspaces::open(directory.path().join("workspaces"))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, workspaces, directory })
    }

    fn workspace(&self) -> Result<Workspace> {
        Ok(self.workspaces.workspace(SESSION)?)
    }

    fn runner(&self) -> Runner {
        Runner {
            workspaces: self.workspaces.clone(),
            artifacts: None,
            executor: Some(Arc::new(LocalExecutor::new(LocalOptions::default()))),
        }
    }
}

/// Runs a command as `skill_run` does: it checks the skill for changes, runs the command, and collects nothing.
async fn run(runner: &Runner, skill: &Path, command: &str) -> Result<()> {
    let skill = skill.to_owned();
    let find = move |_: &str| Some(StageSource::Directory(skill.clone()));
    let report = runner.run(SESSION, RunRequest::new(SKILL, command), RunContext::new(&find)).await?;
    ensure!(report.exit_code == 0, "`{command}` ended with {}: {}", report.exit_code, report.stderr);
    Ok(())
}

/// Makes a skill with one file, as most skills that only run a command.
fn small_skill(place: &Place) -> Result<PathBuf> {
    let skill = place.directory.path().join("library").join(SKILL);
    std::fs::create_dir_all(&skill)?;
    std::fs::write(skill.join("SKILL.md"), "---\nname: kit\ndescription: Runs `true`.\n---\n")?;
    Ok(skill)
}

/// Runs `true` in a prepared workspace, from the request to the report.
pub(crate) fn run_true() -> Result<Sample> {
    let place = Place::new()?;
    let skill = small_skill(&place)?;
    let runner = place.runner();
    least_of(|| place.runtime.block_on(run(&runner, &skill, "true")))
}

/// Starts the same sandbox by hand.
pub(crate) fn run_by_hand() -> Result<Sample> {
    let place = Place::new()?;
    let skill = small_skill(&place)?;
    // The workspace and the skill are those of a run.
    place.runtime.block_on(run(&place.runner(), &skill, "true"))?;
    let line = by_hand::CommandLine::new(place.workspace()?.path(), place.directory.path(), "")?;
    least_of(|| line.run())
}

/// The lowest clock time of several repetitions. The first does not count.
fn least_of(mut work: impl FnMut() -> Result<()>) -> Result<Sample> {
    work()?;
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        work()?;
        least = least.min(started.elapsed().as_secs_f64() * 1_000.0);
    }
    Sample::of(least, 1)
}

/// A path as text, for command lines.
fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}
