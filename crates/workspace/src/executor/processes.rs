//! The processes of one sandbox, as seen from outside: which they are, and how much memory they use.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

/// The processes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processes {
    /// All processes in a namespace.
    InNamespace(u64),
    /// A process and its descendants, if there is no namespace.
    Below(Pid),
    /// Not known yet.
    Unknown,
}

impl Processes {
    pub(super) fn find(self) -> Vec<PathBuf> {
        let place = |process: Pid| Path::new("/proc").join(process.as_raw_nonzero().to_string());
        match self {
            Self::InNamespace(namespace) => in_namespace(namespace),
            Self::Below(root) => tree(root).into_iter().map(place).collect(),
            Self::Unknown => Vec::new(),
        }
    }
}

/// The processes in a PID namespace. Those of other users are skipped.
fn in_namespace(namespace: u64) -> Vec<PathBuf> {
    let wanted = format!("pid:[{namespace}]");
    all()
        .filter(|process| {
            fs::read_link(process.join("ns/pid")).is_ok_and(|found| found.as_os_str() == wanted.as_str())
        })
        .collect()
}

/// How many processes and threads a user has; this user if none is given.
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
    // The name is in brackets and can contain anything.
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

/// The memory of these processes in bytes. Shared memory counts once. Mapped files do not count, because the kernel can
/// drop them.
pub(super) fn memory(processes: &[PathBuf]) -> u64 {
    let own = |process: &PathBuf| {
        let shares = fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
        let all = || fs::read_to_string(process.join("status")).unwrap_or_default();
        // A page that three processes share counts as a third for each. Older kernels do not report this; there such a
        // page counts three times.
        sum(&shares, ["Pss_Anon:", "Pss_Shmem:"], "SwapPss:")
            .or_else(|| sum(&all(), ["RssAnon:", "RssShmem:"], "VmSwap:"))
    };
    processes.iter().filter_map(own).fold(0, u64::saturating_add)
}

/// The sum of kernel fields in units of 1,024 bytes: two required ones and an optional one.
fn sum(text: &str, needed: [&str; 2], more: &str) -> Option<u64> {
    let field = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    let [one, other] = needed.map(field);
    Some((one? + other? + field(more).unwrap_or(0)).saturating_mul(1024))
}

/// Directories of a sandbox that are in memory.
const IN_MEMORY: [&str; 2] = ["root/tmp", "root/dev/shm"];

/// The size of the files in a sandbox's memory, in bytes. All of its processes see the same files.
pub(super) fn temporary_files(processes: &[PathBuf]) -> u64 {
    const TMPFS: u64 = 0x0102_1994;
    let used = |place: PathBuf| {
        let found = rustix::fs::statfs(place).ok()?;
        let is_memory = u64::try_from(found.f_type).ok()? == TMPFS;
        let blocks = is_memory.then(|| found.f_blocks.saturating_sub(found.f_bfree))?;
        Some(blocks.saturating_mul(u64::try_from(found.f_bsize).ok()?))
    };
    let seen = |process: &PathBuf| {
        let found: Vec<u64> = IN_MEMORY.iter().filter_map(|place| used(process.join(place))).collect();
        // A process that is ending sees nothing.
        (!found.is_empty()).then(|| found.into_iter().fold(0, u64::saturating_add))
    };
    processes.iter().find_map(seen).unwrap_or(0)
}

/// The size of deleted files that are still open on one device, in bytes.
///
/// A directory walk does not see them, but they fill the disk.
pub(super) fn nameless_files(processes: &[PathBuf], device: u64) -> u64 {
    let mut seen = HashSet::new();
    let open =
        processes.iter().flat_map(|process| fs::read_dir(process.join("fd")).into_iter().flatten().flatten());
    open.filter_map(|entry| fs::metadata(entry.path()).ok())
        .filter(|file| file.is_file() && file.nlink() == 0 && file.dev() == device && seen.insert(file.ino()))
        .map(|file| file.blocks() * 512)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_added_and_what_is_missing_is_told() {
        let shares = "00400000-7ffd [rollup]\nRss: 9 kB\nPss_Anon: 3 kB\nPss_File: 5 kB\nPss_Shmem: 4 kB\nSwapPss: 1 kB\n";
        assert_eq!(sum(shares, ["Pss_Anon:", "Pss_Shmem:"], "SwapPss:"), Some(8 * 1024));
        assert_eq!(sum("Pss: 3 kB\n", ["Pss_Anon:", "Pss_Shmem:"], "SwapPss:"), None);
        assert_eq!(sum("", ["RssAnon:", "RssShmem:"], "VmSwap:"), None);
    }

    #[test]
    fn memory_of_this_process_is_known() {
        let own = Processes::Below(rustix::process::getpid()).find();
        assert!(memory(&own) > 0);
        assert_eq!(memory(&[PathBuf::from("/proc/nobody")]), 0);
    }
}
