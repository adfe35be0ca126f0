//! Interactive runs: commands that keep running while callers write to them and read their output.

mod error;
mod input;
mod options;
mod output;
mod prompt;
mod run;
mod transcript;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use tracing::Span;

pub use self::error::LiveError;
use self::input::InputPipe;
pub use self::options::LiveOptions;
pub use self::output::{LiveOutput, LiveStatus};
pub use self::prompt::{Prompt as LivePrompt, PromptKind};
use self::run::{LiveRun, OutputLog, SETTLED};
use self::transcript::Transcript;
use crate::command::{Command, Input};
use crate::executor::{ExecuteError, NoSink, OutputSink, Stream};
use crate::request::RunRequest;
use crate::runner::{PreparedRun, RunContext, RunError, Runner};

/// The longest that one read waits for output.
pub const MAX_WAIT: Duration = Duration::from_secs(60);

/// Interactive runs by their ids. Clones share the same runs, which end with the last clone.
///
/// It needs a tokio runtime with time and I/O.
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
/// let id = live.start(&runner, "workspace-1", request, &RunContext::new(&skills), false).await?;
/// // `write` types into it, `kill` ends it, and a read waits for its end or its next question.
/// let read = live.read(&id, None, Duration::from_secs(30)).await?;
/// assert_eq!(read.output, "hello\n");
/// assert_eq!(read.status, LiveStatus::Ended);
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
    live: Arc<LiveRun>,
    task: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Each run ends by itself: this drop does not wait for processes to die.
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

impl LiveRuns {
    /// Creates an empty set of runs.
    pub fn new(options: LiveOptions) -> Self {
        Self(Arc::new(Shared { options, runs: Mutex::default() }))
    }

    /// Starts a command that reads what is written to it, and returns its id. If `terminal` is true, its streams
    /// are a terminal.
    ///
    /// The request's `stdin` is written first. The timeout is that of the request, or else of the context. Output
    /// files are collected when the command has ended.
    ///
    /// # Errors
    ///
    /// The command was not started.
    pub async fn start(
        &self,
        runner: &Runner,
        workspace_id: &str,
        mut request: RunRequest,
        context: &RunContext<'_>,
        terminal: bool,
    ) -> Result<String, LiveError> {
        let not_started = |error: RunError| LiveError::NotStarted(Arc::new(error));
        let first = request.stdin.take();
        let command_line = request.command.clone();
        let (mut command, prepared) =
            runner.prepare(workspace_id, request, context).await.map_err(not_started)?;
        let failed = |error| {
            not_started(
                ExecuteError::System { action: "make a pipe for the command".to_owned(), error }.into(),
            )
        };
        let (sender, stdin) = pipe::pipe().map_err(failed)?;
        let stdin = Arc::new(stdin.into_blocking_fd().map_err(failed)?);
        command.stdin = Input::Pipe(Arc::clone(&stdin));
        command.terminal = terminal;
        let id = format!("{}-{:08x}", prepared.skill(), RandomState::new().build_hasher().finish() >> 32);
        let now = Instant::now();
        let transcript = Transcript::new(self.0.options.kept_bytes);
        let live = Arc::new(LiveRun {
            id: id.clone(),
            command: command_line,
            log: Mutex::new(OutputLog {
                transcript,
                read_to: 0,
                last_write: now,
                answered_to: 0,
                last_used: now,
            }),
            changed: Notify::new(),
            input: tokio::sync::Mutex::new(InputPipe { sender: Some(sender), open_line: 0 }),
            terminal,
            stdin,
            stop: command.stop.clone(),
            ended: OnceLock::new(),
        });
        self.add(&live, runner.clone(), command, prepared)?;
        if let Some(text) = first {
            match self.write(&id, text.as_bytes(), false).await {
                // A command that has ended already has a report.
                Ok(()) | Err(LiveError::Ended(_)) => {}
                Err(error) => {
                    self.0.forget(&id);
                    return Err(error);
                }
            }
        }
        Ok(id)
    }

    /// Reads what a command wrote from a position on, by default from where the last read ended.
    ///
    /// It waits until the command has ended, seems to wait for input, or has written enough for one read. It waits
    /// no longer than `wait`, and never longer than [`MAX_WAIT`].
    ///
    /// # Errors
    ///
    /// There is no such run, or the command could not be started.
    pub async fn read(&self, id: &str, from: Option<u64>, wait: Duration) -> Result<LiveOutput, LiveError> {
        self.read_watched(id, from, wait, &NoSink).await
    }

