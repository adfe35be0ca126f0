//! Measures a run that is given files of a large project.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_permission::real_path::real_path;
use prowess_permission::secrets::secret_files;
use prowess_permission::{Decision, Permissions, Policy, Rule, RuleSource};
use prowess_skills::{RunSetup, SkillSession};
use prowess_workspace::RunRequest;
use prowess_workspace::tree::PROJECT;

use super::by_hand::CommandLine;
use super::{Place, SESSION, SKILL, least_of, small_skill, text};
use crate::task::Sample;

/// The number of files of the project.
pub(crate) const FILES: usize = 200_000;
const DIRECTORIES: usize = 2_000;
/// The number of files that the run is given.
const GIVEN: usize = 10;

/// Writes the project, if it is missing.
pub(crate) fn write(project: &Path) -> std::io::Result<()> {
    if project.join(file(FILES - 1)).exists() {
        return Ok(());
    }
    for directory in 0..DIRECTORIES {
        std::fs::create_dir_all(project.join(format!("part-{directory}")))?;
    }
    (0..FILES).try_for_each(|number| File::create(project.join(file(number))).map(drop))
}

/// The path of a file in the project.
fn file(number: usize) -> String {
    format!("part-{}/file-{number}.txt", number % DIRECTORIES)
}

/// The files that the run is given, in different directories.
fn given() -> impl Iterator<Item = String> {
    (0..GIVEN).map(|number| file(number * FILES / GIVEN + number))
}

/// Runs `true` through a session, with files of the project in the command.
pub(crate) fn run(project: &Path) -> Result<Sample> {
    let place = Place::new()?;
    let skill = small_skill(&place)?;
    let root = skill.parent().context("the skill has a root")?;
    let project = real_path(project);
    let below = format!("{}/*", text(&project)?);
    let rules = [Rule::new("run", "*", Decision::Allow), Rule::new("read", &below, Decision::Allow)];
    let policy = Policy::new().rules(RuleSource::User, rules.into_iter().chain(secret_files()));
    let mut setup = RunSetup::new(place.runner(), SESSION);
    setup.tree = setup.tree.project(&project);
    let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    let session = SkillSession::builder(catalog).permissions(Permissions::unattended(policy)).runs(setup);
    let session = place.runtime.block_on(session.build());
    let files: Vec<String> = given().map(|file| format!("{PROJECT}/{file}")).collect();
    // The shell ends with an error if it does not see a file.
    let command = format!("true < {}", files.join(" < "));
    let sample = least_of(|| {
        let ran = place.runtime.block_on(session.run(RunRequest::new(SKILL, &command)))?;
        let code = ran.data.as_ref().and_then(|report| report["exit_code"].as_i64());
        ensure!(code == Some(0), "the run failed: {}", ran.text);
        Ok(())
    })?;
    Ok(Sample { skills: FILES, ..sample })
}

/// Starts the same sandbox by hand, with the same mounts.
pub(crate) fn by_hand(project: &Path) -> Result<Sample> {
    let place = Place::new()?;
    let skill = small_skill(&place)?;
    place.runtime.block_on(super::run(&place.runner(), &skill, "true"))?;
    let mut mounts = String::new();
    for file in given() {
        mounts += &format!(" --ro-bind {} {PROJECT}/{file}", text(&project.join(&file))?);
    }
    let line = CommandLine::new(place.workspace()?.path(), place.directory.path(), &mounts)?;
    Ok(Sample { skills: FILES, ..least_of(|| line.run())? })
}
