//! Supervises one container: reads its output, watches its limits, and ends it.

use std::time::Duration;

use bollard::container::LogOutput;
use futures_util::StreamExt as _;
use secrecy::SecretString;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::directory::ContainerDirectory;
use super::engine::message_of;
use super::instance::{self, Instance};
use super::owner::namespace;
use super::script::HERE;
use crate::command::{Captured, Exit};
use crate::executor::processes::Processes;
use crate::executor::stream::{Output, Piece};
use crate::executor::watch::Watch;
use crate::executor::{ExecuteError, Stream};
use crate::limits::{Limits, MAX_TIMEOUT};

/// How often the limits that the system does not enforce are checked.
const WATCH_EVERY: Duration = Duration::from_millis(200);
/// How long the first process may take to start on a busy machine.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);
/// How long the rest of the output is read after all writers are dead.
const DRAIN_FOR: Duration = Duration::from_secs(2);

/// How a container ended.
#[derive(Debug)]
pub(super) struct ContainerEnd {
    /// Why it was ended early, if it was.
    pub(super) verdict: Option<Exit>,
    /// Whether the command was started.
    pub(super) began: bool,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
    /// Why the container could not be removed, if it could not. It has ended.
    pub(super) left_behind: Option<String>,
}

impl ContainerEnd {
    /// For a command that was never started.
    pub(super) fn never(verdict: Exit) -> Self {
        let (stdout, stderr) = (Captured::default(), Captured::default());
        Self { verdict: Some(verdict), began: false, stdout, stderr, left_behind: None }
    }
}

/// The receivers of news about a container.
pub(super) struct Listeners<'a> {
    pub(super) cancel: &'a mut oneshot::Receiver<()>,
    pub(super) watcher: &'a mpsc::Sender<Piece>,
    /// Is set when the command starts.
    pub(super) began: &'a watch::Sender<bool>,
    /// Its secrets are hidden when the command starts.
    pub(super) directory: &'a ContainerDirectory,
}

/// Supervises a container until the command has ended or must end. Then it is killed.
pub(super) async fn supervise(
    container: &Instance<'_>,
    output: instance::Output,
    limits: &Limits,
    secrets: &[SecretString],
    mut listeners: Listeners<'_>,
    watch: &mut Watch,
) -> Result<ContainerEnd, ExecuteError> {
    let mut supervisor = Supervisor {
        container,
        output,
        greeting: 0,
        early: Vec::new(),
        stdout: Output::new(Stream::Stdout, secrets, limits.output_kept),
        stderr: Output::new(Stream::Stderr, secrets, limits.output_kept),
        waiting: Vec::new(),
        verdict: None,
        namespace: None,
        deadline: Instant::now() + BEGINS_WITHIN,
        watch_at: None,
    };
    while supervisor.step(limits, &mut listeners, watch).await? {}
    if supervisor.verdict.is_some() {
        container.signal("KILL").await;
    }
    supervisor.drain(limits, &listeners).await;
    let began = supervisor.began();
    Ok(ContainerEnd {
        verdict: supervisor.verdict,
        began,
        stdout: supervisor.stdout.finish(),
        stderr: supervisor.stderr.finish(),
        left_behind: None,
    })
}

struct Supervisor<'a> {
    container: &'a Instance<'a>,
    output: instance::Output,
    /// How many bytes of the first process's greeting have come.
    greeting: usize,
    /// Standard error from before the greeting; the streams are not synchronized.
    early: Vec<u8>,
    stdout: Output<'a>,
    stderr: Output<'a>,
    /// Pieces that the watcher had no space for. Meanwhile nothing is read, so the command waits.
    waiting: Vec<Piece>,
    verdict: Option<Exit>,
    namespace: Option<u64>,
    /// The end of its time to start, then of its timeout, then of its grace period.
    deadline: Instant,
    watch_at: Option<Instant>,
}

