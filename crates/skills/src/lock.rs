//! The lock around what a session and its engine change.
//!
//! With `--cfg shuttle` it is a lock of shuttle, so that `make shuttle` can try the orders in which threads take it. That
//! is no feature of the crate: no dependency can turn it on by accident.

use std::sync::PoisonError;

#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(shuttle))]
use std::sync::{Mutex, MutexGuard};

/// A value that one thread at a time can change.
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the value, even if a thread panicked while it had the lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
