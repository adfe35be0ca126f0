//! The processes of one command: asks them to end, kills them, and checks that they are dead.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process_group, pidfd_open, pidfd_send_signal,
    waitpid,
};

use super::cgroup::Entrance;
use super::landlock::ConfinedThread;
use super::reaper::Reaper;

/// A killed process that is still there after this long hangs in the kernel, and is reported.
const KILLED_IS_DEAD: Duration = Duration::from_secs(5);

/// The processes of one command.
///
/// Outside is bubblewrap, our child. Inside is the first process of a namespace. When it dies, the kernel kills all other
/// processes of the namespace, and only then does it count as dead.
#[derive(Debug)]
pub(super) struct ProcessTree {
    outside: Pid,
    outside_handle: OwnedFd,
    outside_status: Option<WaitStatus>,
    inside: Option<(Pid, OwnedFd)>,
    /// Whether there is no namespace, but only the process group of the child.
    bare: bool,
    reaper: Arc<Reaper>,
    /// The thread that must outlive the processes.
    cage: Option<ConfinedThread>,
    /// Where processes join their control group, if they do not start in it.
    entrance: Option<Entrance>,
}

impl ProcessTree {
    /// The processes of a child that was just started.
    pub(super) fn new(outside: Pid, bare: bool, reaper: &Arc<Reaper>) -> io::Result<Self> {
        let handle = reaper.add(outside).and_then(|()| Ok(pidfd_open(outside, PidfdFlags::empty())?));
        let outside_handle = match handle {
            Ok(handle) => handle,
            Err(error) => {
                // Without a handle we could not wait for it.
                let _ = rustix::process::kill_process(outside, Signal::KILL);
                let _ = waitpid(Some(outside), WaitOptions::empty());
                reaper.remove(outside);
                return Err(error);
            }
        };
        Ok(Self {
            outside,
            outside_handle,
            outside_status: None,
            inside: None,
            bare,
            reaper: Arc::clone(reaper),
            cage: None,
            entrance: None,
        })
    }

    /// Keeps the thread that must outlive the processes.
    pub(super) fn keep(&mut self, cage: Option<ConfinedThread>) {
        self.cage = cage;
    }

    /// Sets the control group of the processes.
    pub(super) fn hold_in(&mut self, entrance: Option<Entrance>) {
        self.entrance = entrance;
    }

    /// Puts all processes so far into their control group.
    pub(super) fn admit(&self) -> io::Result<()> {
        let Some(entrance) = &self.entrance else { return Ok(()) };
        entrance.admit_tree(self.outside)?;
        // The first process inside is known by its status, even if its parents are gone.
        self.inside.as_ref().map_or(Ok(()), |(inside, _)| entrance.admit(*inside))
    }

    /// Our child.
    pub(super) fn root(&self) -> Pid {
        self.outside
    }

    /// Readable when our child has ended.
    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.outside_handle.as_fd()
    }

    /// Sets the first process inside.
    pub(super) fn found_inside(&mut self, first: i32) {
        let Some(pid) = Pid::from_raw(first).filter(|_| self.inside.is_none()) else { return };
        // The number stays valid until its parent reaps it. If the parent is dead, another process may have it now. A
        // process that is not in a namespace is not ours.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/pid")).ok();
        let of_it = namespace(&first.to_string());
        if self.outside_status.is_none() || of_it.is_some() && of_it != namespace("self") {
            self.inside = Some((pid, handle));
        }
    }

    /// Asks the command's process group to end. bubblewrap itself would die at once with everything inside, and the first
    /// process inside ignores the signal.
    pub(super) fn ask_to_end(&self) {
        let group = if self.bare { Some(self.outside) } else { self.inside.as_ref().map(|(pid, _)| *pid) };
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    /// Kills the processes inside and waits for them. Returns whether they are gone.
    pub(super) fn collapse_inside(&self) -> bool {
        let Some((_, inside)) = &self.inside else { return true };
        let _ = pidfd_send_signal(inside, Signal::KILL);
        ended(inside.as_fd(), Instant::now() + KILLED_IS_DEAD)
    }

    /// Kills all processes and waits for them. Returns whether they are gone.
    pub(super) fn collapse(&mut self) -> bool {
        if let Some((_, inside)) = &self.inside {
            let _ = pidfd_send_signal(inside, Signal::KILL);
        }
        // This includes the bridge around the sandbox.
        let _ = kill_process_group(self.outside, Signal::KILL);
        let _ = pidfd_send_signal(&self.outside_handle, Signal::KILL);
        let until = Instant::now() + KILLED_IS_DEAD;
        let gone = self.inside.as_ref().is_none_or(|(_, inside)| ended(inside.as_fd(), until));
        if ended(self.outside_handle.as_fd(), until) {
            self.reap();
            return gone;
        }
        false
    }

    /// How our child ended. Call it after the child has ended.
    pub(super) fn reap(&mut self) -> Option<WaitStatus> {
        if self.outside_status.is_none() {
            // Before another process can get its number.
            self.reaper.remove(self.outside);
            let reaped = waitpid(Some(self.outside), WaitOptions::NOHANG);
            self.outside_status = reaped.ok().flatten().map(|(_, status)| status);
        }
        self.outside_status
    }
}

/// Waits until a process ends.
fn ended(handle: BorrowedFd<'_>, until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut [PollFd::from_borrowed_fd(handle, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
