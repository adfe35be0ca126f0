//! What can go wrong with a database.

use std::error::Error;
use std::sync::Arc;

use prowess_agent::thread::ThreadError;

use crate::doing::Doing;

/// What a database, or a driver of one, said.
pub(crate) type Cause = Arc<dyn Error + Send + Sync>;

/// Why a database did not do its part.
///
/// The traits that a store implements have errors of their own; this one is their source, and
/// [`DatabaseError::of`] finds it there.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// It was made by a later version.
    #[error(
        "{place} is of version {found}, and this program knows those up to {known}: use a newer prowess; nothing was changed"
    )]
    Newer {
        /// The database.
        place: String,
        /// Its version.
        found: i64,
        /// The last version that is known.
        known: u64,
    },
    /// It is a database, and another program's.
    #[error("{place} belongs to another program: name another file; nothing was changed")]
    Foreign {
        /// The database.
        place: String,
    },
    /// What is there is not what was written.
    #[error(
        "{place} is damaged: {problem}; it is left as it is: bring a copy back, or set it aside to begin a new one"
    )]
    Damaged {
        /// The database.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// There is no room.
    #[error(
        "{place} has no room left: nothing new was stored, and what was stored before can still be read; make room, and try again"
    )]
    Full {
        /// The database.
        place: String,
        /// What was said.
        source: Cause,
    },
    /// The system did not let it be written.
    #[error(
        "{place} could not be written ({source}): nothing new was stored, and what was stored before can still be read; look at the disk, its quota and the limit of the size of files, and try again"
    )]
    Unwritable {
        /// The database.
        place: String,
        /// What was said.
        source: Cause,
    },
    /// The system did not say that what was written is on the disk.
    #[error(
        "{place} could not be flushed to the disk ({source}): what was to be stored may be there after a crash, or not; look at the disk, read again, and try again"
    )]
    Unflushed {
        /// The database.
        place: String,
        /// What was said.
        source: Cause,
    },
    /// Others kept it from this one for too long.
    #[error("{place} was kept busy by others for {seconds} seconds: try again")]
    Busy {
        /// The database.
        place: String,
        /// How long was waited.
        seconds: u64,
    },
    /// Somebody has it open.
    #[error("{place} is open in this or another process: end that first")]
    InUse {
        /// The database.
        place: String,
    },
    /// The server does not answer, or the connection was lost. What was under way may have been done, or not.
    #[error("{place} cannot be reached: {source}")]
    Unreachable {
        /// The database.
        place: String,
        /// What was said.
        source: Cause,
    },
    /// It is of a kind that this program was built without.
    #[error("{place} needs {needs}, which this program was built without")]
    Unsupported {
        /// The database.
        place: String,
        /// What is missing.
        needs: &'static str,
    },
    /// Something else.
    #[error("{place} could not {action}: {source}")]
    Failed {
        /// The database.
        place: String,
        /// What was to be done.
        action: &'static str,
        /// What was said.
        source: Cause,
    },
}

impl DatabaseError {
    /// The database's error among the sources of another, if there is one.
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

    /// As the error of a thread.
    pub(crate) fn while_doing(self, what: Doing<'_>) -> ThreadError {
        ThreadError::Store { action: what.to_string(), source: Box::new(self) }
    }
}
