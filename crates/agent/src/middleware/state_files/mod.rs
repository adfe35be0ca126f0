//! Files in a thread's state: its log has them, and they go where it goes.

mod delta;
mod live;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use prowess_backend::{Backend, VirtualPath};

use self::delta::Tree;
use self::live::Live;
use crate::backends::Backends;
use crate::id::ThreadId;
use crate::middleware::{Middleware, MiddlewareError, MiddlewareFactory};
use crate::state::{AnyState, States};
use crate::thread_state::StateChange;

const NAME: &str = "state_files";
/// How many bytes the files of a thread have at most.
pub const MAX_STATE_BYTES: u64 = 64 * 1024 * 1024;
/// How many files a thread has at most.
pub const MAX_STATE_FILES: usize = 10_000;

/// Files in a thread's state, as a part of an agent and as the files of other parts.
///
/// What is written is in the log before anything that came after it, in the order in which it happened. So a thread
/// that is opened again, forked or answered from another process has the files that its tools saw, and no file of
/// another thread. They are bounded by [`MAX_STATE_BYTES`] and [`MAX_STATE_FILES`].
///
/// ```
/// # use std::sync::Arc;
/// # use prowess_agent::middleware::{Files, StateFiles, Summarisation};
/// # use prowess_agent::{Agent, AgentError, Model};
/// # fn build(model: Arc<dyn Model>) -> Result<Agent, AgentError> {
/// let files = StateFiles::new();
/// Agent::builder(model.clone())
///     .with(files.clone())
///     .with(Files::new(files.clone()))
///     .with(Summarisation::new(model, files))
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

    /// The files of a thread, as its log has them.
    pub fn of(states: &States) -> impl Iterator<Item = (&VirtualPath, &Bytes)> {
        states.get::<Tree>(NAME).into_iter().flat_map(|tree| &tree.0)
    }
}

#[async_trait]
impl MiddlewareFactory for StateFiles {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<Tree>::default())
    }

    async fn open(&self, _: &ThreadId, states: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        let tree = states.get::<Tree>(NAME).ok_or(MiddlewareError::NoState)?;
        Ok(Arc::new(Opened(Arc::new(Live::new(tree)))))
    }
}

/// The files of one thread.
#[derive(Debug)]
struct Opened(Arc<Live>);

#[async_trait]
impl Middleware for Opened {
    fn name(&self) -> &str {
        NAME
    }

    fn unstored(&self) -> Vec<StateChange> {
        self.0.unstored().iter().map(|delta| StateChange::new::<Tree>(NAME, delta)).collect()
    }
}

impl From<StateFiles> for Backends {
    fn from(_: StateFiles) -> Self {
        Self::new(|moment| match moment.part::<Opened>() {
            Some(opened) => Arc::clone(&opened.0) as Arc<dyn Backend>,
            None => nowhere(),
        })
    }
}

/// Files for an agent that lacks the part which they belong to: there are none, and none can be written.
pub(super) fn nowhere() -> Arc<dyn Backend> {
    Arc::new(Live::nowhere())
}
