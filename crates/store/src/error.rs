//! Why a database failed.

use std::error::Error;
use std::sync::Arc;

use prowess_agent::queue::QueueError;
use prowess_agent::thread::ThreadError;

use crate::action::{QueueAction, ThreadAction};

/// The error of a database or its driver.
pub(crate) type Cause = Arc<dyn Error + Send + Sync>;

/// Why a database failed.
///
/// The traits that a store implements have their own errors. This one is their source, and [`DatabaseError::of`] finds it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// A newer prowess made it.
    #[error(
        "{place} has version {found}, but this prowess supports versions up to {known}: use a newer prowess. Nothing was changed"
    )]
    Newer {
        /// The database.
        place: String,
        /// Its version.
        found: i64,
        /// The newest supported version.
        known: u64,
    },
    /// It is the database of another program.
    #[error("{place} belongs to another program: use another file. Nothing was changed")]
    Foreign {
        /// The database.
        place: String,
    },
    /// The stored data is not what prowess wrote.
    #[error(
        "{place} is damaged: {problem}. It was not changed: restore a backup, or move it away to start a new one"
    )]
    Damaged {
        /// The database.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// The disk is full.
    #[error(
        "{place} has no space left: nothing new was stored, and stored data can still be read. Free some space and try again"
    )]
    Full {
        /// The database.
        place: String,
        /// The error of the database.
        source: Cause,
    },
    /// The system did not allow a write.
    #[error(
        "{place} could not be written ({source}): nothing new was stored, and stored data can still be read. Check the disk, its quota and the limit of file sizes, and try again"
    )]
    Unwritable {
        /// The database.
        place: String,
        /// The error of the database.
        source: Cause,
    },
    /// The system did not confirm that a write is on the disk.
    #[error(
        "{place} could not be flushed to the disk ({source}): the last change may be lost in a crash. Check the disk, read the data again, and try again"
    )]
    Unflushed {
        /// The database.
        place: String,
        /// The error of the database.
        source: Cause,
    },
    /// Others used it for too long.
    #[error("{place} was busy for {seconds} seconds: try again")]
    Busy {
        /// The database.
        place: String,
        /// How long this caller waited.
        seconds: u64,
    },
    /// A statement took longer than it may.
    #[error("{place} took too long: try again")]
    TimedOut {
        /// The database.
        place: String,
    },
    /// Its file was removed or replaced while it was open.
    #[error(
        "{place} was removed or replaced while it was open: what is written now is lost when this process ends. Put the file back, or restart"
    )]
    Replaced {
        /// The database.
        place: String,
    },
    /// It is open.
    #[error("{place} is open in this or another process: close it first")]
    InUse {
        /// The database.
        place: String,
    },
    /// Another server uses it.
    #[error("another server uses {place}: {by}")]
    Served {
        /// The database.
        place: String,
        /// The name of the other server.
        by: String,
    },
    /// The server does not respond, or the connection was lost. The last change may or may not be stored.
    #[error("{place} cannot be reached: {source}")]
    Unreachable {
        /// The database.
        place: String,
        /// The error of the database.
        source: Cause,
    },
    /// The server refuses the role or the password.
    #[error("{place} refuses the connection: {source}")]
    Refused {
        /// The database.
        place: String,
        /// The error of the database.
        source: Cause,
    },
    /// The server has no such database.
    #[error("{place} does not exist: create it with `createdb`, or name another one")]
    Missing {
        /// The database.
        place: String,
    },
    /// The role in its URL may not do it.
    #[error(
        "{place} does not allow it ({source}). If its tables are older than this prowess, open it once with the role that owns them"
    )]
    Denied {
        /// The database.
        place: String,
        /// The error of the database.
        source: Cause,
    },
    /// This build does not support it.
    #[error("{place} needs {needs}, which this prowess was built without")]
    Unsupported {
        /// The database.
        place: String,
        /// What is missing.
        needs: &'static str,
    },
    /// Another failure.
    #[error("{place} could not {action}: {source}")]
    Failed {
        /// The database.
        place: String,
        /// What failed.
        action: &'static str,
        /// The error of the database.
        source: Cause,
    },
}

impl DatabaseError {
    /// Finds the database error among the sources of another error.
    ///
    /// ```
    /// use prowess_agent::thread::ThreadError;
    /// use prowess_store::DatabaseError;
    ///
    /// fn is_damaged(error: &ThreadError) -> bool {
    ///     matches!(DatabaseError::of(error), Some(DatabaseError::Damaged { .. }))
    /// }
    /// ```
    pub fn of<'error>(error: &'error (dyn Error + 'static)) -> Option<&'error Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }

    /// Whether it is about the database as a whole, so that the same work may succeed later. Otherwise it is about what was read or
    /// written.
    ///
    /// ```
    /// use prowess_store::DatabaseError;
    ///
    /// assert!(DatabaseError::TimedOut { place: "the database".to_owned() }.may_pass());
    /// ```
    pub fn may_pass(&self) -> bool {
        !matches!(
            self,
            Self::Foreign { .. } | Self::Damaged { .. } | Self::Unsupported { .. } | Self::Failed { .. }
        )
    }

    pub(crate) fn failed(
        place: &str,
        action: &'static str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Failed { place: place.to_owned(), action, source: Arc::from(source.into()) }
    }

    pub(crate) fn damaged(place: &str, problem: impl Into<String>) -> Self {
        Self::Damaged { place: place.to_owned(), problem: problem.into() }
    }

    /// The thread error for a failed action.
    pub(crate) fn during(self, action: ThreadAction<'_>) -> ThreadError {
        ThreadError::Store { action: action.to_string(), source: Box::new(self) }
    }

    /// The queue error for a failed action.
    pub(crate) fn in_queue(self, action: QueueAction<'_>) -> QueueError {
        QueueError::Store { action: action.to_string(), source: Box::new(self) }
    }
}
