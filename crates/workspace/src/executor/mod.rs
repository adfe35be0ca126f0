//! Where commands run: one trait, one suite.

mod cancel;
mod capture;
mod check;
#[cfg(feature = "container")]
pub mod container;
mod environment;
mod exit;
pub mod local;
mod place;
mod privileges;
mod processes;
mod redact;
pub(crate) mod set_ids;
mod span;
mod stream;
#[cfg(feature = "testing")]
pub mod testing;
mod watch;

use std::fmt::Debug;

use async_trait::async_trait;
use secrecy::SecretString;

use crate::command::{Command, Finished, Sandbox};

/// Runs commands isolated.
///
/// The whole process tree is gone when [`Executor::run`] returns, and when its future is dropped.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_workspace::testing::FakeExecutor;
/// use prowess_workspace::command::Sandbox;
/// use prowess_workspace::executor::OutputSink;
/// use prowess_workspace::{Command, ExecuteError, Executor, Finished};
///
/// /// Says what runs, and lets another do it.
/// #[derive(Debug)]
/// struct Logged<E>(E);
///
/// #[async_trait]
/// impl<E: Executor> Executor for Logged<E> {
///     async fn run(&self, command: Command, output: &dyn OutputSink) -> Result<Finished, ExecuteError> {
///         eprintln!("{}", command.line);
///         self.0.run(command, output).await
///     }
///
///     async fn probe(&self) -> Result<Sandbox, ExecuteError> {
///         self.0.probe().await
///     }
/// }
///
/// let executor = Logged(FakeExecutor);
/// assert!(!executor.abilities().terminals);
/// ```
#[async_trait]
pub trait Executor: Send + Sync + Debug {
    /// Runs a command to its end, or to the first limit that bites.
    ///
    /// A command that ran and failed is a [`Finished`] with its exit. Output is handed to `output` while it
    /// is written, before the caps.
    ///
    /// # Errors
    ///
    /// It could not be started, and nothing of it has run.
    async fn run(&self, command: Command, output: &dyn OutputSink) -> Result<Finished, ExecuteError>;

    /// What would hold a command here.
    ///
    /// # Errors
    ///
    /// Nothing can run here, and why.
    async fn probe(&self) -> Result<Sandbox, ExecuteError>;

    /// What commands can be given here beside what every executor gives. Who asks people first looks here first.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Values that are taken out of all that a command says; the files that it made are searched for them too.
    fn secrets(&self) -> &[SecretString] {
        &[]
    }
}

/// What commands can be given by some executors. What one does not give it refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abilities {
    /// A terminal: [`Command::terminal`].
    pub terminals: bool,
    /// Hosts to reach: [`Command::network`].
    pub hosts: bool,
}

/// Which stream a piece of output belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Sees output while it is written.
///
/// ```
/// use std::sync::Mutex;
/// use prowess_workspace::testing::FakeExecutor;
/// use prowess_workspace::executor::{OutputSink, Stream};
/// use prowess_workspace::{Command, Executor, Workspaces};
///
/// #[derive(Default)]
/// struct Seen(Mutex<Vec<u8>>);
///
/// impl OutputSink for Seen {
///     fn piece(&self, stream: Stream, bytes: &[u8]) {
///         if stream == Stream::Stdout {
///             self.0.lock().unwrap().extend(bytes);
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let workspace = Workspaces::open(place.path())?.workspace("session-1")?;
/// let seen = Seen::default();
/// FakeExecutor.run(Command::new(workspace.path(), "work", "echo hello"), &seen).await?;
/// assert_eq!(*seen.0.lock().unwrap(), b"hello\n");
/// # Ok(())
/// # }
/// ```
pub trait OutputSink: Send + Sync {
    /// A piece of output. It must not block.
    fn piece(&self, stream: Stream, bytes: &[u8]);

    /// A file that was collected after the command had ended, as it is; `is_whole` says whether that is all of it.
    fn file(&self, _name: &str, _bytes: &[u8], _is_whole: bool) {}
}

/// Sees nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSink;

impl OutputSink for NoSink {
    fn piece(&self, _: Stream, _: &[u8]) {}
}

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// No executor was given to whoever was to run something.
    #[error("executor is not configured: give the session one, or run with the local executor")]
    NotConfigured,
    /// Isolation as strong as the user wants cannot be had.
    #[error("{what}. {remedy}")]
    NoSandbox {
        /// What is missing.
        what: String,
        /// What to install or to configure.
        remedy: String,
    },
    /// The request asks for what no command gets.
    #[error("{0}")]
    Refused(String),
    /// The system did not do its part.
    #[error("{action}: {error}")]
    System {
        /// What was to be done, and to what.
        action: String,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
}
