//! Who may write to a thread, and why somebody may not.

use std::time::Duration;

use prowess_agent::ThreadId;
use prowess_agent::thread::{Lease, ThreadError};

/// The longest lease that is given: a day. One that seems longer was taken while the clock was wrong.
pub(crate) const MAX_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// How a thread stands, as [`crate::sql::STATE`] tells.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) events: i64,
    pub(crate) epoch: i64,
    pub(crate) owner: Option<Vec<u8>>,
    /// Whether the time of the lease is not over.
    pub(crate) lasts: bool,
}

impl State {
    /// Who has the thread now.
    fn holder(&self) -> Option<String> {
        let owner = self.owner.as_ref().filter(|_| self.lasts)?;
        Some(String::from_utf8_lossy(owner).into_owned())
    }
}

/// How long a lease lasts, in microseconds.
pub(crate) fn micros(lasts: Duration) -> i64 {
    i64::try_from(lasts.min(MAX_LEASE).as_micros()).unwrap_or(i64::MAX)
}

/// The answer to somebody who wants what another has; none when nobody has it.
pub(crate) fn held(thread: &ThreadId, state: Option<&State>) -> Option<ThreadError> {
    let owner = state?.holder()?;
    Some(ThreadError::Leased { thread: thread.clone(), owner })
}

/// Why a writer may not append after `after` events; none when it may.
pub(crate) fn refusal(lease: &Lease, after: u64, state: Option<&State>) -> Option<ThreadError> {
    let thread = lease.thread.clone();
    let Some(state) = state else { return Some(ThreadError::NotFound(thread)) };
    let is_its = u64::try_from(state.epoch) == Ok(lease.epoch)
        && state.owner.as_deref() == Some(lease.owner.as_bytes());
    let has = u64::try_from(state.events).unwrap_or_default();
    if !is_its {
        Some(ThreadError::LeaseLost(thread))
    } else if has != after {
        Some(ThreadError::Conflict { thread, has, expected: after })
    } else {
        None
    }
}
