//! Counts what many runs leave behind.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use super::{Place, run, small_skill};
use crate::task::{Sample, cpu_of};

/// The number of runs, and how many run at once.
pub(crate) const RUNS: usize = 200;
const AT_ONCE: usize = 8;

/// Runs commands that start a process which would outlive them. Counts the processes, mounts, files and control groups
/// that are left.
pub(crate) fn left_behind() -> Result<Sample> {
    let place = Place::new()?;
    let skill = small_skill(&place)?;
    let mark = format!("prowess-bench-{}", std::process::id());
    let command = format!("(exec -a {mark} sleep 600) & :");
    let runner = Arc::new(place.runner());
    // The first run creates the workspace and everything that the executor keeps.
    place.runtime.block_on(run(&runner, &skill, &command))?;
    let workspaces = place.directory.path().join("workspaces");
    let files = entries(&workspaces)?;
    let (cpu_ms, ran) = cpu_of(|| {
        place.runtime.block_on(async {
            for _ in 0..RUNS / AT_ONCE {
                let one = || {
                    let (runner, skill, command) = (Arc::clone(&runner), skill.clone(), command.clone());
                    tokio::spawn(async move { run(&runner, &skill, &command).await })
                };
                for run in (0..AT_ONCE).map(|_| one()).collect::<Vec<_>>() {
                    run.await??;
                }
            }
            anyhow::Ok(())
        })
    });
    ran?;
    drop(runner);
    let counted = processes(&mark)?
        + entries(&workspaces)?.abs_diff(files)
        + mounts(place.directory.path())?
        + groups(Path::new("/sys/fs/cgroup"));
    Ok(Sample { counted, ..Sample::of(cpu_ms / RUNS as f64, RUNS)? })
}

/// The processes below this one, and all processes with the mark.
fn processes(mark: &str) -> Result<usize> {
    let own = std::process::id();
    let mut parents = HashMap::new();
    let mut marked = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        parents.extend(parent.map(|parent: u32| (process, parent)));
        if String::from_utf8_lossy(&fs::read(entry.path().join("cmdline")).unwrap_or_default()).contains(mark)
        {
            marked.push(process);
        }
    }
    let is_below = |process: u32| {
        let mut above = process;
        while let Some(parent) = parents.get(&above) {
            if *parent == own {
                return true;
            }
            above = *parent;
        }
        false
    };
    let all = parents.keys().filter(|process| is_below(**process) || marked.contains(process));
    Ok(all.filter(|process| **process != own).count())
}

/// The mounts below this directory, and those of bubblewrap. Others mount on the same machine too.
fn mounts(place: &Path) -> Result<usize> {
    let place = super::text(place)?;
    let is_ours = |mount: &&str| [place, "/newroot", "/oldroot"].iter().any(|part| mount.contains(part));
    Ok(fs::read_to_string("/proc/self/mountinfo")?.lines().filter(is_ours).count())
}

/// The number of entries below a directory.
fn entries(directory: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        count += 1;
        if entry.file_type()?.is_dir() {
            count += entries(&entry.path())?;
        }
    }
    Ok(count)
}

/// The number of control groups that this process made.
fn groups(directory: &Path) -> usize {
    let name = format!("prowess-{}-", std::process::id());
    let below = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories
        .map(|entry| {
            let is_ours = entry.file_name().to_string_lossy().starts_with(&name);
            usize::from(is_ours) + groups(&entry.path())
        })
        .sum()
}
