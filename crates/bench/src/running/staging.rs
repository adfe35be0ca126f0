//! Measures the staging of a skill of many files that is already staged.

use std::path::Path;

use anyhow::{Result, ensure};
use prowess_workspace::stage::StageSource;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, openat, statat};

use super::{Place, SKILL};
use crate::task::{Sample, cpu_of};

/// The number of files and directories of the skill.
pub(crate) const FILES: usize = 200;
const DIRECTORIES: usize = 10;
/// Repeated, because one staging is shorter than a tick of the clock.
const TIMES: u32 = 50;

/// Writes the skill.
pub(crate) fn write(skill: &Path) -> std::io::Result<()> {
    for number in 0..FILES {
        let directory = skill.join(format!("part-{}", number % DIRECTORIES));
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join(format!("file-{number}.txt")), format!("{number}\n").repeat(200))?;
    }
    Ok(())
}

/// Stages the skill repeatedly, and counts the files that were copied after the first time.
pub(crate) fn stage(skill: &Path) -> Result<Sample> {
    let place = Place::new()?;
    let workspace = place.workspace()?;
    let source = StageSource::Directory(skill.to_owned());
    let stage = || place.runtime.block_on(workspace.stage(SKILL, &source));
    ensure!(stage()?.copied == FILES, "not all files were staged at first");
    let (cpu_ms, copied) =
        cpu_of(|| (0..TIMES).try_fold(0, |copied, _| stage().map(|staged| copied + staged.copied)));
    Ok(Sample { counted: copied?, ..Sample::of(cpu_ms / f64::from(TIMES), FILES)? })
}

/// The floor of a check for changes: list every directory, and one `stat` per file, by its name in the open directory.
pub(crate) fn floor(skill: &Path) -> Result<Sample> {
    let (cpu_ms, found) = cpu_of(|| -> std::io::Result<usize> {
        let mut found = 0;
        for _ in 0..TIMES {
            for part in 0..DIRECTORIES {
                found += stat_all(&skill.join(format!("part-{part}")))?;
            }
        }
        Ok(found)
    });
    ensure!(found? == FILES * TIMES as usize, "some files are missing");
    Sample::of(cpu_ms / f64::from(TIMES), FILES)
}

fn stat_all(directory: &Path) -> std::io::Result<usize> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = openat(CWD, directory, flags, Mode::empty())?;
    let mut names = Vec::with_capacity(8 * 1024);
    let mut entries = RawDir::new(&handle, names.spare_capacity_mut());
    let mut found = 0;
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !entry.file_name().to_bytes().starts_with(b".") {
            statat(&handle, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
            found += 1;
        }
    }
    Ok(found)
}
