//! Ends a run when its future is dropped, and waits until it is over.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A flag that says whether a run is over, for code that waits without a future.
#[derive(Debug, Default)]
pub(super) struct RunOver {
    is: Mutex<bool>,
    changed: Condvar,
}

impl RunOver {
    pub(super) fn set(&self) {
        *self.is.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until the run is over, at most this long.
    pub(super) fn wait(&self, at_most: Duration) {
        let is = self.is.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.changed.wait_timeout_while(is, at_most, |is| !*is);
    }
}

/// Ends a run on drop, and waits until nothing of it is left.
pub(super) struct CancelOnDrop {
    how: Box<dyn FnMut() + Send>,
    over: Arc<RunOver>,
    at_most: Duration,
    done: bool,
}

impl CancelOnDrop {
    /// Ends a run with `how`, and waits at most this long until it is over.
    pub(super) fn new(over: Arc<RunOver>, at_most: Duration, how: impl FnMut() + Send + 'static) -> Self {
        Self { how: Box::new(how), over, at_most, done: false }
    }

    /// Ends the run, without waiting.
    pub(super) fn cancel(&mut self) {
        (self.how)();
    }

    /// The run has ended by itself, so the drop does nothing.
    pub(super) fn done(mut self) {
        self.done = true;
    }
}

impl fmt::Debug for CancelOnDrop {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("CancelOnDrop").field("done", &self.done).finish_non_exhaustive()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.done {
            self.cancel();
            self.over.wait(self.at_most);
        }
    }
}
