//! How long threads stay.

use std::time::Duration;

use crate::event::signed;

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

impl Retention {
    /// How many stay before the last that stays: [`crate::sql::LAST_KEPT`] tells which it is.
    pub(crate) fn before_last_kept(self) -> Option<i64> {
        self.keep_last?.checked_sub(1).map(signed)
    }

    /// The bounds of what goes, by the time now and the last that stays.
    pub(crate) fn bounds(self, now: i64, last_kept: Option<Bound>) -> impl Iterator<Item = Bound> {
        let age = |age: Duration| i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let of_age = self.older_than.map(|most| (now.saturating_sub(age(most)), String::new()));
        let of_all = (self.keep_last == Some(0)).then(|| (i64::MAX, String::new()));
        of_age.into_iter().chain(of_all).chain(last_kept)
    }
}
