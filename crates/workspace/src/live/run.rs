//! One interactive run: its state, and the task that runs its command to the end.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument as _, Span};

use super::input::InputPipe;
use super::prompt::Prompt;
use super::transcript::Transcript;
use super::{LiveError, LiveOutput, LiveStatus, Shared};
use crate::command::{Command, Stop};
use crate::executor::{OutputSink, Stream};
use crate::report::RunReport;
use crate::runner::{PreparedRun, RunError, Runner};
use crate::warning::RunWarning;

/// A command that has written nothing for this long may be waiting for input.
pub(super) const SETTLED: Duration = Duration::from_millis(150);

/// One command that runs, or has ended and is still remembered.
#[derive(Debug)]
pub(super) struct LiveRun {
    pub(super) id: String,
    /// Its command line.
    pub(super) command: String,
    pub(super) log: Mutex<OutputLog>,
    pub(super) changed: Notify,
    /// Our end of its input.
    pub(super) input: tokio::sync::Mutex<InputPipe>,
    /// Whether its streams are a terminal.
    pub(super) terminal: bool,
    /// Its own end of the input, to see whether it has read everything.
    pub(super) stdin: Arc<OwnedFd>,
    pub(super) stop: Stop,
    pub(super) ended: OnceLock<Result<RunReport, Arc<RunError>>>,
}

/// The output of a command, and the times of its last uses.
#[derive(Debug)]
pub(super) struct OutputLog {
    pub(super) transcript: Transcript,
    /// Where the last read ended.
    pub(super) read_to: u64,
    /// When either side wrote last.
    pub(super) last_write: Instant,
    /// The end of the output at the last write to the command. Questions before it are answered.
    pub(super) answered_to: u64,
    /// When somebody last read from the command or wrote to it.
    pub(super) last_used: Instant,
}

/// Runs a command to its end. Ends it if nobody uses it for too long, and forgets it later.
pub(super) async fn supervise(
    span: Span,
    live: Arc<LiveRun>,
    runner: Runner,
    command: Command,
    prepared: PreparedRun,
    idle: Duration,
    all: Weak<Shared>,
) {
    let mut was_idle = false;
    let mut ended = {
        let run = runner.finish(command, prepared, &*live).instrument(span);
        tokio::pin!(run);
        loop {
            let idle_at = live.log().last_used + idle;
            tokio::select! {
                ended = &mut run => break ended,
                () = sleep_until(idle_at), if !live.stop.is_wanted() => {
                    if live.log().last_used + idle <= Instant::now() {
                        was_idle = true;
                        live.stop.stop();
                    }
                }
            }
        }
    };
    // A caller may have read from the run while it ended.
    if was_idle && let Ok(report) = &mut ended {
        report.warnings.push(RunWarning::Idle { seconds: idle.as_secs() });
    }
    let _ = live.ended.set(ended.map_err(Arc::new));
    live.changed.notify_waiters();
    live.input.lock().await.sender = None;
    live.log().last_used = Instant::now();
    while all.strong_count() > 0 {
        let forget_at = live.log().last_used + idle;
        if forget_at <= Instant::now() {
            break;
        }
        sleep_until(forget_at).await;
    }
    if let Some(all) = all.upgrade() {
        all.forget(&live.id);
    }
}

impl LiveRun {
    pub(super) fn log(&self) -> MutexGuard<'_, OutputLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The question that the command seems to ask. The command must have read all its input and written nothing for a
    /// while.
    pub(super) fn prompt(&self, now: Instant) -> Option<Prompt> {
        let log = self.log();
        let answered = log.transcript.end() <= log.answered_to;
        if self.ended.get().is_some() || answered || now < log.last_write + SETTLED {
            return None;
        }
        if rustix::io::ioctl_fionread(&*self.stdin).is_ok_and(|unread| unread > 0) {
            return None;
        }
        Prompt::read(&log.transcript.open_line()?)
    }

    /// The output from a position on, by default from where the last read ended.
    pub(super) fn read(&self, from: Option<u64>, most: usize) -> Result<LiveOutput, LiveError> {
        // In this order: output that came before the end is then in the transcript.
        let ended = self.ended.get();
        let prompt = self.prompt(Instant::now());
        let mut log = self.log();
        let from = from.unwrap_or(log.read_to);
        let excerpt = log.transcript.excerpt(from, most, ended.is_some());
        log.read_to = excerpt.next;
        let report = match ended {
            None => None,
            Some(Ok(report)) => Some(report.clone()),
            Some(Err(error)) => return Err(LiveError::NotStarted(Arc::clone(error))),
        };
        let more_bytes = log.transcript.end() - excerpt.next;
        let prompt = prompt.filter(|_| more_bytes == 0);
        let status = match (&report, &prompt) {
            (Some(_), _) => LiveStatus::Ended,
            (None, Some(_)) => LiveStatus::NeedsInput,
            (None, None) => LiveStatus::Running,
        };
        Ok(LiveOutput {
            session_id: self.id.clone(),
            status,
            output: excerpt.text,
            offset: excerpt.from,
            next_offset: excerpt.next,
            missed_bytes: excerpt.from.saturating_sub(from),
            more_bytes,
            prompt,
            report,
        })
    }
}

impl OutputSink for LiveRun {
    fn piece(&self, _: Stream, bytes: &[u8]) {
        let mut log = self.log();
        log.transcript.push(bytes);
        log.last_write = Instant::now();
        drop(log);
        self.changed.notify_waiters();
    }
}
