//! Supervises one command: reads its output, watches its limits, and makes sure that it is dead.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use secrecy::SecretString;
use tokio::sync::mpsc::Sender;

use super::process_tree::ProcessTree;
use super::status::BwrapStatus;
use super::stream::StreamReader;
use crate::command::{Captured, Exit};
use crate::executor::Stream;
use crate::executor::stream::Piece;
use crate::limits::{Limits, MAX_TIMEOUT};

/// How often the limits that the system does not enforce are checked.
const WATCH_EVERY: Duration = Duration::from_millis(200);
/// How soon output is offered again to a watcher that was busy.
const OFFER_EVERY: Duration = Duration::from_millis(5);
/// How long the rest of the pipes is read after all writers are dead.
const DRAIN_FOR: Duration = Duration::from_secs(2);

/// Our ends of the pipes to a started sandbox.
#[derive(Debug)]
pub(super) struct SandboxPipes {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) status: Option<OwnedFd>,
    pub(super) here: OwnedFd,
    pub(super) gate: OwnedFd,
}

/// How a sandbox ended.
#[derive(Debug)]
pub(super) struct SandboxEnd {
    /// Why it was ended early, if it was.
    pub(super) verdict: Option<Exit>,
    pub(super) status: BwrapStatus,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
    /// Whether every process is known to be dead.
    pub(super) gone: bool,
    /// Why the command was not started, if it was not.
    pub(super) failed: Option<io::Error>,
}

/// Checks the limits that the system does not enforce. It gets the namespace of the processes.
pub(super) type Watch<'a> = &'a mut dyn FnMut(Option<u64>) -> Option<Exit>;

/// Supervises a command until it and all of its processes are dead.
pub(super) fn supervise(
    tree: &mut ProcessTree,
    ends: SandboxPipes,
    cancel: BorrowedFd<'_>,
    limits: &Limits,
    secrets: &[SecretString],
    watcher: &Sender<Piece>,
    watch: Watch<'_>,
) -> SandboxEnd {
    let mut stdout = StreamReader::new(Stream::Stdout, ends.stdout, secrets, limits.output_kept, watcher);
    let mut stderr = StreamReader::new(Stream::Stderr, ends.stderr, secrets, limits.output_kept, watcher);
    let mut supervisor = Supervisor {
        status: BwrapStatus::default(),
        status_end: ends.status,
        here: Some(ends.here),
        gate: Some(ends.gate),
        verdict: None,
        failed: None,
        deadline: Instant::now() + limits.timeout.min(MAX_TIMEOUT),
        watch_at: Instant::now() + WATCH_EVERY,
        buffer: Vec::new(),
    };
    while supervisor.step(tree, cancel, limits, &mut stdout, &mut stderr, watch) {}
    // Read the last status too: it is the only way to know a first process that left its group.
    supervisor.read_status(tree);
    let mut gone = tree.collapse();
    supervisor.read_status(tree);
    gone &= tree.collapse_inside();
    supervisor.drain(limits, &mut stdout, &mut stderr);
    SandboxEnd {
        verdict: supervisor.verdict,
        status: supervisor.status,
        stdout: stdout.finish(),
        stderr: stderr.finish(),
        gone,
        failed: supervisor.failed,
    }
}

struct Supervisor {
    status: BwrapStatus,
    status_end: Option<OwnedFd>,
    /// Where the first process inside reports that it runs; `None` once it has.
    here: Option<OwnedFd>,
    gate: Option<OwnedFd>,
    verdict: Option<Exit>,
    failed: Option<io::Error>,
    /// The end of its time, and then the end of its grace period.
    deadline: Instant,
    watch_at: Instant,
    buffer: Vec<u8>,
}

impl Supervisor {
    /// Waits for one event and handles it. Returns whether to go on.
    fn step(
        &mut self,
        tree: &mut ProcessTree,
        cancel: BorrowedFd<'_>,
        limits: &Limits,
        stdout: &mut StreamReader<'_>,
        stderr: &mut StreamReader<'_>,
        watch: Watch<'_>,
    ) -> bool {
        let mut until = self.deadline.min(self.watch_at);
        if stdout.is_waiting() || stderr.is_waiting() {
            until = until.min(Instant::now() + OFFER_EVERY);
        }
        let sources = [
            Some(tree.handle()),
            Some(cancel),
            self.status_end.as_ref().map(AsFd::as_fd),
            self.here.as_ref().map(AsFd::as_fd),
            stdout.source(),
            stderr.source(),
        ];
        let Ok([ended, cancelled, has_status, here, wrote_out, wrote_err]) = wait(sources, until) else {
            return false;
        };
        stdout.offer_again();
        stderr.offer_again();
        if has_status {
            self.read_status(tree);
        }
        if here {
            self.meet();
        }
        self.open_gate(tree);
        if self.failed.is_some() {
            return false;
        }
        if wrote_out {
            stdout.read(&mut self.buffer);
        }
        if wrote_err {
            stderr.read(&mut self.buffer);
        }
        if cancelled {
            return self.end(Exit::Cancelled);
        }
        if stdout.total() + stderr.total() > limits.output_total {
            return self.end(Exit::TooMuchOutput);
        }
        !ended && self.check_time(tree, limits) && self.check_limits(watch)
    }

