//! Files in a thread's state. The thread's log stores them.

mod change;
mod thread_files;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::{Backend, VirtualPath};

use self::change::FileTree;
use self::thread_files::ThreadFiles;
use crate::backends::Backends;
use crate::id::ThreadId;
use crate::middleware::{Middleware, MiddlewareError, MiddlewareFactory};
use crate::state::{AnyState, States};
use crate::thread_state::StateChange;

const NAME: &str = "state_files";
/// The most bytes in the files of a thread.
pub const MAX_STATE_BYTES: u64 = 64 * 1024 * 1024;
/// The most files of a thread.
pub const MAX_STATE_FILES: usize = 10_000;

/// Files in the state of each thread. Other middleware can work on them.
///
/// The log stores each change before any later event. So a thread that is opened again, forked or continued by another
/// process has exactly the files that its tools saw. [`MAX_STATE_BYTES`] and [`MAX_STATE_FILES`] are the limits.
///
/// ```
/// # use std::sync::Arc;
/// # use prowess_agent::middleware::{Files, StateFiles, Summarisation};
/// # use prowess_agent::{Agent, AgentError, Model};
/// # fn build(model: Arc<dyn Model>) -> Result<Agent, AgentError> {
/// let files = StateFiles::new();
/// Agent::builder(model.clone())
///     .middleware(files.clone())
///     .middleware(Files::new(files.clone()))
///     .middleware(Summarisation::new(model, files))
///     .build()
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct StateFiles(());

impl StateFiles {
    /// Files in the state of each thread.
    pub fn new() -> Self {
        Self::default()
    }

    /// The files of a thread, as the log has them.
    pub fn of(states: &States) -> impl Iterator<Item = (&VirtualPath, &Bytes)> {
        states.get::<FileTree>(NAME).into_iter().flat_map(|tree| &tree.0)
    }
}

#[async_trait]
impl MiddlewareFactory for StateFiles {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<FileTree>::default())
    }

    async fn open(&self, _: &ThreadId, states: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        let tree = states.get::<FileTree>(NAME).ok_or(MiddlewareError::NoState)?;
        Ok(Arc::new(OpenStateFiles(Arc::new(ThreadFiles::new(tree)))))
    }
}

/// The files of one thread.
#[derive(Debug)]
struct OpenStateFiles(Arc<ThreadFiles>);

#[async_trait]
impl Middleware for OpenStateFiles {
    fn name(&self) -> &str {
        NAME
    }

    fn unstored(&self) -> Vec<StateChange> {
        self.0.unstored().iter().map(|change| StateChange::new::<FileTree>(NAME, change)).collect()
    }
}

impl From<StateFiles> for Backends {
    fn from(_: StateFiles) -> Self {
        Self::new(|context| match context.find::<OpenStateFiles>() {
            Some(opened) => Arc::clone(&opened.0) as Arc<dyn Backend>,
            None => no_files(),
        })
    }
}

/// The files of an agent that lacks the middleware for them: there are none, and none can be written.
pub(super) fn no_files() -> Arc<dyn Backend> {
    Arc::new(ThreadFiles::unavailable())
}
