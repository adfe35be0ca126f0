//! Whether a run is over, for who has to wait without being a future.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Whether a run is over.
#[derive(Debug, Default)]
pub(super) struct Over {
    is: Mutex<bool>,
    changed: Condvar,
}

impl Over {
    pub(super) fn set(&self) {
        *self.is.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until it is, for no longer than this.
    pub(super) fn wait(&self, at_most: Duration) {
        let is = self.is.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.changed.wait_timeout_while(is, at_most, |is| !*is);
    }
}
