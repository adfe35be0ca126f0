//! The files of a thread follow it to the worker that takes the thread.

mod backend;
mod opened;
mod state;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use prowess_backend::{Backend, VirtualPath};
use tokio::sync::Mutex;

use self::backend::FollowedBackend;
use self::opened::{OpenFiles, SharedFiles};
pub use self::state::{FollowDelta, FollowedFiles, PersonalChange};
use crate::backends::Backends;
use crate::id::ThreadId;
use crate::middleware::{Middleware, MiddlewareError, MiddlewareFactory};
use crate::state::{AnyState, States};

const NAME: &str = "following_files";

/// Any error of a [`FileStorage`].
pub type StorageError = Box<dyn std::error::Error + Send + Sync>;

/// Stores the files of one thread, and restores them on another machine.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_agent::middleware::{CapturedFiles, FileStorage, FollowedFiles, PersonalChange, StorageError};
///
/// /// A thread that has no files.
/// #[derive(Debug)]
/// struct NoFiles;
///
/// #[async_trait]
/// impl FileStorage for NoFiles {
///     async fn restore(&self, _: &FollowedFiles) -> Result<(), StorageError> {
///         Ok(())
///     }
///
///     async fn capture(&self, _: Option<&str>) -> Result<Option<CapturedFiles>, StorageError> {
///         Ok(None)
///     }
///
///     async fn apply(&self, _: Option<&str>, change: &PersonalChange) -> Result<(), StorageError> {
///         Err(format!("there is no place for {}", change.path).into())
///     }
/// }
/// ```
#[async_trait]
pub trait FileStorage: Send + Sync + Debug {
    /// Makes the local files those of a log: the files of its inventory, with the later changes of people. Local files stay that
    /// the thread had before it was followed, until a log names an inventory that has them.
    ///
    /// # Errors
    ///
    /// The files cannot be restored. A part may be. Then nothing is captured until this succeeds.
    async fn restore(&self, files: &FollowedFiles) -> Result<(), StorageError>;

    /// Stores the files that changed since the last capture or restore; `None` if none did. `family` is the first thread of
    /// the family, if the log names it.
    ///
    /// # Errors
    ///
    /// The files cannot be stored. The next capture tries again.
    async fn capture(&self, family: Option<&str>) -> Result<Option<CapturedFiles>, StorageError>;

    /// Makes a change of a person, whose content is stored, in the local files.
    ///
    /// # Errors
    ///
    /// The change cannot be made.
    async fn apply(&self, family: Option<&str>, change: &PersonalChange) -> Result<(), StorageError>;

    /// Whether an error of one of these can pass, so that the same works later: the store does not answer, for example.
    fn passes(&self, _: &StorageError) -> bool {
        false
    }
}

/// What a [`FileStorage`] stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedFiles {
    /// The digest of the inventory.
    pub inventory: String,
    /// The first thread of the family.
    pub family: String,
    /// What the model and the person must know, such as that a file is too large.
    pub notice: Option<String>,
}

/// The files of a thread follow it to the worker that takes the thread. Add it before all other middleware.
///
/// When a turn begins or goes on, the thread's files are restored from the inventory that its log names. If this fails, the
/// turn does not go on, and can still be cancelled. After each tool call, files that changed are stored, and the log gets the
/// digest of their inventory in the same write as the answer. If they cannot be stored, the answer is an error. A capture
/// takes effect at once, also while other calls of the same response run.
///
/// Sub-agents work on the files of the thread for which they work, so they share this value.
///
/// ```
/// # use std::sync::Arc;
/// # use prowess_agent::middleware::{FileStorage, FollowingFiles};
/// # use prowess_agent::{Agent, AgentError, Model, ThreadId};
/// # fn build(model: Arc<dyn Model>, storage: Arc<dyn FileStorage>, thread: &ThreadId) -> Result<Agent, AgentError> {
/// Agent::deep_builder(model).middleware(FollowingFiles::new(thread.clone(), storage)).build()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FollowingFiles(Arc<SharedFiles>);

impl FollowingFiles {
    /// The files of this thread and of its sub-agents.
    pub fn new(thread: ThreadId, storage: Arc<dyn FileStorage>) -> Self {
        Self(Arc::new(SharedFiles { thread, storage, state: Mutex::default() }))
    }

    /// The same files, for middleware. What is written below `outside` is stored at once, because such files are also written
    /// outside of tool calls: the history, for example.
    pub fn backends(files: Arc<dyn Backend>, outside: VirtualPath) -> Backends {
        Backends::new(move |context| match context.find::<OpenFiles>() {
            Some(opened) => FollowedBackend::of(opened, &files, &outside),
            None => Arc::clone(&files),
        })
    }
}

#[async_trait]
impl MiddlewareFactory for FollowingFiles {
    fn name(&self) -> &str {
        NAME
    }

    fn state(&self) -> Option<Box<dyn AnyState>> {
        Some(Box::<FollowedFiles>::default())
    }

    async fn open(&self, thread: &ThreadId, states: &States) -> Result<Arc<dyn Middleware>, MiddlewareError> {
        let files = states.get::<FollowedFiles>(NAME).ok_or(MiddlewareError::NoState)?;
        self.0.open(thread, files).await?;
        let open = OpenFiles::new(Arc::clone(&self.0), thread, files);
        // Files that the thread had before it was followed.
        if files.is_empty() {
            match open.opened.begin().await {
                Ok(None) => {}
                Ok(Some(notice)) => tracing::warn!(%thread, "{notice}"),
                Err(error) => {
                    tracing::warn!(%thread, %error, "Could not store the files that a thread has already");
                }
            }
        }
        Ok(Arc::new(open))
    }
}
