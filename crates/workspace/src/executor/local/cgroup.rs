//! A limit on the memory of a whole command, where the system permits one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// What our groups' names begin with; the number of their process follows.
const PREFIX: &str = "prowess-";

/// A control group whose memory is limited, and in which the current thread is.
///
/// Moving a process costs the kernel some ten milliseconds. In the first version of control groups a thread can
/// be moved alone: what it starts is born in its group, and the move is paid once for many commands.
#[derive(Debug)]
pub(super) struct Group {
    at: PathBuf,
    limit: Option<u64>,
}

impl Group {
    /// Puts the current thread into a new group, if that is permitted.
    pub(super) fn enter() -> Option<Self> {
        static SWEEP: Once = Once::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let parent = memory_controller()?;
        SWEEP.call_once(|| sweep(&parent));
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let group = Self { at: parent.join(format!("{PREFIX}{}-{number}", std::process::id())), limit: None };
        fs::create_dir(&group.at).ok()?;
        let entered = fs::write(group.at.join("tasks"), thread_id());
        if entered.is_err() || group.killed().is_none() {
            group.leave();
            return None;
        }
        Some(group)
    }

    /// Limits memory, swap included, to so many bytes.
    pub(super) fn limit(&mut self, bytes: u64) -> io::Result<()> {
        if self.limit == Some(bytes) {
            return Ok(());
        }
        let swap = self.at.join("memory.memsw.limit_in_bytes");
        // The sum may never be less than its part, so it is out of the way while the part changes.
        if swap.exists() {
            fs::write(&swap, "-1")?;
        }
        fs::write(self.at.join("memory.limit_in_bytes"), bytes.to_string())?;
        if swap.exists() {
            fs::write(&swap, bytes.to_string())?;
        }
        self.limit = Some(bytes);
        Ok(())
    }

    /// How many processes were killed for memory in this group so far.
    pub(super) fn killed(&self) -> Option<u64> {
        let text = fs::read_to_string(self.at.join("memory.oom_control")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
    }

    /// Kills whatever is in the group beside ourselves.
    pub(super) fn kill_all(&self) {
        let own = std::process::id();
        // What forks while it is killed is found by the next round.
        for _ in 0..50 {
            let list = fs::read_to_string(self.at.join("cgroup.procs")).unwrap_or_default();
            let others: Vec<u32> = list.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != own).collect();
            if others.is_empty() {
                return;
            }
            for pid in others.into_iter().filter_map(|pid| rustix::process::Pid::from_raw(pid.cast_signed())) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            std::thread::yield_now();
        }
    }

    /// Takes the current thread out, and the group away.
    pub(super) fn leave(self) {
        if let Some(parent) = self.at.parent() {
            let _ = fs::write(parent.join("tasks"), thread_id());
        }
        let _ = fs::remove_dir(&self.at);
    }
}

fn thread_id() -> String {
    rustix::thread::gettid().as_raw_nonzero().to_string()
}

/// The directory of this process in the memory controller.
fn memory_controller() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let controllers = parts.nth(1)?;
        controllers.split(',').any(|name| name == "memory").then(|| parts.next())?
    })?;
    let mounted = Path::new("/sys/fs/cgroup/memory");
    // In a container the path can be that of the host, while the mount shows only our part of it.
    [mounted.join(path.trim_start_matches('/')), mounted.to_owned()].into_iter().find(|at| at.join("tasks").exists())
}

/// Takes away what processes left behind that were killed. A group that is in use cannot be removed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
