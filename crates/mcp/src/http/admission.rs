//! What a connection is: a stranger's until it has shown the token, and then a client's.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::unauthenticated::UnauthenticatedConnection;

/// The admission of one connection.
pub(crate) struct Admission(Mutex<AdmissionState>);

enum AdmissionState {
    Unauthenticated(UnauthenticatedConnection),
    /// It has shown the token, and waits for a place among clients.
    Known,
    /// Held for its place among clients.
    Client(#[expect(dead_code, reason = "gives its place up when it goes")] OwnedSemaphorePermit),
}

impl Admission {
    pub(crate) fn of(stranger: UnauthenticatedConnection) -> Self {
        Self(Mutex::new(AdmissionState::Unauthenticated(stranger)))
    }

    /// AdmissionState cancelled when a stranger has to end, and never if it is none.
    pub(crate) fn leave(&self) -> CancellationToken {
        match &*self.lock() {
            AdmissionState::Unauthenticated(stranger) => stranger.leave(),
            AdmissionState::Known | AdmissionState::Client(_) => CancellationToken::new(),
        }
    }

    pub(crate) fn is_unauthenticated(&self) -> bool {
        matches!(*self.lock(), AdmissionState::Unauthenticated(_))
    }

    /// Makes it a client's, as soon as there is room among them. Whether there was in time.
    pub(crate) async fn admit(&self, room: &Arc<Semaphore>, patience: Duration) -> bool {
        {
            let mut is = self.lock();
            if matches!(*is, AdmissionState::Client(_)) {
                return true;
            }
            *is = AdmissionState::Known;
        }
        let place = tokio::time::timeout(patience, Arc::clone(room).acquire_owned()).await;
        let Ok(Ok(place)) = place else { return false };
        *self.lock() = AdmissionState::Client(place);
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, AdmissionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
