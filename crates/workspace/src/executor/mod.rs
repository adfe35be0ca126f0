//! Executors run commands: the local sandbox, and containers. All pass the same suite of tests.

mod cancel;
mod capture;
mod check;
#[cfg(feature = "container")]
pub mod container;
mod environment;
mod exit;
mod layout;
pub mod local;
pub(crate) mod privileges;
mod processes;
mod redact;
mod run_directory;
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

/// Runs commands in isolation.
///
/// All processes of a command are dead when [`Executor::run`] returns, and when its future is dropped.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_workspace::testing::FakeExecutor;
/// use prowess_workspace::command::Sandbox;
/// use prowess_workspace::executor::OutputSink;
/// use prowess_workspace::{Command, ExecuteError, Executor, Finished};
///
/// /// Prints the command, and lets another executor run it.
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
    /// Runs a command until it ends or reaches a limit.
    ///
    /// A command that fails has a [`Finished`] with its exit. `output` receives all output while it is written, also
    /// what the result leaves out.
    ///
    /// # Errors
    ///
    /// The command could not be started. Nothing ran.
    async fn run(&self, command: Command, output: &dyn OutputSink) -> Result<Finished, ExecuteError>;

    /// The sandbox that a command would get here.
    ///
    /// # Errors
    ///
    /// No command can run here.
    async fn probe(&self) -> Result<Sandbox, ExecuteError>;

    /// The optional features of this executor. Check them before you ask a person for approval.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Secret values. They are replaced in the output of commands and in the text of collected files.
    fn secrets(&self) -> &[SecretString] {
        &[]
    }
}

/// The optional features of an executor. It refuses commands that need others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abilities {
    /// Terminals: [`Command::terminal`].
    pub terminals: bool,
    /// Allowed hosts: [`Command::network`].
    pub hosts: bool,
}

/// An output stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Receives output while the command writes it.
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
    /// Receives a piece of output. It must not block.
    fn piece(&self, stream: Stream, bytes: &[u8]);

    /// Receives a collected file after the command has ended. `is_whole` says whether these are all its bytes.
    fn file(&self, _name: &str, _bytes: &[u8], _is_whole: bool) {}
}

/// Ignores all output.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSink;

impl OutputSink for NoSink {
    fn piece(&self, _: Stream, _: &[u8]) {}
}

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// There is no executor.
    #[error("executor is not configured: give the runner one, or use the local executor")]
    NotConfigured,
    /// The sandbox is not as strong as the user requires.
    #[error("{what}. {remedy}")]
    NoSandbox {
        /// The missing protection.
        what: String,
        /// What to install or to configure.
        remedy: String,
    },
    /// The request asks for something that no command gets.
    #[error("{0}")]
    Refused(String),
    /// A system call failed.
    #[error("{action}: {error}")]
    System {
        /// The failed action, and its object.
        action: String,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
}
