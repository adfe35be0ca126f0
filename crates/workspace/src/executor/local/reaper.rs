//! A process that outlives ours by a moment, to kill what ours left half started.
//!
//! bubblewrap asks to die with its parent before its first process inside can notice: when ours is killed in
//! between, that process waits for ever. It is still in the group of its bubblewrap then, and the reaper, which
//! notices our end by the end of a pipe, kills the group. Later than that the namespace dies with bubblewrap.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};

use super::spawn::{ProcessGroup, spawn};

/// Keeps a list of groups; at the end of its input it kills them.
const SCRIPT: &str = "while read -r what group; do case $what in \
     +) all=\"$all $group \";; \
     -) all=\"${all%% $group *} ${all#* $group }\";; \
     esac; done; for group in $all; do kill -s KILL -- -$group; done";

/// Kills what this process leaves half started when it is killed.
#[derive(Debug)]
pub(super) struct Reaper {
    /// None once it is to end.
    list: Option<OwnedFd>,
    process: Pid,
}

impl Reaper {
    pub(super) fn start() -> io::Result<Self> {
        let (end, list) = pipe_with(PipeFlags::CLOEXEC)?;
        let null = OwnedFd::from(File::options().read(true).write(true).open("/dev/null")?);
        // In a session of its own it does not hear what a terminal says to us.
        let line = ["/usr/bin/setsid", "/bin/sh", "-c", SCRIPT].map(Into::into);
        let process = spawn(&line, &[], &[(&end, 0), (&null, 1), (&null, 2)], ProcessGroup::Ours)?;
        Ok(Self { list: Some(list), process })
    }

    /// Whether somebody still reads the list.
    pub(super) fn is_alive(&self) -> bool {
        let Some(list) = &self.list else { return false };
        let mut ends = [PollFd::new(list, PollFlags::OUT)];
        let looked = poll(&mut ends, Some(&Timespec::default()));
        looked.is_ok() && !ends[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }

    /// From now on the group of this process is killed when we are.
    pub(super) fn add(&self, leader: Pid) -> io::Result<()> {
        self.say('+', leader)
    }

    /// Its processes are dead.
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
