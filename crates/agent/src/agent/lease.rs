//! The lease of a thread, renewed while the agent works.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::AgentError;
use crate::thread::{Lease, ThreadError, ThreadStore};

/// How long a thread stays leased to a process that died, unless the options say otherwise.
pub(super) const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// The lease is renewed when this part of its time has passed: a third.
const RENEW_AFTER_ONE_IN: u32 = 3;
/// How soon a failed renewal is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// The lease that a handle holds, and when it was last renewed.
#[derive(Debug)]
pub(super) struct HeldLease {
    pub(super) lease: Lease,
    lasts: Duration,
    renewed: Mutex<Instant>,
    /// Whether the handle took it. Whoever took it releases it.
    is_own: bool,
}

impl HeldLease {
    /// A lease that was just taken.
    pub(super) fn new(lease: Lease, lasts: Duration) -> Self {
        Self { lease, lasts, renewed: Mutex::new(Instant::now()), is_own: true }
    }

    /// A lease that somebody else took and releases.
    pub(super) fn given(lease: Lease) -> Self {
        let lasts = lease.lasts;
        Self { is_own: false, ..Self::new(lease, lasts) }
    }

    /// Releases it, unless somebody else does.
    pub(super) async fn release(&self, store: &dyn ThreadStore) -> Result<(), ThreadError> {
        if self.is_own { store.release(&self.lease).await } else { Ok(()) }
    }

    fn renewed(&self) -> Instant {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `work`, and renews the lease meanwhile.
    pub(super) async fn keep_during<T>(
        &self,
        store: &dyn ThreadStore,
        work: impl Future<Output = T>,
    ) -> Result<T, AgentError> {
        tokio::pin!(work);
        let mut due = self.renewed() + self.lasts / RENEW_AFTER_ONE_IN;
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                // The work goes on meanwhile: it may hold what the store waits for.
                renewed = async {
                    tokio::time::sleep_until(due).await;
                    self.renew(store).await
                } => due = renewed?,
            }
        }
    }

    /// Renews the lease, and returns when it is due again. A failing store is an error only when the lease has ended.
    pub(super) async fn renew(&self, store: &dyn ThreadStore) -> Result<Instant, ThreadError> {
        let asked = Instant::now();
        match store.lease(&self.lease.thread, &self.lease.owner, self.lasts).await {
            Ok(lease) if lease.epoch == self.lease.epoch => {
                *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = asked;
                Ok(asked + self.lasts / RENEW_AFTER_ONE_IN)
            }
            Ok(another) => {
                // Another process had the thread meanwhile. This handle cannot use the new lease, so it releases it.
                let _ = store.release(&another).await;
                Err(ThreadError::LeaseLost(self.lease.thread.clone()))
            }
            Err(error @ ThreadError::Leased { .. }) => Err(error),
            Err(error) if self.renewed() + self.lasts <= Instant::now() => Err(error),
            Err(error) => {
                tracing::warn!(thread = %self.lease.thread, %error, "Could not renew the lease of the thread yet");
                Ok(Instant::now() + TRY_AGAIN.min(self.lasts / 10))
            }
        }
    }
}
