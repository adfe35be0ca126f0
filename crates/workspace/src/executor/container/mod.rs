//! The container executor: runs each command in its own container of Docker or Podman.
//!
//! How a run works, from the outside in:
//!
//! 1. A thread with its own runtime asks the engine for a container without network, capabilities or a writable root.
//! 2. The first process inside reads a lifeline that this process holds, sets its limits and starts the command.
//! 3. The thread reads output, checks limits and kills. At the end it removes the container.
//!
//! If this process is killed, the lifeline breaks, and the first process ends with everything inside. The next executor
//! removes the container's record.
//!
//! The engine must be on this machine: it has to see the workspace, and the lifeline is a pipe of this kernel.

mod directory;
mod engine;
mod filter;
mod input;
mod instance;
mod options;
mod owner;
mod profile;
mod run;
mod script;
mod supervise;
mod sweep;
mod tree_parts;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use secrecy::SecretString;
use tokio::sync::{OnceCell, mpsc, oneshot};

use self::engine::EngineFacts;
pub use self::engine::{Engine, EngineKind};
pub use self::options::{ContainerOptions, DEFAULT_IMAGE};
use self::owner::Owner;
use self::run::ContainerRunner;
use super::cancel::{CancelOnDrop, RunOver};
use super::span::spanned;
use super::stream::{PIECES, show};
use super::{ExecuteError, Executor, OutputSink};
use crate::command::{Command, Finished, Sandbox};

/// How long dropping a run waits until its container is removed.
const GONE_BY: Duration = Duration::from_secs(20);

/// Runs each command in its own container of Docker or Podman.
///
/// Drop the future to end a command. The drop waits until its container is removed, which takes some tenths of a second.
///
/// The span `workspace.run` has the same fields as that of the local executor: `level`, `exit` and `duration_ms`.
///
/// ```no_run
/// use prowess_workspace::executor::NoSink;
/// use prowess_workspace::{Command, ContainerExecutor, ContainerOptions, Executor, Workspaces};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workspace = Workspaces::open("/srv/workspaces")?.workspace("session-1")?;
/// let executor = ContainerExecutor::new(ContainerOptions::default());
/// println!("{:?} {}", executor.engine().await?.kind, executor.engine().await?.version);
/// let finished = executor.run(Command::new(workspace.path(), "work", "python3 -V"), &NoSink).await?;
/// assert!(finished.stdout.text().starts_with("Python 3"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ContainerExecutor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: ContainerOptions,
    owner: Owner,
    /// The facts that the engine reported at the first use.
    facts: OnceCell<EngineFacts>,
}

impl ContainerExecutor {
    /// An executor for an engine on this machine. Its first use looks for the engine.
    pub fn new(options: ContainerOptions) -> Self {
        Self { shared: Arc::new(Shared { options, owner: Owner::own(), facts: OnceCell::new() }) }
    }

    /// The engine that is used.
    ///
    /// # Errors
    ///
    /// No engine responds.
    pub async fn engine(&self) -> Result<Engine, ExecuteError> {
        let shared = Arc::clone(&self.shared);
        apart(async move |_| shared.connect().await.map(|(_, facts)| facts.engine.clone()))?.answer().await
    }

    async fn run_inner(&self, command: Command, output: &dyn OutputSink) -> Result<Finished, ExecuteError> {
        run::check(&self.shared.options, &command)?;
        let stop = command.stop.clone();
        let shared = Arc::clone(&self.shared);
        let (watcher, pieces) = mpsc::channel(PIECES);
        let mut apart = apart(async move |mut cancel| {
            let (docker, facts) = shared.connect().await?;
            let place =
                ContainerRunner { docker: &docker, facts, options: &shared.options, owner: &shared.owner };
            place.run(&command, &mut cancel, &watcher).await
        })?;
        // Dropped before the guard, so that the thread never waits for a caller that waits for it.
        let mut pieces = pieces;
        show(&mut pieces, output, &stop, || apart.cancel_on_drop.cancel()).await;
        apart.answer().await
    }
}

#[async_trait]
impl Executor for ContainerExecutor {
    async fn run(&self, command: Command, output: &dyn OutputSink) -> Result<Finished, ExecuteError> {
        spanned(self.run_inner(command, output)).await
    }

    async fn probe(&self) -> Result<Sandbox, ExecuteError> {
        let shared = Arc::clone(&self.shared);
        let apart = apart(async move |_| {
            let (docker, facts) = shared.connect().await?;
            let place =
                ContainerRunner { docker: &docker, facts, options: &shared.options, owner: &shared.owner };
            place.attempt().await
        })?;
        apart.answer().await
    }

    fn secrets(&self) -> &[SecretString] {
        &self.shared.options.redact
    }
}

impl Shared {
    /// Connects to the engine. The first time, containers of dead processes are removed.
    async fn connect(&self) -> Result<(Docker, &EngineFacts), ExecuteError> {
        let find = async || {
            let (docker, facts) = engine::find(&self.options).await?;
            if facts.rootless && facts.engine.kind == EngineKind::Docker {
                return Err(ExecuteError::NoSandbox {
                    what: "rootless Docker cannot run a command as the owner of its workspace".to_owned(),
                    remedy: "Use rootless Podman, or an engine that runs as root.".to_owned(),
                });
            }
            sweep::sweep(&docker, &self.owner).await;
            Ok(facts)
        };
        let facts = self.facts.get_or_try_init(find).await?;
        Ok((facts.connect()?, facts))
    }
}

/// Work in its own thread, which ends early if this is dropped.
struct Apart<T> {
    answered: oneshot::Receiver<Result<T, ExecuteError>>,
    cancel_on_drop: CancelOnDrop,
}

/// Starts work that must finish even if nobody waits for it any more. A signal tells the work when that happens.
fn apart<T: Send + 'static>(
    work: impl AsyncFnOnce(oneshot::Receiver<()>) -> Result<T, ExecuteError> + Send + 'static,
) -> Result<Apart<T>, ExecuteError> {
    let (cancel, cancelled) = oneshot::channel();
    let (answer, answered) = oneshot::channel();
    let over = Arc::new(RunOver::default());
    let ended = Arc::clone(&over);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let thread = std::thread::Builder::new().name("prowess-container".to_owned());
    let started = thread.spawn(move || {
        let _ = answer.send(runtime.block_on(work(cancelled)));
        ended.set();
    });
    started.map_err(failed)?;
    let mut cancel = Some(cancel);
    let cancel = move || {
        if let Some(cancel) = cancel.take() {
            let _ = cancel.send(());
        }
    };
    Ok(Apart { answered, cancel_on_drop: CancelOnDrop::new(over, GONE_BY, cancel) })
}

fn failed(error: io::Error) -> ExecuteError {
    ExecuteError::System { action: "start a thread for the container".to_owned(), error }
}

impl<T> Apart<T> {
    async fn answer(mut self) -> Result<T, ExecuteError> {
        let result = (&mut self.answered).await;
        self.cancel_on_drop.done();
        result.map_err(|_| failed(io::ErrorKind::BrokenPipe.into()))?
    }
}
