//! What is known of threads without reading them.

use prowess_agent::ThreadId;
use prowess_agent::thread::{ThreadError, ThreadInfo};

use crate::error::DatabaseError;
use crate::event::{signed, time, unsigned};

/// A row of [`crate::sql::LIST`]: name, number of events, when it was made, when it changed.
pub(crate) type ListRow = (String, i64, i64, i64);

pub(crate) fn info(
    place: &str,
    (id, events, created, changed): ListRow,
) -> Result<ThreadInfo, DatabaseError> {
    let id: ThreadId =
        id.parse().map_err(|_| DatabaseError::damaged(place, format!("{id:?} is no name of a thread")))?;
    let events = unsigned(place, events)?;
    Ok(ThreadInfo { id, events, created: time(created), changed: time(changed) })
}

/// Why there is no fork of a thread that has so many events, or that is not there.
pub(crate) fn no_fork(from: &ThreadId, through: u64, to: &ThreadId, has: Option<i64>) -> ThreadError {
    match has {
        Some(has) if has >= signed(through) => ThreadError::Exists(to.clone()),
        _ => ThreadError::NotFound(from.clone()),
    }
}

/// Whether a fork has all that it should have.
pub(crate) fn whole_fork(from: &ThreadId, through: u64, copied: u64) -> Result<(), ThreadError> {
    if copied == through {
        return Ok(());
    }
    let problem = "the thread has fewer events than it had, or should have".to_owned();
    Err(ThreadError::Damaged { thread: from.clone(), number: copied + 1, problem })
}