    /// [`LiveRuns::read`] that also passes on the output while it waits. Both output streams come as standard output.
    ///
    /// # Errors
    ///
    /// As for [`LiveRuns::read`].
    pub async fn read_watched(
        &self,
        id: &str,
        from: Option<u64>,
        wait: Duration,
        output: &dyn OutputSink,
    ) -> Result<LiveOutput, LiveError> {
        let live = self.get(id)?;
        let mut shown = from.unwrap_or_else(|| live.log().read_to);
        let most = self.0.options.read_bytes;
        let until = Instant::now() + wait.min(MAX_WAIT);
        // A reader that waits counts as a user for all that time.
        live.log().last_used = until;
        loop {
            let changed = live.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (settled, much) = {
                let log = live.log();
                let new = log.transcript.bytes_from(shown);
                if !new.is_empty() {
                    output.piece(Stream::Stdout, &new);
                }
                shown = log.transcript.end().max(shown);
                let new = log.transcript.end().saturating_sub(from.unwrap_or(log.read_to));
                (log.last_write + SETTLED, new >= most as u64)
            };
            let now = Instant::now();
            if live.ended.get().is_some() || much || now >= until || live.prompt(now).is_some() {
                break;
            }
            let look_again = if settled > now { settled.min(until) } else { until };
            let _ = timeout_at(look_again, changed).await;
        }
        live.log().last_used = Instant::now();
        live.read(from, most)
    }

    /// Ends a command with all of its processes and forgets it. Returns what it wrote since the last read.
    ///
    /// # Errors
    ///
    /// There is no such run.
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
        // The end of its output: nobody can read again.
        let most = self.0.options.read_bytes;
        let (read_to, end) = {
            let log = live.log();
            (log.read_to, log.transcript.end())
        };
        let from = read_to.max(end.saturating_sub(most as u64));
        let read = live.read(Some(from), most);
        self.0.forget(id);
        read.map(|read| LiveOutput { missed_bytes: read.offset - read_to, ..read })
    }

    /// Fails if as many commands run as can run at once.
    ///
    /// # Errors
    ///
    /// [`LiveError::TooMany`].
    pub fn check_room(&self) -> Result<(), LiveError> {
        let most = self.0.options.max_runs;
        if self.running().len() >= most { Err(LiveError::TooMany { most }) } else { Ok(()) }
    }

    /// The ids of the commands that run, in order.
    pub fn running(&self) -> Vec<String> {
        self.0
            .lock()
            .iter()
            .filter(|(_, entry)| entry.live.ended.get().is_none())
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// The command line of a run, if there is one with this id. It does not count as a use of the run.
    pub fn command(&self, id: &str) -> Option<String> {
        self.0.lock().get(id).map(|entry| entry.live.command.clone())
    }

    fn get(&self, id: &str) -> Result<Arc<LiveRun>, LiveError> {
        let live = self.0.lock().get(id).map(|entry| Arc::clone(&entry.live));
        let live = live.ok_or_else(|| LiveError::Unknown(crate::path::escaped_name(id.as_ref())))?;
        live.log().last_used = Instant::now();
        Ok(live)
    }

    fn add(
        &self,
        live: &Arc<LiveRun>,
        runner: Runner,
        command: Command,
        prepared: PreparedRun,
    ) -> Result<(), LiveError> {
        let most = self.0.options.max_runs;
        let mut runs = self.0.lock();
        if runs.values().filter(|entry| entry.live.ended.get().is_none()).count() >= most {
            return Err(LiveError::TooMany { most });
        }
        // Ended runs are kept for a last read, up to a limit.
        while runs.len() >= most * 2 {
            let ended = runs.values().filter(|entry| entry.live.ended.get().is_some());
            let Some(oldest) =
                ended.min_by_key(|entry| entry.live.log().last_used).map(|entry| entry.live.id.clone())
            else {
                break;
            };
            runs.remove(&oldest).inspect(|entry| entry.task.abort());
        }
        // The run outlives this call, so it has its own span.
        let span = tracing::info_span!(parent: None, "workspace.interactive_run");
        span.follows_from(Span::current());
        let task = run::supervise(
            span,
            Arc::clone(live),
            runner,
            command,
            prepared,
            self.0.options.idle_timeout,
            Arc::downgrade(&self.0),
        );
        let task = tokio::spawn(task).abort_handle();
        runs.insert(live.id.clone(), Entry { live: Arc::clone(live), task });
        Ok(())
    }
}
