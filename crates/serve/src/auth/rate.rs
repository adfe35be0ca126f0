//! How many requests a user may make.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use crate::app::lock;

/// For how many seconds a user may save up requests.
const BURST: f64 = 4.0;
/// The most users that are remembered.
const MAX_USERS: usize = 10_000;

/// A bucket of requests for each user, which fills up again with time.
#[derive(Debug)]
pub(crate) struct RateLimits {
    per_second: f64,
    buckets: Mutex<HashMap<String, (f64, Instant)>>,
}

impl RateLimits {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second: f64::from(per_second), buckets: Mutex::default() }
    }

    /// Takes one request of a user. Returns false if there is none.
    pub(crate) fn take(&self, user: &str) -> bool {
        self.take_at(user, Instant::now())
    }

    fn take_at(&self, user: &str, now: Instant) -> bool {
        let full = self.per_second * BURST;
        let mut buckets = lock(&self.buckets);
        if buckets.len() >= MAX_USERS {
            buckets.clear();
        }
        let (left, at) = buckets.entry(user.to_owned()).or_insert((full, now));
        *left = (*left + now.saturating_duration_since(*at).as_secs_f64() * self.per_second).min(full);
        *at = now;
        let may = *left >= 1.0;
        if may {
            *left -= 1.0;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_user_who_asks_too_much_waits_and_others_do_not() {
        let (rates, now) = (RateLimits::new(10), Instant::now());
        let taken = (0..100).filter(|_| rates.take_at("ada", now)).count();
        assert_eq!(taken, 40);
        assert!(rates.take_at("bob", now));
        assert!(!rates.take_at("ada", now + Duration::from_millis(50)));
        assert!(rates.take_at("ada", now + Duration::from_millis(200)));
    }
}
