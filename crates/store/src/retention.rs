//! Retention: how long threads are kept.

use std::time::Duration;

use crate::event::signed;

/// Which threads [`prune`](crate::SqliteStore::prune) deletes: those past any limit that is set. A leased thread always
/// stays.
///
/// ```
/// use std::time::Duration;
///
/// use prowess_store::Retention;
///
/// let month = Duration::from_secs(30 * 24 * 60 * 60);
/// let retention = Retention::default().older_than(month).keep_last(1000);
/// # assert_ne!(retention, Retention::default(), "which keeps everything");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Delete threads that did not change for this long.
    pub older_than: Option<Duration>,
    /// Keep only this many threads: those that changed last.
    pub keep_last: Option<u64>,
}

/// How many threads are deleted in one transaction, so that others can write in between.
pub(crate) const PRUNED_AT_ONCE: i64 = 100;

/// A position in the list of threads. Threads that changed before it are deleted.
pub(crate) type Bound = (i64, String);

impl Retention {
    /// Sets the age after which threads are deleted, counted from their last change.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = Some(age);
        self
    }

    /// Sets how many threads are kept.
    #[must_use]
    pub fn keep_last(mut self, threads: u64) -> Self {
        self.keep_last = Some(threads);
        self
    }

    /// How many threads are kept before the last one, for [`crate::sql::LAST_KEPT`].
    pub(crate) fn before_last_kept(self) -> Option<i64> {
        self.keep_last?.checked_sub(1).map(signed)
    }

    /// The bounds of deletion, from the time now and the last thread that is kept.
    pub(crate) fn bounds(self, now: i64, last_kept: Option<Bound>) -> impl Iterator<Item = Bound> {
        let age = |age: Duration| i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let of_age = self.older_than.map(|most| (now.saturating_sub(age(most)), String::new()));
        let of_all = (self.keep_last == Some(0)).then(|| (i64::MAX, String::new()));
        of_age.into_iter().chain(of_all).chain(last_kept)
    }
}
