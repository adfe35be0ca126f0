//! Commands that go on while others write to them and look at what they wrote.

mod prompt;
mod transcript;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{Instrument as _, Span};

use self::prompt::Prompt;
pub use self::prompt::{Prompt as LivePrompt, PromptKind};
use self::transcript::Transcript;
use crate::command::{Command, Input, Stop};
use crate::executor::{ExecuteError, OutputSink, Stream};
use crate::report::RunReport;
use crate::request::RunRequest;
use crate::runner::{PreparedRun, RunContext, RunError, Runner};
use crate::warning::RunWarning;

/// The longest that one look waits.
pub const MAX_WAIT: Duration = Duration::from_secs(60);
/// How long a command has to take what is written to it.
const TAKEN_BY: Duration = Duration::from_secs(5);
/// The longest line that a terminal takes. The system would cut what is longer, and say nothing.
const MAX_LINE: usize = 4095;
/// A command that wrote nothing for so long may be waiting.
const SETTLED: Duration = Duration::from_millis(150);

/// How long commands may be left alone, and how many there may be.
///
/// ```
/// use std::time::Duration;
/// use prowess_workspace::{LiveOptions, LiveRuns};
///
/// let mut options = LiveOptions::default();
/// options.idle = Duration::from_secs(60);
/// options.most = 2;
/// let live = LiveRuns::new(options);
/// assert!(live.running().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveOptions {
    /// A command that nobody looks at or writes to for so long is ended; one that has ended is forgotten.
    pub idle: Duration,
    /// How many can run at once.
    pub most: usize,
    /// How much of what each one wrote can be looked at again, in bytes.
    pub kept: usize,
    /// How much one look shows, in bytes.
    pub shown: usize,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self { idle: Duration::from_secs(300), most: 8, kept: 1024 * 1024, shown: 16 * 1024 }
    }
}

/// Why something could not be done with a command that goes on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// None has this id.
    #[error("no session `{0}`: it was never started, was ended, or nobody asked for it for too long")]
    Unknown(String),
    /// It has ended.
    #[error("session `{0}` has ended: it reads no more")]
    Ended(String),
    /// It was told that no more input comes.
    #[error("the input of session `{0}` was closed")]
    Closed(String),
    /// It does not read.
    #[error("session `{id}` does not read: it took {taken} of {all} bytes")]
    NotReading {
        /// Which one.
        id: String,
        /// How many bytes it took.
        taken: usize,
        /// How many there were.
        all: usize,
    },
    /// A line is longer than a terminal takes.
    #[error(
        "session `{0}` has a terminal, which takes lines of {MAX_LINE} bytes at most: nothing was written"
    )]
    LineTooLong(String),
    /// There are as many as there may be.
    #[error("{most} sessions run already, the most there may be: end one first")]
    TooMany {
        /// How many that is.
        most: usize,
    },
    /// It could not be started.
    #[error("{0}")]
    NotStarted(Arc<RunError>),
}

/// What a look at a command shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LiveOutput {
    /// Which one.
    pub session_id: String,
    /// What it does.
    pub status: LiveStatus,
    /// What it wrote from `offset` to `next_offset`, both streams as they came.
    pub output: String,
    /// The place of the first byte shown, of all that it wrote.
    pub offset: u64,
    /// The place that the next look goes on from.
    pub next_offset: u64,
    /// How many bytes were asked for that are no longer there.
    #[serde(skip_serializing_if = "is_zero")]
    pub missed_bytes: u64,
    /// How many more bytes can be looked at already.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_bytes: u64,
    /// What it seems to ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Prompt>,
    /// What became of it, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<RunReport>,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LiveStatus {
    /// It runs.
    Running,
    /// It waits for input, as far as one can tell.
    NeedsInput,
    /// It has ended.
    Ended,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Commands that go on, by their ids. Clones are handles on the same ones, which end with the last handle.
///
/// It needs a runtime of tokio with time and I/O.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use prowess_workspace::testing::FakeExecutor;
/// use prowess_workspace::live::LiveStatus;
/// use prowess_workspace::stage::StageSource;
/// use prowess_workspace::{LiveOptions, LiveRuns, RunContext, RunRequest, Runner, Workspaces};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let skill = scratch.path().join("greet");
/// # std::fs::create_dir(&skill)?;
/// let runner = Runner {
///     workspaces: Workspaces::open(scratch.path().join("workspaces"))?,
///     artifacts: None,
///     executor: Some(Arc::new(FakeExecutor)), // `LocalExecutor` outside of tests
/// };
/// let skills = move |_: &str| Some(StageSource::Directory(skill.clone()));
/// let live = LiveRuns::new(LiveOptions::default());
/// let request = RunRequest::new("greet", "echo hello");
/// let id = live.start(&runner, "session-1", request, &RunContext::new(&skills), false).await?;
/// // `write` types into it, `kill` ends it, and a look waits for its end or its next question.
/// let look = live.look(&id, None, Duration::from_secs(30)).await?;
/// assert_eq!(look.output, "hello\n");
/// assert_eq!(look.status, LiveStatus::Ended);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LiveRuns(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: LiveOptions,
    runs: Mutex<BTreeMap<String, Entry>>,
}

