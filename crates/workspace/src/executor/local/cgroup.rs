//! Limits the memory of a whole command with a control group, if the system permits it.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use super::processes;

/// The start of our groups' names, before the number of the process.
const PREFIX: &str = "prowess-";
/// How often processes are looked for. A process that forks while it is killed is found in the next round.
const ROUNDS: usize = 50;

/// A control group with a memory limit. It belongs to one thread and the commands that it starts.
#[derive(Debug)]
pub(super) struct Group {
    at: PathBuf,
    version: Version,
    limit: Option<u64>,
}

/// The two kinds of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// A single thread can join a group, and its children start there. Joining takes about ten milliseconds, once for
    /// many commands.
    One,
    /// Each command is moved into the group before it starts.
    Two,
}

impl Group {
    /// Makes a group for the current thread, if the system permits it.
    pub(super) fn enter() -> Option<Self> {
        static SWEEP: Once = Once::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (parent, version) = parent(&fs::read_to_string("/proc/self/cgroup").ok()?)?;
        SWEEP.call_once(|| sweep(&parent));
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let at = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&at).ok()?;
        let group = Self { at, version, limit: None };
        let entered = match version {
            Version::One => fs::write(group.at.join("tasks"), thread_id()),
            Version::Two => group.try_to_admit(),
        };
        if entered.is_err() || group.killed().is_none() {
            group.leave();
            return None;
        }
        Some(group)
    }

    /// Limits memory, including swap, to this many bytes.
    pub(super) fn limit(&mut self, bytes: u64) -> io::Result<()> {
        if self.limit == Some(bytes) {
            return Ok(());
        }
        match self.version {
            Version::One => {
                let swap = self.at.join("memory.memsw.limit_in_bytes");
                // The limit with swap may never be below the limit without, so it is removed first.
                if swap.exists() {
                    fs::write(&swap, "-1")?;
                }
                fs::write(self.at.join("memory.limit_in_bytes"), bytes.to_string())?;
                if swap.exists() {
                    fs::write(&swap, bytes.to_string())?;
                }
            }
            Version::Two => {
                fs::write(self.at.join("memory.max"), bytes.to_string())?;
                // A kernel without swap has no such file.
                let _ = fs::write(self.at.join("memory.swap.max"), "0");
            }
        }
        self.limit = Some(bytes);
        Ok(())
    }

    /// Where processes join the group; `None` if they start in it.
    pub(super) fn entrance(&self) -> Option<Entrance> {
        (self.version == Version::Two).then(|| Entrance(self.at.join("cgroup.procs")))
    }

    /// How many processes of this group were killed for their memory so far.
    pub(super) fn killed(&self) -> Option<u64> {
        let counters = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.at.join(counters)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
    }

    /// Kills all processes of the group except this one.
    pub(super) fn kill_all(&self) {
        let own = std::process::id().cast_signed();
        for _ in 0..ROUNDS {
            let list = fs::read_to_string(self.at.join("cgroup.procs")).unwrap_or_default();
            let others: Vec<i32> =
                list.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != own).collect();
            if others.is_empty() {
                return;
            }
            for process in others.into_iter().filter_map(Pid::from_raw) {
                let _ = kill_process(process, Signal::KILL);
            }
            std::thread::yield_now();
        }
    }

    /// A group of version two made of plain files.
    #[cfg(test)]
    pub(super) fn of_files(at: &Path) -> Self {
        Self { at: at.to_owned(), version: Version::Two, limit: None }
    }

    /// Takes the current thread out of the group, and removes the group.
    pub(super) fn leave(self) {
        if self.version == Version::One
            && let Some(parent) = self.at.parent()
        {
            let _ = fs::write(parent.join("tasks"), thread_id());
        }
        let _ = fs::remove_dir(&self.at);
    }

    /// Moves a test process. The system may forbid this although it let us make the group.
    fn try_to_admit(&self) -> io::Result<()> {
        let mut nothing =
            std::process::Command::new("/bin/cat").stdin(std::process::Stdio::piped()).spawn()?;
        let pid = Pid::from_child(&nothing);
        let admitted = self.entrance().map_or(Ok(()), |entrance| entrance.admit(pid));
        drop(nothing.stdin.take());
        nothing.wait()?;
        admitted
    }
}

/// Where processes join a group.
#[derive(Clone, Debug)]
pub(super) struct Entrance(PathBuf);

