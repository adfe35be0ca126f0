//! The local executor: runs each command as a process of this machine, in its own sandbox.
//!
//! | level | isolation | missing |
//! |---|---|---|
//! | `bwrap` | bubblewrap: all namespaces, a system call filter, no capabilities, a read-only system | |
//! | `bwrap-noproc` | the same | `/proc`, which most containers do not allow |
//! | `landlock` | Landlock, and the same filter without sockets | namespaces |
//! | `none` | limits only | everything else |
//!
//! The strongest level that works is used. Each level is really tried once. A level weaker than the user allows is
//! refused. Root becomes `nobody` first, at every level.
//!
//! How a run works, from the outside in:
//!
//! 1. A run thread, with a control group if possible, starts `setpriv`, which becomes bubblewrap.
//! 2. bubblewrap starts a shell as the first process of a namespace.
//! 3. The shell reports that it runs, waits for its supervisor, sets its limits and starts the command.
//! 4. The supervisor in the run thread reads output, checks limits and kills.
//!
//! If prowess is killed, bubblewrap dies with the run thread, and the namespace with bubblewrap. The reaper kills
//! sandboxes that were half started.
//!
//! A run with allowed hosts has a proxy in our process, and a second bubblewrap around its sandbox, with a bridge to the
//! proxy: see `network`.

mod cgroup;
mod exit;
mod landlock;
mod launch;
mod network;
mod no_sandbox;
mod options;
mod probe;
mod process_tree;
mod profile;
mod reach;
mod reaper;
mod run;
mod run_thread;
pub(super) mod seccomp;
mod spawn;
mod status;
mod stream;
mod supervise;
mod system;
mod terminal;

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::event::{EventfdFlags, eventfd};
use secrecy::SecretString;
use tokio::sync::{mpsc, oneshot};

use self::network::Proxy;
pub use self::options::LocalOptions;
use self::probe::Machine;
pub(crate) use self::redact::Redactor;
use self::run_thread::RunThreads;
pub use self::seccomp::filter as system_call_filter;
use super::cancel::{CancelOnDrop, RunOver};
pub use super::privileges::sandbox_owner;
use super::span::spanned;
use super::stream::{PIECES, show};
use super::{Abilities, ExecuteError, Executor, OutputSink};
use super::{environment, layout, privileges, processes, redact, run_directory, set_ids, watch};
use crate::command::{Command, Finished, Network, Sandbox};
use crate::missing::Missing;

/// How long dropping a run waits until its processes are dead.
const DEAD_BY: Duration = Duration::from_secs(5);

/// Runs each command as a process of this machine, in its own sandbox.
///
/// Drop the future to end a command. The drop waits until all of its processes are dead, which takes milliseconds.
///
/// The span `workspace.run` has the fields `level`, `exit` and `duration_ms`. Spans and events never contain input or
/// output of a command, which could contain secrets.
///
/// ```
/// use prowess_workspace::executor::NoSink;
/// use prowess_workspace::{Command, Executor, Level, LocalExecutor, LocalOptions, Workspaces};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::os::unix::fs::PermissionsExt as _;
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755))?;
/// # let place = scratch.path().join("workspaces");
/// let workspace = Workspaces::open(&place)?.workspace("session-1")?;
/// let mut options = LocalOptions::default();
/// options.least = Level::None; // also runs without bubblewrap; uses it if it can
/// let executor = LocalExecutor::new(options);
/// let line = "echo hello > $OUTPUT_DIR/greeting.txt; cat $OUTPUT_DIR/greeting.txt";
/// let finished = executor.run(Command::new(workspace.path(), "work", line), &NoSink).await?;
/// assert_eq!(finished.stdout.text(), "hello\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LocalExecutor {
    shared: Arc<Shared>,
    threads: RunThreads,
}

#[derive(Debug)]
struct Shared {
    options: LocalOptions,
    machine: Machine,
}