#[derive(Debug)]
struct Entry {
    live: Arc<Live>,
    task: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Each sees to its own end: nobody waits here for processes to die.
        for entry in self.lock().values() {
            entry.live.stop.stop();
        }
    }
}

impl Shared {
    fn forget(&self, id: &str) {
        self.lock().remove(id).inspect(|entry| entry.task.abort());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One command that goes on.
#[derive(Debug)]
struct Live {
    id: String,
    transcript: Mutex<OutputLog>,
    changed: Notify,
    /// The other end of its input.
    to: tokio::sync::Mutex<InputPipe>,
    /// Whether its streams are a terminal.
    terminal: bool,
    /// Its own end, to see whether it has read what it was given.
    from: Arc<OwnedFd>,
    stop: Stop,
    ended: OnceLock<Result<RunReport, Arc<RunError>>>,
}

/// The way to a command.
#[derive(Debug)]
struct InputPipe {
    /// None once it is closed.
    sender: Option<pipe::Sender>,
    /// How long the line is that has not ended yet, in bytes.
    open_line: usize,
}

#[derive(Debug)]
struct OutputLog {
    transcript: Transcript,
    /// Where the last look ended.
    seen: u64,
    /// When something was written last, by either side.
    last: Instant,
    /// Where the command was when it was written to last: what it asked before has its answer.
    answered: u64,
    /// When somebody asked for it last.
    asked: Instant,
}

impl LiveRuns {
    /// No commands yet.
    pub fn new(options: LiveOptions) -> Self {
        Self(Arc::new(Shared { options, runs: Mutex::default() }))
    }

    /// Starts a command that reads what is written to it, and gives its id. With `terminal` its streams are one.
    ///
    /// Its request's `stdin` is written first. Its time is what the request says, or the context. What it is
    /// asked for is collected when it has ended.
    ///
    /// # Errors
    ///
    /// Why nothing ran.
    pub async fn start(
        &self,
        runner: &Runner,
        session: &str,
        mut request: RunRequest,
        context: &RunContext<'_>,
        terminal: bool,
    ) -> Result<String, LiveError> {
        let not_started = |error: RunError| LiveError::NotStarted(Arc::new(error));
        let first = request.stdin.take();
        let (mut command, prepared) = runner.prepare(session, request, context).await.map_err(not_started)?;
        let failed = |error| {
            not_started(
                ExecuteError::System { action: "make a pipe for the command".to_owned(), error }.into(),
            )
        };
        let (to, from) = pipe::pipe().map_err(failed)?;
        let from = Arc::new(from.into_blocking_fd().map_err(failed)?);
        command.stdin = Input::Pipe(Arc::clone(&from));
        command.terminal = terminal;
        let id = format!("{}-{:08x}", prepared.skill(), RandomState::new().build_hasher().finish() >> 32);
        let now = Instant::now();
        let transcript = Transcript::new(self.0.options.kept);
        let live = Arc::new(Live {
            id: id.clone(),
            transcript: Mutex::new(OutputLog { transcript, seen: 0, last: now, answered: 0, asked: now }),
            changed: Notify::new(),
            to: tokio::sync::Mutex::new(InputPipe { sender: Some(to), open_line: 0 }),
            terminal,
            from,
            stop: command.stop.clone(),
            ended: OnceLock::new(),
        });
        self.add(&live, runner.clone(), command, prepared)?;
        if let Some(text) = first {
            match self.write(&id, text.as_bytes(), false).await {
                // What has ended already has a report.
                Ok(()) | Err(LiveError::Ended(_)) => {}
                Err(error) => {
                    self.0.forget(&id);
                    return Err(error);
                }
            }
        }
        Ok(id)
    }

    /// Writes to a command. With `end` its input is at its end then.
    ///
    /// # Errors
    ///
    /// It has ended, its input is closed, or it took not all of it in time.
    pub async fn write(&self, id: &str, bytes: &[u8], end: bool) -> Result<(), LiveError> {
        let live = self.get(id)?;
        let mut to = live.to.lock().await;
        if live.ended.get().is_some() {
            return Err(LiveError::Ended(id.to_owned()));
        }
        let InputPipe { sender: Some(sender), open_line } = &*to else {
            return Err(LiveError::Closed(id.to_owned()));
        };
        let open_line = line_after(*open_line, bytes, live.terminal);
        let open_line = open_line.ok_or_else(|| LiveError::LineTooLong(id.to_owned()))?;
        // What it asks while it reads this is another question.
        let answered = live.written().transcript.end();
        let taken = live.send(sender, bytes).await;
        {
            let mut written = live.written();
            (written.last, written.answered) = (Instant::now(), answered);
        }
        if taken < bytes.len() {
            let (id, all) = (id.to_owned(), bytes.len());
            let has_ended = live.ended.get().is_some();
            return Err(if has_ended {
                LiveError::Ended(id)
            } else {
                LiveError::NotReading { id, taken, all }
            });
        }
        to.open_line = open_line;
        if end {
            to.sender = None;
        }
        Ok(())
    }

    /// Shows what a command wrote from a place on, by default from where the last look ended. Waits until the
    /// command has ended, seems to wait for input, or has written more than one look shows; not longer than
    /// `wait`, and that is at most [`MAX_WAIT`].
    ///
    /// # Errors
    ///
    /// There is no such command, or it could not be started.
    pub async fn look(&self, id: &str, from: Option<u64>, wait: Duration) -> Result<LiveOutput, LiveError> {
        let live = self.get(id)?;
        let shown = self.0.options.shown;
        let until = Instant::now() + wait.min(MAX_WAIT);
        // Who waits asks for all that time.
        live.written().asked = until;
        loop {
            let changed = live.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (settled, much) = {
                let written = live.written();
                let new = written.transcript.end().saturating_sub(from.unwrap_or(written.seen));
                (written.last + SETTLED, new >= shown as u64)
            };
            let now = Instant::now();
            if live.ended.get().is_some() || much || now >= until || live.prompt(now).is_some() {
                break;
            }
            let look_again = if settled > now { settled.min(until) } else { until };
            let _ = timeout_at(look_again, changed).await;
        }
        live.written().asked = Instant::now();
        live.look(from, shown)
    }

    /// Ends a command with all of its processes, and shows what it wrote since the last look. It is forgotten then.
    ///
    /// # Errors
    ///
    /// There is no such command.
    pub async fn kill(&self, id: &str) -> Result<LiveOutput, LiveError> {
        let live = self.get(id)?;
        live.stop.stop();
        while live.ended.get().is_none() {
            let changed = live.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if live.ended.get().is_none() {
                changed.await;
            }
        }
        // The last that it wrote: nobody can look again.
        let shown = self.0.options.shown as u64;
        let (seen, end) = {
            let written = live.written();
            (written.seen, written.transcript.end())
        };
        let from = seen.max(end.saturating_sub(shown));
        let look = live.look(Some(from), self.0.options.shown);
        self.0.forget(id);
        look.map(|look| LiveOutput { missed_bytes: look.offset - seen, ..look })
    }

    /// Refuses when as many run as may.
    ///
    /// # Errors
    ///
    /// [`LiveError::TooMany`].
    pub fn check_room(&self) -> Result<(), LiveError> {
        let most = self.0.options.most;
        if self.running().len() >= most { Err(LiveError::TooMany { most }) } else { Ok(()) }
    }

    /// The ids of those that run, in order.
    pub fn running(&self) -> Vec<String> {
        self.0
            .lock()
            .iter()
            .filter(|(_, entry)| entry.live.ended.get().is_none())
            .map(|(id, _)| id.clone())
            .collect()
    }

    fn get(&self, id: &str) -> Result<Arc<Live>, LiveError> {
        let live = self.0.lock().get(id).map(|entry| Arc::clone(&entry.live));
        let live = live.ok_or_else(|| LiveError::Unknown(crate::path::printable(id.as_ref())))?;
        live.written().asked = Instant::now();
        Ok(live)
    }

    fn add(
        &self,
        live: &Arc<Live>,
        runner: Runner,
        command: Command,
        prepared: PreparedRun,
    ) -> Result<(), LiveError> {
        let most = self.0.options.most;
        let mut runs = self.0.lock();
        if runs.values().filter(|entry| entry.live.ended.get().is_none()).count() >= most {
            return Err(LiveError::TooMany { most });
        }
        // Those that have ended are kept for a last look, not in any number.
        while runs.len() >= most * 2 {
            let ended = runs.values().filter(|entry| entry.live.ended.get().is_some());
            let Some(oldest) =
                ended.min_by_key(|entry| entry.live.written().asked).map(|entry| entry.live.id.clone())
            else {
                break;
            };
            runs.remove(&oldest).inspect(|entry| entry.task.abort());
        }
        // It outlives the call that began it, and is no excerpt of its span.
        let span = tracing::info_span!(parent: None, "workspace.session");
        span.follows_from(Span::current());
        let keep = keep(
            span,
            Arc::clone(live),
            runner,
            command,
            prepared,
            self.0.options.idle,
            Arc::downgrade(&self.0),
        );
        let task = tokio::spawn(keep).abort_handle();
        runs.insert(live.id.clone(), Entry { live: Arc::clone(live), task });
        Ok(())
    }
}

/// How long the last line is after these bytes; none when a line is too long for a terminal.
fn line_after(open: usize, bytes: &[u8], terminal: bool) -> Option<usize> {
    let mut line = open;
    for byte in bytes {
        line = if *byte == b'\n' { 0 } else { line + 1 };
        if terminal && line > MAX_LINE {
            return None;
        }
    }
    Some(line)
}

/// Runs a command to its end, ends it when nobody asks for it any more, and forgets it later.
async fn keep(
    span: Span,
    live: Arc<Live>,
    runner: Runner,
    command: Command,
    prepared: PreparedRun,
    idle: Duration,
    all: Weak<Shared>,
) {
    let mut ended = {
        let run = runner.finish(command, prepared, &*live).instrument(span);
        tokio::pin!(run);
        loop {
            let alone = live.written().asked + idle;
            tokio::select! {
                ended = &mut run => break ended,
                () = sleep_until(alone), if !live.stop.is_wanted() => {
                    if live.written().asked + idle <= Instant::now() {
                        live.stop.stop();
                    }
                }
            }
        }
    };
    if live.written().asked + idle <= Instant::now()
        && let Ok(report) = &mut ended
    {
        report.warnings.push(RunWarning::Idle { seconds: idle.as_secs() });
    }
    let _ = live.ended.set(ended.map_err(Arc::new));
    live.changed.notify_waiters();
    live.to.lock().await.sender = None;
    live.written().asked = Instant::now();
    while all.strong_count() > 0 {
        let forgotten = live.written().asked + idle;
        if forgotten <= Instant::now() {
            break;
        }
        sleep_until(forgotten).await;
    }
    if let Some(all) = all.upgrade() {
        all.forget(&live.id);
    }
}

impl Live {
    fn written(&self) -> MutexGuard<'_, OutputLog> {
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends bytes until all are taken, the command has ended, or it does not read. Says how many were taken.
    async fn send(&self, to: &pipe::Sender, bytes: &[u8]) -> usize {
        let mut taken = 0;
        let mut until = Instant::now() + TAKEN_BY;
        while taken < bytes.len() && self.ended.get().is_none() {
            match to.try_write(&bytes[taken..]) {
                Ok(length) => {
                    taken += length;
                    until = Instant::now() + TAKEN_BY;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    let soon = (Instant::now() + SETTLED).min(until);
                    if timeout_at(soon, to.writable()).await.is_err() && Instant::now() >= until {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        taken
    }

    /// What it seems to ask for: it has been still for a while, and has read all that it was given.
    fn prompt(&self, now: Instant) -> Option<Prompt> {
        let written = self.written();
        let answered = written.transcript.end() <= written.answered;
        if self.ended.get().is_some() || answered || now < written.last + SETTLED {
            return None;
        }
        if rustix::io::ioctl_fionread(&*self.from).is_ok_and(|unread| unread > 0) {
            return None;
        }
        Prompt::read(&written.transcript.open_line()?)
    }

    fn look(&self, from: Option<u64>, shown: usize) -> Result<LiveOutput, LiveError> {
        // In this order: what is written before the end is there when the end is.
        let ended = self.ended.get();
        let prompt = self.prompt(Instant::now());
        let mut written = self.written();
        let from = from.unwrap_or(written.seen);
        let excerpt = written.transcript.excerpt(from, shown, ended.is_some());
        written.seen = excerpt.next;
        let report = match ended {
            None => None,
            Some(Ok(report)) => Some(report.clone()),
            Some(Err(error)) => return Err(LiveError::NotStarted(Arc::clone(error))),
        };
        let more_bytes = written.transcript.end() - excerpt.next;
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

impl OutputSink for Live {
    fn piece(&self, _: Stream, bytes: &[u8]) {
        let mut written = self.written();
        written.transcript.push(bytes);
        written.last = Instant::now();
        drop(written);
        self.changed.notify_waiters();
    }
}
