//! The processes of one sandbox, as the host sees them.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

/// The processes in a namespace of processes. Those of other users are passed over.
pub(super) fn in_namespace(namespace: u64) -> Vec<PathBuf> {
    let wanted = format!("pid:[{namespace}]");
    all()
        .filter(|process| {
            fs::read_link(process.join("ns/pid")).is_ok_and(|found| found.as_os_str() == wanted.as_str())
        })
        .collect()
}

/// How many processes and threads a user has; the one who asks when none is named.
pub(super) fn of_user(user: Option<u32>) -> u64 {
    let user = user.unwrap_or_else(|| rustix::process::getuid().as_raw());
    let own = all().filter(|process| fs::metadata(process).is_ok_and(|metadata| metadata.uid() == user));
    own.map(|process| fs::read_dir(process.join("task")).map_or(0, |tasks| tasks.count() as u64)).sum()
}

/// A process and all that descend from it.
pub(super) fn tree(root: Pid) -> Vec<Pid> {
    let parents: Vec<(Pid, Pid)> = all().filter_map(|process| with_parent(&process)).collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, its)| *its == parent).map(|(process, _)| *process));
        next += 1;
    }
    found
}

/// A process and its parent.
fn with_parent(process: &Path) -> Option<(Pid, Pid)> {
    let text = fs::read_to_string(process.join("stat")).ok()?;
    // The name stands in brackets, and may hold anything.
    let parent = text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    let own = process.file_name()?.to_str()?.parse().ok()?;
    Pid::from_raw(own).zip(Pid::from_raw(parent))
}

fn all() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered =
        entries.filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit));
    numbered.map(|entry| entry.path())
}

/// The memory that these processes have for themselves, in bytes.
pub(super) fn memory(processes: &[PathBuf]) -> u64 {
    let own = |process: &PathBuf| {
        let text = fs::read_to_string(process.join("statm")).ok()?;
        let mut pages = text.split(' ').skip(1).map_while(|field| field.parse::<u64>().ok());
        let (resident, shared) = (pages.next()?, pages.next()?);
        Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
    };
    processes.iter().filter_map(own).sum()
}

/// The space of files that have no name any more but are held open, on one device, in bytes.
///
/// A walk of directories does not see them, and they fill the disk all the same.
pub(super) fn nameless_files(processes: &[PathBuf], device: u64) -> u64 {
    let mut seen = HashSet::new();
    let open =
        processes.iter().flat_map(|process| fs::read_dir(process.join("fd")).into_iter().flatten().flatten());
    open.filter_map(|entry| fs::metadata(entry.path()).ok())
        .filter(|file| file.is_file() && file.nlink() == 0 && file.dev() == device && seen.insert(file.ino()))
        .map(|file| file.blocks() * 512)
        .sum()
}
