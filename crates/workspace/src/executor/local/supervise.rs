//! Keeps one command: reads what it writes, watches its limits, and sees it dead.

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

/// How often limits are looked at that nothing reports by itself.
const WATCH_EVERY: Duration = Duration::from_millis(200);
/// How soon a watcher that was behind is offered its piece again.
const OFFER_EVERY: Duration = Duration::from_millis(5);
/// All writers are dead by then; what is still in the pipes is read in this time.
const DRAIN_FOR: Duration = Duration::from_secs(2);

/// The ends of the pipes to a started sandbox, and what ends it early.
#[derive(Debug)]
pub(super) struct SandboxPipes {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) status: Option<OwnedFd>,
    pub(super) here: OwnedFd,
    pub(super) gate: OwnedFd,
}

/// What became of a sandbox.
#[derive(Debug)]
pub(super) struct SandboxEnd {
    /// What ended it early, if something did.
    pub(super) verdict: Option<Exit>,
    pub(super) status: BwrapStatus,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
    /// Whether every process is known to be dead.
    pub(super) gone: bool,
    /// Why the command was not let in, if it was not.
    pub(super) failed: Option<io::Error>,
}

/// Whatever else ends a command, looked at now and then; given the namespace of its processes.
pub(super) type Watch<'a> = &'a mut dyn FnMut(Option<u64>) -> Option<Exit>;

/// Keeps a command until it and all of its processes are dead.
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
    // Also what bubblewrap said last: a first process that has left its group is known by nothing else.
    supervisor.hear(tree);
    let mut gone = tree.collapse();
    supervisor.hear(tree);
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
    /// Where the first process inside says that it is there; none once it has.
    here: Option<OwnedFd>,
    gate: Option<OwnedFd>,
    verdict: Option<Exit>,
    failed: Option<io::Error>,
    /// The end of its time; after that the end of its grace.
    deadline: Instant,
    watch_at: Instant,
    buffer: Vec<u8>,
}

impl Supervisor {
    /// Waits for one thing and does what it asks for. Says whether to go on.
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
        let Ok([ended, cancelled, told, here, wrote_out, wrote_err]) = wait(sources, until) else {
            return false;
        };
        stdout.offer_again();
        stderr.offer_again();
        if told {
            self.hear(tree);
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
        if ended {
            return false;
        }
        let now = Instant::now();
        if now >= self.deadline {
            // The second time its grace is over.
            if self.verdict.is_some() {
                return false;
            }
            self.verdict = Some(Exit::TimedOut);
            self.deadline = now + limits.grace;
            tree.ask_to_end();
        }
        if now >= self.watch_at {
            if let Some(exit) = watch(self.status.namespace) {
                return self.end(exit);
            }
            // A watch that takes long is done less often.
            self.watch_at = Instant::now() + WATCH_EVERY.max(now.elapsed() * 4);
        }
        true
    }

    /// The first verdict stands.
    fn end(&mut self, exit: Exit) -> bool {
        self.verdict.get_or_insert(exit);
        false
    }

    fn hear(&mut self, tree: &mut ProcessTree) {
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

    /// Hears whether the first process inside is there, or will never be.
    fn meet(&mut self) {
        let said = self.here.take().map(|here| rustix::io::read(here, &mut [0; 1]));
        if !matches!(said, Some(Ok(1..))) {
            self.gate = None;
        }
    }

    /// Lets the command begin, once its first process is there, known, and in its group.
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

    /// Reads what the dead left in the pipes.
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
                // The watcher decides the pace; it has until then.
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

/// Waits until one of these has something, or until a time. Says which have.
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
