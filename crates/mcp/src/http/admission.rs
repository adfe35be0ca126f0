//! What a connection is: a stranger's until it has shown the token, and then a client's.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::unauthenticated::Stranger;

/// The standing of one connection.
pub(crate) struct Standing(Mutex<Is>);

enum Is {
    Stranger(Stranger),
    /// It has shown the token, and waits for a place among clients.
    Known,
    /// Held for its place among clients.
    Client(#[expect(dead_code, reason = "gives its place up when it goes")] OwnedSemaphorePermit),
}

impl Standing {
    pub(crate) fn of(stranger: Stranger) -> Self {
        Self(Mutex::new(Is::Stranger(stranger)))
    }

    /// Is cancelled when a stranger has to end, and never if it is none.
    pub(crate) fn leave(&self) -> CancellationToken {
        match &*self.lock() {
            Is::Stranger(stranger) => stranger.leave(),
            Is::Known | Is::Client(_) => CancellationToken::new(),
        }
    }

    pub(crate) fn is_stranger(&self) -> bool {
        matches!(*self.lock(), Is::Stranger(_))
    }

    /// Makes it a client's, as soon as there is room among them. Whether there was in time.
    pub(crate) async fn admit(&self, room: &Arc<Semaphore>, patience: Duration) -> bool {
        {
            let mut is = self.lock();
            if matches!(*is, Is::Client(_)) {
                return true;
            }
            *is = Is::Known;
        }
        let place = tokio::time::timeout(patience, Arc::clone(room).acquire_owned()).await;
        let Ok(Ok(place)) = place else { return false };
        *self.lock() = Is::Client(place);
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Is> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
