//! Measures the collecting of output files.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use prowess_workspace::collect::CollectLimits;

use super::Place;
use crate::task::{Sample, cpu_of};

/// The number of files, and the size of each.
pub(crate) const FILES: usize = 100;
const BYTES: usize = 100 * 1_000;
/// Repeated, because the clock of a process is coarse.
const TIMES: u32 = 5;

/// Collects text files with their content.
pub(crate) fn collect() -> Result<Sample> {
    let place = Place::new()?;
    let workspace = place.workspace()?;
    write(workspace.path())?;
    let globs = ["out/**".to_owned()];
    let (cpu_ms, found) = cpu_of(|| {
        (0..TIMES).try_fold(0, |found, _| {
            let (files, warnings) = workspace.collect(&globs, CollectLimits::default())?;
            ensure!(warnings.is_empty(), "collecting warns: {warnings:?}");
            let whole = |text: &String| text.len() == BYTES;
            Ok(found + files.iter().filter(|file| file.content.as_ref().is_some_and(whole)).count())
        })
    });
    ensure!(found? == FILES * TIMES as usize, "not all files were collected");
    Sample::of(cpu_ms / f64::from(TIMES), FILES)
}

/// Reads the same files by prepared paths, and keeps all of them in memory.
pub(crate) fn floor() -> Result<Sample> {
    let place = Place::new()?;
    let paths = write(place.workspace()?.path())?;
    let (cpu_ms, found) = cpu_of(|| {
        (0..TIMES).try_fold(0, |found, _| {
            let files: Vec<Vec<u8>> = paths.iter().map(std::fs::read).collect::<Result<_, _>>()?;
            std::io::Result::Ok(found + files.iter().filter(|bytes| bytes.len() == BYTES).count())
        })
    });
    ensure!(found? == FILES * TIMES as usize, "not all files were read");
    Sample::of(cpu_ms / f64::from(TIMES), FILES)
}

fn write(workspace: &Path) -> Result<Vec<PathBuf>> {
    let line = "Results of the run, as a table of numbers and names: 1,024 — 99.5 %\n";
    let mut text = line.repeat(BYTES / line.len());
    text.push_str(&"x".repeat(BYTES - text.len()));
    (0..FILES)
        .map(|number| {
            let path = workspace.join(format!("out/table-{number}.txt"));
            std::fs::write(&path, &text)?;
            Ok(path)
        })
        .collect()
}