impl LocalExecutor {
    /// An executor for this machine. Its first use finds out what the machine supports.
    pub fn new(options: LocalOptions) -> Self {
        Self { shared: Arc::new(Shared { options, machine: Machine::new() }), threads: RunThreads::default() }
    }

    async fn run_inner(&self, command: Command, output: &dyn OutputSink) -> Result<Finished, ExecuteError> {
        let failed =
            |error| ExecuteError::System { action: "start a thread for the command".to_owned(), error };
        // Not from a run thread, whose limits are for commands.
        self.shared.machine.reaper().map_err(failed)?;
        let cancel = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?);
        let over = Arc::new(RunOver::default());
        let (answer, answered) = oneshot::channel();
        let (watcher, pieces) = mpsc::channel(PIECES);
        let stop = command.stop.clone();
        let (shared, ended, cancelled) = (Arc::clone(&self.shared), Arc::clone(&over), Arc::clone(&cancel));
        let (proxy, proxy_socket) = open_proxy(&command.network)?.unzip();
        self.threads
            .start(move |group| {
                let (machine, options) = (&shared.machine, &shared.options);
                let result =
                    run::run(machine, options, &command, proxy_socket, group, cancelled.as_fd(), &watcher);
                drop(watcher);
                let _ = answer.send(result);
                ended.set();
            })
            .map_err(failed)?;
        let tell = move || {
            let _ = rustix::io::write(&*cancel, &1u64.to_ne_bytes());
        };
        let mut cancel_on_drop = CancelOnDrop::new(over, DEAD_BY, tell);
        // Dropped before the guard, so that a supervisor that offers output never waits for a caller that waits for it.
        let mut pieces = pieces;
        let watched = async {
            show(&mut pieces, output, &stop, || cancel_on_drop.cancel()).await;
            answered.await
        };
        let result = match &proxy {
            None => watched.await,
            Some(proxy) => tokio::select! {
                result = watched => result,
                never = proxy.serve() => match never {},
            },
        };
        cancel_on_drop.done();
        let mut result = result.map_err(|_| failed(std::io::ErrorKind::BrokenPipe.into()))?;
        if let (Ok(finished), Some(proxy)) = (&mut result, proxy) {
            finished.warnings.extend(proxy.warnings());
        }
        result
    }
}

#[async_trait]
impl Executor for LocalExecutor {
    async fn run(&self, command: Command, output: &dyn OutputSink) -> Result<Finished, ExecuteError> {
        spanned(self.run_inner(command, output)).await
    }

    async fn probe(&self) -> Result<Sandbox, ExecuteError> {
        let failed = |error| ExecuteError::System { action: "try the sandbox".to_owned(), error };
        self.shared.machine.reaper().map_err(failed)?;
        let shared = Arc::clone(&self.shared);
        let (answer, answered) = oneshot::channel();
        self.threads
            .start(move |group| {
                let _ = answer.send(shared.machine.found(&shared.options).map(|found| {
                    let mut sandbox = found.sandbox;
                    if group.is_none() {
                        sandbox.missing.push(Missing::MemoryGroup);
                    }
                    sandbox
                }));
            })
            .map_err(failed)?;
        answered.await.map_err(|_| failed(std::io::ErrorKind::BrokenPipe.into()))?
    }

    fn abilities(&self) -> Abilities {
        Abilities { terminals: true, hosts: true }
    }

    fn secrets(&self) -> &[SecretString] {
        &self.shared.options.redact
    }
}

/// The proxy of a command with allowed hosts, and its socket.
fn open_proxy(network: &Network) -> Result<Option<(Proxy, OwnedFd)>, ExecuteError> {
    match network {
        Network::None => Ok(None),
        Network::Hosts(rules) => Proxy::open(rules.clone()).map(Some).map_err(|error| ExecuteError::System {
            action: "open the proxy to the network".to_owned(),
            error,
        }),
    }
}
