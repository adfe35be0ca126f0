//! Admits a connection: it is unauthenticated until it sends the token, then it gets a place among the clients.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::unauthenticated::UnauthenticatedConnection;

/// Whether one connection is admitted.
pub(crate) struct Admission(Mutex<AdmissionState>);

enum AdmissionState {
    Unauthenticated(UnauthenticatedConnection),
    /// The client sent the token, and waits for a place.
    WaitingForPlace,
    /// The client has a place, and holds it.
    Client(#[expect(dead_code, reason = "frees the place when it is dropped")] OwnedSemaphorePermit),
}

impl Admission {
    pub(crate) fn of(connection: UnauthenticatedConnection) -> Self {
        Self(Mutex::new(AdmissionState::Unauthenticated(connection)))
    }

    /// Is cancelled when the connection has to end because it is unauthenticated.
    pub(crate) fn leave(&self) -> CancellationToken {
        match &*self.lock() {
            AdmissionState::Unauthenticated(connection) => connection.leave(),
            AdmissionState::WaitingForPlace | AdmissionState::Client(_) => CancellationToken::new(),
        }
    }

    pub(crate) fn is_unauthenticated(&self) -> bool {
        matches!(*self.lock(), AdmissionState::Unauthenticated(_))
    }

    /// Waits for a place among the clients, and says whether there was one in time.
    pub(crate) async fn admit(&self, room: &Arc<Semaphore>, patience: Duration) -> bool {
        {
            let mut is = self.lock();
            if matches!(*is, AdmissionState::Client(_)) {
                return true;
            }
            *is = AdmissionState::WaitingForPlace;
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
