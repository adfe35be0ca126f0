//! A command for an executor, and how it ended.

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

/// A command in a workspace, as an executor gets it. Its skills and inputs are staged.
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
    /// The directory of the workspace. The command can write only there.
    pub workspace: PathBuf,
    /// The command line for the shell.
    pub line: String,
    /// The shell, as an absolute path in the sandbox.
    pub shell: String,
    /// The directory to run in: relative to the workspace, or an absolute path at or below one of the `mounts`.
    pub directory: String,
    /// A local directory that the command runs in and may write, instead of `directory` and the workspace. The command
    /// can still read the workspace, without its skills. Use it for commands that must not depend on what other
    /// commands wrote: [`Workspace::own_directory`](crate::Workspace::own_directory).
    pub apart: Option<PathBuf>,
    /// Variables for the command. The executor adds those of the workspace, such as `WORKSPACE_DIR`.
    pub environment: BTreeMap<String, String>,
    /// Standard input.
    pub stdin: Input,
    /// Whether the streams are a terminal, which some programs need to ask questions. All output then comes as standard
    /// output.
    pub terminal: bool,
    /// Ends the command early. Its [`Finished`] then has the output so far.
    pub stop: Stop,
    /// Linked inputs: local files or directories, and their read-only paths in the workspace.
    pub read_only: Vec<(PathBuf, String)>,
    /// What the command sees besides the workspace and its skills. A directory comes before what is mounted in it.
    pub mounts: Vec<Mount>,
    /// Links that the command sees: their absolute paths and their targets. A link that has no room in the sandbox, such as
    /// one below `/usr`, is left out. Levels without mounts have no links.
    pub aliases: Vec<(String, String)>,
    /// The skills that the command sees, as names of directories in `skills/`. The first is the one that the command belongs
    /// to. Other staged skills are hidden.
    pub skills: Vec<String>,
    /// How much the command may use.
    pub limits: Limits,
    /// The hosts that the command may reach.
    pub network: Network,
}

impl Command {
    /// Runs `line` with `bash -lc` in `directory` of a workspace, with default limits, no skill and no network.
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
            mounts: Vec::new(),
            aliases: Vec::new(),
            skills: Vec::new(),
            limits: Limits::default(),
            network: Network::default(),
        }
    }
}

/// Something that a command sees at an absolute path, besides the workspace and its skills.
///
/// ```
/// use prowess_workspace::command::{Command, Mount, MountSource};
///
/// let mut command = Command::new("/srv/workspaces/one", "work", "wc -l /project/plan.json");
/// let plan = MountSource::ReadOnly("/home/ada/site/plan.json".into());
/// command.mounts.push(Mount { source: plan, at: "/project/plan.json".into() });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// What the command sees.
    pub source: MountSource,
    /// Where the command sees it. At levels without mounts, this is the real path.
    pub at: String,
}

/// What a command sees at the place of a [`Mount`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// A local file or directory that it may read.
    ReadOnly(PathBuf),
    /// A local directory that it may write.
    Writable(PathBuf),
    /// An empty directory that it may read, for other mounts.
    Empty,
    /// The same. The level `landlock` has no mounts: there it may list the names in this local directory, and in all
    /// directories below.
    Listed(PathBuf),
}

impl MountSource {
    /// The local file or directory that is mounted, if there is one.
    pub fn path(&self) -> Option<&std::path::Path> {
        match self {
            Self::ReadOnly(path) | Self::Writable(path) => Some(path),
            Self::Empty | Self::Listed(_) => None,
        }
    }
}

/// The standard input of a command.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Input {
    /// Empty.
    #[default]
    Closed,
    /// These bytes, and then the end.
    Bytes(Bytes),
    /// A pipe. Another thread can write to its other end while the command runs.
    Pipe(Arc<OwnedFd>),
}

