//! A process that outlives prowess for a moment, to kill sandboxes that were half started.
//!
//! If prowess is killed while bubblewrap starts, the first process inside may wait forever. It is then still in
//! bubblewrap's process group. The reaper sees the end of a pipe and kills that group. Later, the namespace dies with
//! bubblewrap.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};

use super::spawn::{ProcessGroup, spawn};

/// Keeps a list of process groups, and kills them at the end of its input.
const SCRIPT: &str = "while read -r what group; do case $what in \
     +) all=\"$all $group \";; \
     -) all=\"${all%% $group *} ${all#* $group }\";; \
     esac; done; for group in $all; do kill -s KILL -- -$group; done";

/// Kills half-started sandboxes if this process is killed.
#[derive(Debug)]
pub(super) struct Reaper {
    /// `None` once it must end.
    list: Option<OwnedFd>,
    process: Pid,
}

impl Reaper {
    pub(super) fn start() -> io::Result<Self> {
        let (end, list) = pipe_with(PipeFlags::CLOEXEC)?;
        let null = OwnedFd::from(File::options().read(true).write(true).open("/dev/null")?);
        // Its own process session, so that signals from our terminal do not reach it.
        let line = ["/usr/bin/setsid", "/bin/sh", "-c", SCRIPT].map(Into::into);
        let process = spawn(&line, &[], &[(&end, 0), (&null, 1), (&null, 2)], ProcessGroup::Ours)?;
        Ok(Self { list: Some(list), process })
    }

    /// Whether the reaper still reads its list.
    pub(super) fn is_alive(&self) -> bool {
        let Some(list) = &self.list else { return false };
        let mut ends = [PollFd::new(list, PollFlags::OUT)];
        let looked = poll(&mut ends, Some(&Timespec::default()));
        looked.is_ok() && !ends[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }

    /// Adds a process group. It is killed if prowess is killed.
    pub(super) fn add(&self, leader: Pid) -> io::Result<()> {
        self.say('+', leader)
    }

    /// Removes a process group whose processes are dead.
    pub(super) fn remove(&self, leader: Pid) {
        let _ = self.say('-', leader);
    }

    fn say(&self, what: char, leader: Pid) -> io::Result<()> {
        let line = format!("{what} {}\n", leader.as_raw_nonzero());
        if let Some(list) = &self.list {
            rustix::io::write(list, line.as_bytes())?;
        }
        Ok(())
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.list = None;
        let _ = waitpid(Some(self.process), WaitOptions::empty());
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, kill_process};

    use super::*;

    #[test]
    fn a_dead_one_is_known_to_be_dead() {
        let reaper = Reaper::start().unwrap();
        assert!(reaper.is_alive());
        kill_process(reaper.process, Signal::KILL).unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while reaper.is_alive() {
            assert!(std::time::Instant::now() < until);
            std::thread::yield_now();
        }
    }
}
