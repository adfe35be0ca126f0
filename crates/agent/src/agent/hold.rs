//! Keeps the lease of a thread while its agent works.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::AgentError;
use crate::thread::{Lease, ThreadError, ThreadStore};

/// How soon a renewal is tried again that failed.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// The lease of a thread, and when it was last renewed.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) lease: Lease,
    lasts: Duration,
    renewed: Mutex<Instant>,
}

impl Hold {
    /// A lease that was just taken.
    pub(super) fn new(lease: Lease, lasts: Duration) -> Self {
        Self { lease, lasts, renewed: Mutex::new(Instant::now()) }
    }

    fn renewed(&self) -> Instant {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something while the lease is kept.
    pub(super) async fn during<T>(
        &self,
        store: &dyn ThreadStore,
        work: impl Future<Output = T>,
    ) -> Result<T, AgentError> {
        tokio::pin!(work);
        let mut due = self.renewed() + self.lasts / 3;
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                // Beside the work, which may have what the store waits for.
                renewed = async {
                    tokio::time::sleep_until(due).await;
                    self.renew(store).await
                } => due = renewed?,
            }
        }
    }

    /// Renews the lease, and says when it is due again. A store that fails for a while costs nothing but the lease's
    /// own time.
    pub(super) async fn renew(&self, store: &dyn ThreadStore) -> Result<Instant, ThreadError> {
        let asked = Instant::now();
        match store.lease(&self.lease.thread, &self.lease.owner, self.lasts).await {
            Ok(lease) if lease.epoch == self.lease.epoch => {
                *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = asked;
                Ok(asked + self.lasts / 3)
            }
            Ok(another) => {
                // Another had the thread and gave it back. Nobody is to wait for a lease that is of no use here.
                let _ = store.release(&another).await;
                Err(ThreadError::LeaseLost(self.lease.thread.clone()))
            }
            Err(error @ ThreadError::Leased { .. }) => Err(error),
            Err(error) if self.renewed() + self.lasts <= Instant::now() => Err(error),
            Err(error) => {
                tracing::warn!(thread = %self.lease.thread, %error, "The lease could not be renewed yet");
                Ok(Instant::now() + TRY_AGAIN.min(self.lasts / 10))
            }
        }
    }
}
