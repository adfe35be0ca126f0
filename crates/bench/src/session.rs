//! Measures a session: skills loaded one after another, and the prompt after each.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use prowess_catalog::{Catalog, Root, ScanOptions};
use prowess_skills::{Budgets, SessionOptions, SkillDelta, SkillSession};
use rustix::fs::{CWD, Mode, OFlags, RawDir};
use tokio::runtime::Runtime;

use crate::resources::{DIRECTORIES, RESOURCES};
use crate::task::{Sample, cpu_of};

/// The number of prompts, each with one more loaded skill.
const PROMPTS: usize = 50;

/// Loads each skill in `root`, and unloads it before the next: the cost of one load.
///
/// The measurement includes the unloading, which is cheap, so that it also covers work that a load leaves to other
/// threads.
pub(crate) fn load(root: &Path) -> Result<Sample> {
    let (runtime, session) = start(root, Budgets::default())?;
    let names = names(&session);
    let (cpu_ms, loaded) = cpu_of(|| {
        runtime.block_on(async {
            for name in &names {
                let answer = session.load(name, None).await?;
                ensure!(resources(&answer.deltas) == RESOURCES.len(), "{name} lacks resources");
                session.unload(name)?;
            }
            Ok(())
        })
    });
    loaded?;
    Sample::of(cpu_ms / names.len() as f64, names.len())
}

/// The floor of a load: one open, one read into the same buffer and one close for SKILL.md, and a listing of the
/// skill's directory and of each standard directory. Paths are prepared, and relative to the root.
pub(crate) fn load_floor(root: &Path) -> Result<Sample> {
    let mut skills = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let skill = entry?.file_name().into_string().ok().context("a name that is not UTF-8")?;
        let manifest = format!("{skill}/SKILL.md");
        let directories = DIRECTORIES.map(|directory| format!("{skill}/{directory}"));
        skills.push((manifest, skill, directories));
    }
    std::env::set_current_dir(root)?;
    let (cpu_ms, found) = cpu_of(|| -> io::Result<usize> {
        let mut buffer = vec![0; 64 * 1024];
        let mut names = Vec::with_capacity(32 * 1024);
        let mut found = 0;
        for (manifest, skill, directories) in &skills {
            found += usize::from(File::open(manifest)?.read(&mut buffer)? > 0);
            found += count_names(skill, &mut names)?;
            for directory in directories {
                found += count_names(directory, &mut names)?;
            }
        }
        Ok(found)
    });
    // The read file, then SKILL.md itself, the directories and the resources; `.` and `..` in each directory.
    let expected = 1 + 1 + DIRECTORIES.len() + RESOURCES.len() + 2 * (1 + DIRECTORIES.len());
    ensure!(found? == skills.len() * expected, "some files are missing");
    Sample::of(cpu_ms / skills.len() as f64, skills.len())
}

/// Renders the prompt after each of several loads. The loads do not count.
pub(crate) fn prompt(root: &Path) -> Result<Sample> {
    let (runtime, session) = start(root, Budgets::new(PROMPTS, None))?;
    let names = names(&session);
    let mut cpu_ms = 0.0;
    for (at, name) in names.iter().take(PROMPTS).enumerate() {
        runtime.block_on(session.load(name, None))?;
        let (cpu, prompt) = cpu_of(|| session.prompt());
        cpu_ms += cpu;
        ensure!(
            prompt.text.matches("[Loaded]").count() == at + 1,
            "a loaded skill is missing from the prompt"
        );
    }
    Sample::of(cpu_ms / PROMPTS as f64, names.len())
}

fn start(root: &Path, budgets: Budgets) -> Result<(Runtime, SkillSession)> {
    let catalog = Catalog::discover(&[Root::explicit(root)], &ScanOptions::default());
    let mut options = SessionOptions::default();
    options.budgets = budgets;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let session = runtime.block_on(SkillSession::builder(catalog).options(options).build());
    Ok((runtime, session))
}

fn names(session: &SkillSession) -> Vec<String> {
    session.engine().catalog_view().entries().iter().map(|entry| entry.skill.name.to_string()).collect()
}

fn resources(deltas: &[SkillDelta]) -> usize {
    let of = |delta: &SkillDelta| match delta {
        SkillDelta::Loaded { resources, .. } => resources.len(),
        _ => 0,
    };
    deltas.iter().map(of).sum()
}

fn count_names(directory: &str, names: &mut Vec<u8>) -> io::Result<usize> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(CWD, directory, flags, Mode::empty())?;
    let mut entries = RawDir::new(handle, names.spare_capacity_mut());
    let mut count = 0;
    while let Some(entry) = entries.next() {
        entry?;
        count += 1;
    }
    Ok(count)
}
