//! How long threads stay.

use std::time::Duration;

/// Which threads [`prune`](crate::SqliteStore::prune) deletes: those that are past any limit which is set. A thread
/// that somebody writes to stays in any case.
///
/// ```
/// use std::time::Duration;
///
/// use prowess_store::Retention;
///
/// let month = Duration::from_secs(30 * 24 * 60 * 60);
/// let retention = Retention { older_than: Some(month), keep_last: Some(1000) };
/// # assert_ne!(retention, Retention::default(), "which keeps everything");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Threads that did not change for longer go.
    pub older_than: Option<Duration>,
    /// Of the others, so many that changed last stay.
    pub keep_last: Option<u64>,
}

/// How many threads are deleted at once: others write in between.
pub(crate) const PRUNED_AT_ONCE: i64 = 100;

/// A place in the list of threads: all that changed before it go.
pub(crate) type Bound = (i64, String);

/// The bound of an age.
pub(crate) fn bound_of_age(now: i64, age: Duration) -> Bound {
    (now.saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX)), String::new())
}

/// After everything.
pub(crate) fn bound_of_all() -> Bound {
    (i64::MAX, String::new())
}
