//! A command to run, and what became of it.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::{Serialize, Serializer};
use tokio::sync::Notify;

use crate::host_rule::HostRule;
use crate::limits::Limits;
use crate::missing::Missing;
use crate::warning::RunWarning;

/// A command in a workspace, as an executor gets it: everything has been checked and staged.
///
/// ```
/// use prowess_workspace::executor::NoSink;
/// use prowess_workspace::testing::FakeExecutor;
/// use prowess_workspace::{Command, Executor, Exit, Workspaces};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// let workspace = Workspaces::open(place.path())?.workspace("session-1")?;
/// let mut command = Command::new(workspace.path(), "work", "echo hello $NAME");
/// command.environment.insert("NAME".into(), "Ada".into());
/// let finished = FakeExecutor.run(command, &NoSink).await?;
/// assert_eq!(finished.exit, Exit::Code(0));
/// assert_eq!(finished.stdout.text(), "hello Ada\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Command {
    /// The workspace's directory on the host. It is all that the command may write.
    pub workspace: PathBuf,
    /// The command line, for `bash -lc` or the shell that the skill names.
    pub line: String,
    /// The shell: an absolute path in the sandbox.
    pub shell: String,
    /// The directory to run in, relative to the workspace.
    pub directory: String,
    /// A directory of the host that the command runs in and may write, instead of `directory` and the workspace. The
    /// command can still read the workspace, without its skills. It is for commands that must not depend on what other
    /// commands left there: [`Workspace::own_directory`](crate::Workspace::own_directory).
    pub apart: Option<PathBuf>,
    /// Variables for the command, beside those of the workspace (`WORKSPACE_DIR`, `SKILLS_DIR`, …), which
    /// the executor sets because it knows where the workspace is on the inside.
    pub environment: BTreeMap<String, String>,
    /// What it reads from standard input.
    pub stdin: Input,
    /// Whether its three streams are a terminal: some programs ask their questions only there. What it writes then
    /// comes as one stream, standard output.
    pub terminal: bool,
    /// Ends it early, with a [`Finished`] that has what it wrote.
    pub stop: Stop,
    /// Host directories or files that are there read-only, with their places inside the workspace:
    /// linked inputs.
    pub read_only: Vec<(PathBuf, String)>,
    /// The skills that it sees: names of directories in the workspace's `skills/`. Others that were staged there are
    /// not there for it, so none is unless it is named.
    pub skills: Vec<String>,
    /// How much it may use.
    pub limits: Limits,
    /// What it may reach.
    pub network: Network,
}

impl Command {
    /// A `bash -lc` of `line` in `directory` of a workspace, with default limits, no skill and no network.
    pub fn new(workspace: impl Into<PathBuf>, directory: impl Into<String>, line: impl Into<String>) -> Self {
        Self {
            workspace: workspace.into(),
            line: line.into(),
            shell: "/bin/bash".to_owned(),
            directory: directory.into(),
            apart: None,
            environment: BTreeMap::new(),
            stdin: Input::default(),
            terminal: false,
            stop: Stop::default(),
            read_only: Vec::new(),
            skills: Vec::new(),
            limits: Limits::default(),
            network: Network::default(),
        }
    }
}

/// What a command reads from standard input.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Input {
    /// Nothing: it is at its end.
    #[default]
    Closed,
    /// These bytes, and then its end.
    Bytes(Bytes),
    /// What is written to the other end of this pipe while the command runs, until that end is closed.
    Pipe(Arc<OwnedFd>),
}

/// Ends a command from elsewhere: [`Exit::Cancelled`].
///
/// ```
/// use prowess_workspace::command::Stop;
/// use prowess_workspace::Command;
///
/// let stop = Stop::default();
/// let mut command = Command::new("/srv/workspaces/one", "work", "sleep 600");
/// command.stop = stop.clone(); // a handle on the same one
/// stop.stop();
/// assert!(command.stop.is_wanted());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Stopping>);

#[derive(Debug, Default)]
struct Stopping {
    wanted: AtomicBool,
    changed: Notify,
}

