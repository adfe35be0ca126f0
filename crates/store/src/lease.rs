//! Leases: who may write to a thread, and for how long.

use std::time::Duration;

use prowess_agent::ThreadId;
use prowess_agent::thread::{Lease, ThreadError};

/// The longest lease: a day. A lease that seems longer was taken while the clock was wrong.
pub(crate) const MAX_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// The lease of a thread, as [`crate::sql::STATE`] reads it.
#[derive(Clone, Debug)]
pub(crate) struct LeaseState {
    pub(crate) events: i64,
    pub(crate) epoch: i64,
    pub(crate) owner: Option<Vec<u8>>,
    /// Whether the lease has not expired.
    pub(crate) lasts: bool,
}

impl LeaseState {
    /// Who holds the lease now.
    fn holder(&self) -> Option<String> {
        let owner = self.owner.as_ref().filter(|_| self.lasts)?;
        Some(String::from_utf8_lossy(owner).into_owned())
    }
}

/// The duration of a lease in microseconds, at most [`MAX_LEASE`].
pub(crate) fn micros(lasts: Duration) -> i64 {
    i64::try_from(lasts.min(MAX_LEASE).as_micros()).unwrap_or(i64::MAX)
}

/// The error if another owner holds the lease; `None` if nobody does.
pub(crate) fn leased_by_other(thread: &ThreadId, state: Option<&LeaseState>) -> Option<ThreadError> {
    let owner = state?.holder()?;
    Some(ThreadError::Leased { thread: thread.clone(), owner })
}

/// Why a writer may not append after `after` events; `None` if it may.
pub(crate) fn append_refusal(lease: &Lease, after: u64, state: Option<&LeaseState>) -> Option<ThreadError> {
    let thread = lease.thread.clone();
    let Some(state) = state else { return Some(ThreadError::NotFound(thread)) };
    let is_holder = u64::try_from(state.epoch) == Ok(lease.epoch)
        && state.owner.as_deref() == Some(lease.owner.as_bytes());
    let has = u64::try_from(state.events).unwrap_or_default();
    if !is_holder {
        Some(ThreadError::LeaseLost(thread))
    } else if has != after {
        Some(ThreadError::Conflict { thread, has, expected: after })
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SQL cannot read the constant, so the statements repeat the number.
    #[test]
    fn the_statements_know_the_longest_lease() {
        let longest = format!("prowess_now() + {}", MAX_LEASE.as_micros());
        assert!(crate::sql::STATE.contains(&longest), "{}", crate::sql::STATE);
        let functions = include_str!("migrations/5.sql");
        assert_eq!(functions.matches("BETWEEN prowess_now() + 1 AND ").count(), 4);
        assert_eq!(functions.matches(&longest).count(), 4);
    }
}