impl Supervisor<'_> {
    fn began(&self) -> bool {
        self.greeting == HERE.len()
    }

    /// Waits for one event and handles it. Returns whether to go on.
    async fn step(
        &mut self,
        limits: &Limits,
        listeners: &mut Listeners<'_>,
        watch: &mut Watch,
    ) -> Result<bool, ExecuteError> {
        let watch_at = self.watch_at.unwrap_or(self.deadline);
        tokio::select! {
            biased;
            _ = &mut *listeners.cancel => Ok(self.end(Exit::Cancelled)),
            () = sleep_until(self.deadline) => self.time_is_over(limits).await,
            () = sleep_until(watch_at), if self.watch_at.is_some() => Ok(self.check_limits(watch).await),
            room = listeners.watcher.reserve(), if !self.waiting.is_empty() => {
                let piece = self.waiting.remove(0);
                // Reading goes on even if the watcher is gone.
                if let Ok(room) = room {
                    room.send(piece);
                }
                Ok(true)
            }
            piece = self.output.next(), if self.waiting.is_empty() => match piece {
                None => Ok(false),
                Some(Err(error)) => Err(lost(&error)),
                Some(Ok(piece)) => {
                    self.take(piece, limits, listeners);
                    let written = self.stdout.total() + self.stderr.total();
                    Ok(written <= limits.output_total || self.end(Exit::TooMuchOutput))
                }
            },
        }
    }

    /// Sets the verdict unless there is one.
    fn end(&mut self, exit: Exit) -> bool {
        self.verdict.get_or_insert(exit);
        false
    }

    async fn time_is_over(&mut self, limits: &Limits) -> Result<bool, ExecuteError> {
        if !self.began() {
            let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Err(ExecuteError::System {
                action: "start the command in its container".to_owned(),
                error,
            });
        }
        // The second time, its grace period is over.
        if self.verdict.is_some() {
            return Ok(false);
        }
        self.verdict = Some(Exit::TimedOut);
        self.deadline = Instant::now() + limits.grace;
        self.container.signal("TERM").await;
        Ok(true)
    }

    /// Checks the limits. Returns whether to go on.
    async fn check_limits(&mut self, watch: &mut Watch) -> bool {
        let from = Instant::now();
        if self.namespace.is_none() {
            let first = self.container.first_process().await;
            let own = namespace("self");
            let found = first.and_then(|first| namespace(&first.to_string()));
            self.namespace = found.filter(|_| found != own);
        }
        if let Some(exit) = watch.check(self.namespace.map_or(Processes::Unknown, Processes::InNamespace)) {
            return self.end(exit);
        }
        // A slow check is done less often.
        self.watch_at = Some(Instant::now() + WATCH_EVERY.max(from.elapsed() * 4));
        true
    }

    fn take(&mut self, piece: LogOutput, limits: &Limits, listeners: &Listeners<'_>) {
        match piece {
            LogOutput::StdErr { message } if self.began() => self.waiting.extend(self.stderr.push(&message)),
            LogOutput::StdErr { message } => self.early.extend_from_slice(&message),
            LogOutput::StdOut { message } | LogOutput::Console { message } => {
                let rest = self.greet(&message, limits, listeners);
                if !rest.is_empty() {
                    self.waiting.extend(self.stdout.push(rest));
                }
            }
            LogOutput::StdIn { .. } => {}
        }
    }

    /// Removes the first process's greeting from its output. With the greeting the command's time starts.
    fn greet<'p>(&mut self, message: &'p [u8], limits: &Limits, listeners: &Listeners<'_>) -> &'p [u8] {
        let (word, rest) = message.split_at(message.len().min(HERE.len() - self.greeting));
        if word.is_empty() {
            return rest;
        }
        self.greeting += word.len();
        if self.began() {
            let now = Instant::now();
            self.deadline = now + limits.timeout.min(MAX_TIMEOUT);
            self.watch_at = Some(now + WATCH_EVERY);
            let _ = listeners.began.send(true);
            listeners.directory.hide_secrets();
            let early = std::mem::take(&mut self.early);
            self.waiting.extend(self.stderr.push(&early));
        }
        rest
    }

    /// Reads the rest of the output and passes it on.
    async fn drain(&mut self, limits: &Limits, listeners: &Listeners<'_>) {
        let until = Instant::now() + DRAIN_FOR;
        loop {
            self.show(listeners).await;
            let left = until.saturating_duration_since(Instant::now());
            let Ok(Some(Ok(piece))) = timeout(left, self.output.next()).await else { break };
            // Output over the limit is read too: otherwise the engine blocks and does not see the end.
            if self.stdout.total() + self.stderr.total() <= limits.output_total {
                self.take(piece, limits, listeners);
            }
        }
        if !self.began() {
            // It explains why the command did not start.
            let early = std::mem::take(&mut self.early);
            self.stderr.push(&early);
            return;
        }
        self.waiting.extend(self.stdout.last());
        self.waiting.extend(self.stderr.last());
        self.show(listeners).await;
    }

    /// Passes on the waiting pieces, if the watcher is still there.
    async fn show(&mut self, listeners: &Listeners<'_>) {
        for piece in self.waiting.drain(..) {
            let _ = listeners.watcher.send(piece).await;
        }
    }
}

fn lost(error: &bollard::errors::Error) -> ExecuteError {
    ExecuteError::System {
        action: "read the output of the container".to_owned(),
        error: std::io::Error::other(message_of(error)),
    }
}