impl Stop {
    /// Ends the command that has this, or will have it.
    pub fn stop(&self) {
        self.0.wanted.store(true, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }

    /// Whether it was said.
    pub fn is_wanted(&self) -> bool {
        self.0.wanted.load(Ordering::SeqCst)
    }

    /// Waits until it is said.
    pub async fn wanted(&self) {
        let changed = self.0.changed.notified();
        tokio::pin!(changed);
        // Listened for before it is looked at: nothing said in between is missed.
        changed.as_mut().enable();
        if !self.is_wanted() {
            changed.await;
        }
    }
}

/// What a command may reach.
///
/// ```
/// use prowess_workspace::{Network, RunRequest};
///
/// let most = Network::Hosts(vec!["*.pypi.org".parse()?]);
/// let mut request = RunRequest::new("greet", "pip download flask");
/// assert_eq!(request.network_within(&most)?, Network::None, "it did not ask");
/// request.network = vec!["files.pypi.org".into()];
/// assert!(request.network_within(&most).is_ok());
/// request.network = vec!["example.com".into()];
/// assert!(request.network_within(&most).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// Nothing.
    #[default]
    None,
    /// Hosts that one of these rules allows, through a proxy. The local executor needs a runtime with I/O and time
    /// for it.
    Hosts(Vec<HostRule>),
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// What it wrote to standard output.
    pub stdout: Captured,
    /// What it wrote to standard error.
    pub stderr: Captured,
    /// How long it ran.
    pub duration: Duration,
    /// What held it.
    pub sandbox: Sandbox,
    /// The name of its own directory in `runs/`, if it had one: what `$RUN_DIR` is in globs.
    pub run: Option<String>,
    /// What else a person should know: a limit that bit, a part that was missing.
    pub warnings: Vec<RunWarning>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Killed: its time was over.
    TimedOut,
    /// Killed: it used more memory than it may.
    OutOfMemory,
    /// Killed: it wrote more than it may.
    TooMuchOutput,
    /// Killed: the workspace is full.
    WorkspaceFull,
    /// Killed: nobody waits for it any more.
    Cancelled,
}

impl Exit {
    /// Why it was killed, if it was.
    pub fn killed_because(self) -> Option<&'static str> {
        match self {
            Self::Code(_) | Self::Signal(_) => None,
            Self::TimedOut => Some("it ran out of time"),
            Self::OutOfMemory => Some("it used too much memory"),
            Self::TooMuchOutput => Some("it wrote too much output"),
            Self::WorkspaceFull => Some("the workspace is full"),
            Self::Cancelled => Some("it was cancelled"),
        }
    }
}

/// What was kept of an output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Its beginning; all of it when nothing was left out.
    pub head: Vec<u8>,
    /// Its end, when something was left out between.
    pub tail: Vec<u8>,
    /// How many bytes were written.
    pub total: u64,
}

impl Captured {
    /// How many bytes were left out.
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }

    /// What was kept as text, which says how much was left out. Bytes that are no UTF-8 become replacement characters.
    pub fn text(&self) -> String {
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&self.tail));
        match self.left_out() {
            0 => format!("{head}{tail}"),
            bytes => format!("{head}\n[… {bytes} bytes left out …]\n{tail}"),
        }
    }
}

/// What held a command, from strongest to weakest.
///
/// ```
/// use prowess_workspace::Level;
///
/// let (least, found) = (Level::BwrapNoproc, Level::Bwrap);
/// assert!(found <= least, "strong enough: the stronger is the lesser");
/// assert_eq!("bwrap-noproc".parse(), Ok(least));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// A container of its own.
    Container,
    /// bubblewrap with all namespaces and a seccomp filter.
    Bwrap,
    /// The same without a `/proc` of its own.
    BwrapNoproc,
    /// Landlock and a seccomp filter.
    Landlock,
    /// Nothing but limits.
    None,
}

impl Level {
    /// All of them, from strongest to weakest.
    pub const ALL: [Self; 5] = [Self::Container, Self::Bwrap, Self::BwrapNoproc, Self::Landlock, Self::None];

    /// Its name in reports, in configuration and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Bwrap => "bwrap",
            Self::BwrapNoproc => "bwrap-noproc",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that no level has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no level of the sandbox: write container, bwrap, bwrap-noproc, landlock or none")]
pub struct LevelError(String);

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(name: &str) -> Result<Self, LevelError> {
        Self::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| LevelError(name.to_owned()))
    }
}

/// What held a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sandbox {
    /// How strong it is.
    pub level: Level,
    /// What could not be had, and why.
    pub missing: Vec<Missing>,
}

impl Sandbox {
    /// Whether a control group limits the memory of a whole command.
    pub fn has_memory_group(&self) -> bool {
        !self.missing.contains(&Missing::MemoryGroup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_said() {
        let whole = Captured { head: b"all\xff".to_vec(), tail: Vec::new(), total: 4 };
        assert_eq!(whole.text(), "all\u{fffd}");
        let cut = Captured { head: b"begin".to_vec(), tail: b"end".to_vec(), total: 1008 };
        assert_eq!(cut.text(), "begin\n[… 1000 bytes left out …]\nend");
    }

    #[test]
    fn levels_are_named_the_same_everywhere() {
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(serde_json::to_value(level).unwrap(), level.name());
        }
        let names = Level::ALL.map(Level::name).join(", ");
        insta::assert_snapshot!(names, @"container, bwrap, bwrap-noproc, landlock, none");
        let unknown = "docker".parse::<Level>().unwrap_err();
        insta::assert_snapshot!(unknown, @"`docker` is no level of the sandbox: write container, bwrap, bwrap-noproc, landlock or none");
    }
}
