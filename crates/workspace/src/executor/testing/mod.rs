//! The test suite of all executors: functions that each test one behaviour.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use prowess_workspace::executor::local::{LocalExecutor, LocalOptions};
//! # use prowess_workspace::executor::testing::{self, SECRET};
//! # async fn example(new_workspace: fn() -> std::path::PathBuf) {
//! let mut options = LocalOptions::default();
//! options.redact.push(SECRET.into());
//! let executor = Arc::new(LocalExecutor::new(options));
//! for (name, behaviour) in testing::all() {
//!     behaviour(executor.clone(), new_workspace()).await; // panics when it does not hold
//! }
//! # }
//! ```
//!
//! A workspace has the directories `skills`, `work`, `out` and `runs`. The user of commands can write to the last
//! three. The executor must redact [`SECRET`]. Commands need only bash and the usual small programs.

mod bounds;
mod ends;
mod places;
mod streams;
mod terminals;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{ExecuteError, Executor, NoSink, OutputSink, Stream};
use crate::command::{Command, Finished};

/// A value that the tested executor must redact.
pub const SECRET: &str = "open-sesame-4711";

/// A test of one behaviour. It panics if the behaviour is wrong.
pub type Behaviour = fn(Arc<dyn Executor>, PathBuf) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// All behaviours, with their names.
pub fn all() -> Vec<(&'static str, Behaviour)> {
    [ends::ALL, streams::ALL, places::ALL, bounds::ALL].concat()
}

/// The behaviours of an executor with terminals ([`Command::terminal`]), with their names. Other executors refuse such
/// commands.
pub fn terminals() -> Vec<(&'static str, Behaviour)> {
    terminals::ALL.to_vec()
}

/// Lists async functions over a [`Trial`] as behaviours.
macro_rules! behaviours {
    ($($name:ident),* $(,)?) => {
        pub(super) const ALL: &[(&str, super::Behaviour)] = &[$(
            (stringify!($name), |executor, workspace| Box::pin(async move { $name(super::Trial { executor, workspace }).await }))
        ),*];
    };
}
use behaviours;

/// An executor and a workspace, for one behaviour.
pub(super) struct Trial {
    executor: Arc<dyn Executor>,
    workspace: PathBuf,
}

impl Trial {
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.workspace, "work", line);
        command.limits.grace = Duration::from_millis(300);
        command
    }

    async fn run(&self, line: &str) -> Finished {
        self.finish(self.command(line)).await
    }

    async fn finish(&self, command: Command) -> Finished {
        match self.executor.run(command, &NoSink).await {
            Ok(finished) => finished,
            Err(error) => panic!("it did not start: {error}"),
        }
    }

    async fn refusal(&self, command: Command) -> String {
        match self.executor.run(command, &NoSink).await {
            Err(ExecuteError::Refused(why)) => why,
            other => panic!("it was not refused: {other:?}"),
        }
    }

    /// The standard output of a command.
    async fn says(&self, line: &str) -> String {
        out(&self.run(line).await)
    }

    fn path(&self, part: &str) -> PathBuf {
        self.workspace.join(part)
    }
}

fn out(finished: &Finished) -> String {
    String::from_utf8_lossy(&finished.stdout.head).into_owned()
}

fn err(finished: &Finished) -> String {
    String::from_utf8_lossy(&finished.stderr.head).into_owned()
}

fn read(path: &Path) -> String {
    match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Records all output.
#[derive(Default)]
struct RecordedOutput(Mutex<Vec<(Stream, Vec<u8>)>>);

impl RecordedOutput {
    fn pieces(&self) -> Vec<(Stream, Vec<u8>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn of(&self, stream: Stream) -> Vec<u8> {
        self.pieces().into_iter().filter(|(which, _)| *which == stream).flat_map(|(_, bytes)| bytes).collect()
    }
}

impl OutputSink for RecordedOutput {
    fn piece(&self, stream: Stream, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((stream, bytes.to_vec()));
    }
}
