//! The list of threads, and checks of forks.

use prowess_agent::ThreadId;
use prowess_agent::thread::{ThreadError, ThreadInfo};

use crate::error::DatabaseError;
use crate::event::{signed, time, unsigned};

/// A row of [`crate::sql::LIST`]: id, number of events, creation time, time of the last change.
pub(crate) type ListRow = (String, i64, i64, i64);

pub(crate) fn info(
    place: &str,
    (id, events, created, changed): ListRow,
) -> Result<ThreadInfo, DatabaseError> {
    let id = thread_id(place, &id)?;
    let events = unsigned(place, events)?;
    Ok(ThreadInfo::new(id, events, time(created), time(changed)))
}

/// A stored thread id.
pub(crate) fn thread_id(place: &str, id: &str) -> Result<ThreadId, DatabaseError> {
    id.parse().map_err(|_| DatabaseError::damaged(place, format!("{id:?} is not a thread id")))
}

/// Why a thread with this many events could not be forked; `has` is `None` if there is no such thread.
pub(crate) fn fork_refusal(from: &ThreadId, through: u64, to: &ThreadId, has: Option<i64>) -> ThreadError {
    match has {
        Some(has) if has >= signed(through) => ThreadError::Exists(to.clone()),
        _ => ThreadError::NotFound(from.clone()),
    }
}

/// Checks that a fork has all events.
pub(crate) fn check_fork(from: &ThreadId, through: u64, copied: u64) -> Result<(), ThreadError> {
    if copied == through {
        return Ok(());
    }
    let problem = "the thread has fewer events than it should have".to_owned();
    Err(ThreadError::Damaged { thread: from.clone(), number: copied + 1, problem })
}