    /// Asks the command to end when its time is over. Returns whether to go on: after the grace period it is killed.
    fn check_time(&mut self, tree: &ProcessTree, limits: &Limits) -> bool {
        let now = Instant::now();
        if now < self.deadline {
            return true;
        }
        if self.verdict.is_some() {
            return false;
        }
        self.verdict = Some(Exit::TimedOut);
        self.deadline = now + limits.grace;
        tree.ask_to_end();
        true
    }

    /// Checks the limits that the system does not enforce, from time to time. Returns whether to go on.
    fn check_limits(&mut self, watch: Watch<'_>) -> bool {
        let now = Instant::now();
        if now >= self.watch_at {
            if let Some(exit) = watch(self.status.namespace) {
                return self.end(exit);
            }
            // A slow check is done less often.
            self.watch_at = Instant::now() + WATCH_EVERY.max(now.elapsed() * 4);
        }
        true
    }

    /// Sets the verdict unless there is one.
    fn end(&mut self, exit: Exit) -> bool {
        self.verdict.get_or_insert(exit);
        false
    }

    /// Reads what bubblewrap reports.
    fn read_status(&mut self, tree: &mut ProcessTree) {
        let Some(end) = &self.status_end else { return };
        let mut bytes = [0; 1024];
        match rustix::io::read(end, &mut bytes) {
            Ok(0) => self.status_end = None,
            Ok(length) => self.status.push(&bytes[..length]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.status_end = None,
        }
        if let Some(first) = self.status.first {
            tree.found_inside(first);
        }
    }

    /// Reads whether the first process inside runs, or failed to start.
    fn meet(&mut self) {
        let report = self.here.take().map(|here| rustix::io::read(here, &mut [0; 1]));
        if !matches!(report, Some(Ok(1..))) {
            self.gate = None;
        }
    }

    /// Starts the command once its first process is known and in its control group.
    fn open_gate(&mut self, tree: &ProcessTree) {
        let known = self.status_end.is_none() || self.status.first.is_some();
        if self.here.is_none()
            && known
            && let Some(gate) = self.gate.take()
        {
            match tree.admit() {
                Ok(()) => {
                    let _ = rustix::io::write(&gate, b"go\n");
                }
                Err(error) => self.failed = Some(error),
            }
        }
    }

    /// Reads the rest of the pipes.
    fn drain(&mut self, limits: &Limits, stdout: &mut StreamReader<'_>, stderr: &mut StreamReader<'_>) {
        let until = Instant::now() + DRAIN_FOR;
        while let Some(end) = &self.status_end {
            let mut bytes = [0; 1024];
            match rustix::io::read(end, &mut bytes) {
                Ok(length @ 1..) => self.status.push(&bytes[..length]),
                _ => break,
            }
        }
        while Instant::now() < until && stdout.total() + stderr.total() <= limits.output_total {
            if stdout.has_ended() && stderr.has_ended() {
                return;
            }
            if stdout.is_waiting() || stderr.is_waiting() {
                // The watcher decides the pace, until the time is over.
                let _ = wait([None::<BorrowedFd<'_>>], until.min(Instant::now() + OFFER_EVERY));
                stdout.offer_again();
                stderr.offer_again();
                continue;
            }
            let Ok([out, err]) = wait([stdout.source(), stderr.source()], until) else { return };
            if out {
                stdout.read(&mut self.buffer);
            }
            if err {
                stderr.read(&mut self.buffer);
            }
        }
    }
}

/// Waits until one of these is readable, or until a time. Returns which are.
fn wait<const N: usize>(sources: [Option<BorrowedFd<'_>>; N], until: Instant) -> io::Result<[bool; N]> {
    let mut list: Vec<PollFd<'_>> =
        sources.iter().flatten().map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN)).collect();
    let left = until.saturating_duration_since(Instant::now());
    match poll(&mut list, Some(&Timespec::try_from(left).unwrap_or_default())) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut ready = list.iter().map(|one| !one.revents().is_empty());
    Ok(sources.map(|source| source.is_some() && ready.next().unwrap_or(false)))
}