/// A handle that ends a command: [`Exit::Cancelled`].
///
/// ```
/// use prowess_workspace::command::Stop;
/// use prowess_workspace::Command;
///
/// let stop = Stop::default();
/// let mut command = Command::new("/srv/workspaces/one", "work", "sleep 600");
/// command.stop = stop.clone(); // clones share one state
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
    /// Ends the command that has this handle, or will have it.
    pub fn stop(&self) {
        self.0.wanted.store(true, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }

    /// Whether [`Stop::stop`] was called.
    pub fn is_wanted(&self) -> bool {
        self.0.wanted.load(Ordering::SeqCst)
    }

    /// Waits until [`Stop::stop`] is called.
    pub async fn wanted(&self) {
        let changed = self.0.changed.notified();
        tokio::pin!(changed);
        // Listen first and check afterwards, so that no call in between is missed.
        changed.as_mut().enable();
        if !self.is_wanted() {
            changed.await;
        }
    }
}

/// The network of a command.
///
/// ```
/// use prowess_workspace::{Network, RunRequest};
///
/// let most = Network::Hosts(vec!["*.pypi.org".parse()?]);
/// let mut request = RunRequest::new("greet", "pip download flask");
/// assert_eq!(request.network_within(&most)?, Network::None, "the request did not ask");
/// request.network = vec!["files.pypi.org".into()];
/// assert!(request.network_within(&most).is_ok());
/// request.network = vec!["example.com".into()];
/// assert!(request.network_within(&most).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// No network.
    #[default]
    None,
    /// The hosts that these rules allow, through a proxy. The local executor then needs a tokio runtime with I/O and time.
    Hosts(Vec<HostRule>),
}

/// How a command ended, and what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// How long it ran.
    pub duration: Duration,
    /// Its sandbox.
    pub sandbox: Sandbox,
    /// The name of its directory in `runs/`, if it had one. `$RUN_DIR` in globs means this directory.
    pub run: Option<String>,
    /// Warnings, such as a limit that was reached.
    pub warnings: Vec<RunWarning>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Exit {
    /// It ended by itself, with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Its timeout killed it.
    TimedOut,
    /// It was killed because it used too much memory.
    OutOfMemory,
    /// It was killed because it wrote too much output.
    TooMuchOutput,
    /// It was killed because the workspace is full.
    WorkspaceFull,
    /// It was killed because its caller cancelled it.
    Cancelled,
}

impl Exit {
    /// Why the command was killed, if it was.
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

/// The kept parts of an output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Its start; all of it if nothing was left out.
    pub head: Vec<u8>,
    /// Its end, if something in the middle was left out.
    pub tail: Vec<u8>,
    /// How many bytes were written.
    pub total: u64,
}

impl Captured {
    /// How many bytes were left out.
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }

    /// The kept parts as text, with a line that says how much was left out. Bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&self.tail));
        match self.left_out() {
            0 => format!("{head}{tail}"),
            bytes => format!("{head}\n[… {bytes} bytes left out …]\n{tail}"),
        }
    }
}

/// The strength of a sandbox, from strongest to weakest.
///
/// ```
/// use prowess_workspace::Level;
///
/// let (least, found) = (Level::BwrapNoproc, Level::Bwrap);
/// assert!(found <= least, "strong enough: stronger levels are smaller");
/// assert_eq!("bwrap-noproc".parse(), Ok(least));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// A container.
    Container,
    /// bubblewrap with all namespaces and a seccomp filter.
    Bwrap,
    /// bubblewrap without its own `/proc`.
    BwrapNoproc,
    /// Landlock and a seccomp filter.
    Landlock,
    /// Only limits.
    None,
}

impl Level {
    /// All levels, from strongest to weakest.
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

/// The error for a text that is not a level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sandbox level: use container, bwrap, bwrap-noproc, landlock or none")]
pub struct LevelError(String);

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(name: &str) -> Result<Self, LevelError> {
        Self::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| LevelError(name.to_owned()))
    }
}

/// The sandbox of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sandbox {
    /// Its strength.
    pub level: Level,
    /// The missing protections, and why they are missing.
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
        insta::assert_snapshot!(unknown, @"`docker` is not a sandbox level: use container, bwrap, bwrap-noproc, landlock or none");
    }
}