impl Entrance {
    /// Adds a process, and with it everything that it starts later.
    pub(super) fn admit(&self, process: Pid) -> io::Result<()> {
        let mut processes = fs::File::options().append(true).open(&self.0)?;
        processes.write_all(format!("{}\n", process.as_raw_nonzero()).as_bytes())
    }

    /// Adds a process and everything that it has started already.
    pub(super) fn admit_tree(&self, root: Pid) -> io::Result<()> {
        let mut admitted = HashSet::new();
        for _ in 0..ROUNDS {
            let found = processes::tree(root);
            let new: Vec<Pid> = found.into_iter().filter(|process| admitted.insert(*process)).collect();
            if new.is_empty() {
                return Ok(());
            }
            for process in new {
                match self.admit(process) {
                    // It has ended.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    result => result?,
                }
            }
        }
        Err(io::Error::other("the command starts processes faster than they can be counted"))
    }
}

fn thread_id() -> String {
    rustix::thread::gettid().as_raw_nonzero().to_string()
}

/// Where groups with a memory limit can be made, from the list of this process's groups.
fn parent(own: &str) -> Option<(PathBuf, Version)> {
    let path_of = |wanted: &str| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            let path = parts.next()?;
            controllers.split(',').any(|name| name == wanted).then(|| path.trim_start_matches('/'))
        })
    };
    if let Some(path) = path_of("memory") {
        let mounted = Path::new("/sys/fs/cgroup/memory");
        // In a container the path may be that of the machine, while the mount shows only a part of it.
        let at = [mounted.join(path), mounted.to_owned()].into_iter().find(|at| at.join("tasks").exists())?;
        return Some((at, Version::One));
    }
    let mounted = Path::new("/sys/fs/cgroup");
    let own = mounted.join(path_of("")?);
    // A group with processes cannot limit groups inside it, so ours is usually a sibling.
    let parents = own.ancestors().take(2).filter(|at| at.starts_with(mounted));
    let hands_out_memory = |at: &&Path| {
        let controllers = fs::read_to_string(at.join("cgroup.subtree_control")).unwrap_or_default();
        controllers.split_whitespace().any(|name| name == "memory")
    };
    parents
        .filter(|at| at.join("cgroup.procs").exists())
        .find(hands_out_memory)
        .map(|at| (at.to_owned(), Version::Two))
}

/// Removes the groups of killed processes. A group in use cannot be removed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_version_s_files() {
        let at = tempfile::tempdir().unwrap();
        let mut group = Group::of_files(at.path());
        assert_eq!(group.killed(), None);
        fs::write(at.path().join("memory.events"), "low 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n")
            .unwrap();
        assert_eq!(group.killed(), Some(3));
        group.limit(4096).unwrap();
        assert_eq!(fs::read_to_string(at.path().join("memory.max")).unwrap(), "4096");
        let entrance = group.entrance().unwrap();
        assert!(entrance.admit(Pid::INIT).is_err());
        fs::write(at.path().join("cgroup.procs"), "").unwrap();
        entrance.admit(Pid::INIT).unwrap();
        assert_eq!(fs::read_to_string(at.path().join("cgroup.procs")).unwrap(), "1\n");
    }

    #[test]
    fn children_that_were_faster_are_taken_in() {
        let at = tempfile::tempdir().unwrap();
        let list = at.path().join("cgroup.procs");
        fs::write(&list, "").unwrap();
        let mut parent = std::process::Command::new("/bin/sh")
            .args(["-c", "sh -c 'sleep 60 & echo; wait' & wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        io::Read::read_exact(parent.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let root = Pid::from_child(&parent);
        Group::of_files(at.path()).entrance().unwrap().admit_tree(root).unwrap();
        let admitted = fs::read_to_string(&list).unwrap();
        for process in processes::tree(root).into_iter().rev() {
            let _ = kill_process(process, Signal::KILL);
        }
        parent.wait().unwrap();
        assert_eq!(admitted.lines().count(), 3, "{admitted}");
        assert!(admitted.lines().any(|line| line == parent.id().to_string()), "{admitted}");
    }

    #[test]
    fn a_process_without_groups_has_no_parent_for_them() {
        assert_eq!(parent(""), None);
        assert_eq!(parent("0::/no/such/group\n"), None);
    }
}
