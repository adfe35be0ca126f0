//! Whose files a part works on.

use std::fmt::{self, Debug};
use std::sync::Arc;

use prowess_backend::Backend;

use crate::middleware::MiddlewareContext;

/// Whose files a part works on: one backend for all threads, or what a function of the moment gives.
///
/// ```
/// use std::sync::Arc;
///
/// use prowess_agent::backends::Backends;
/// use prowess_agent::middleware::Files;
/// use prowess_backend::{Backend, MemoryBackend};
///
/// let one: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
/// let guests: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
/// let shared = Files::new(one.clone());
/// let by_thread = Files::new(Backends::new(move |moment| {
///     if moment.thread.as_str().starts_with("guest-") { guests.clone() } else { one.clone() }
/// }));
/// ```
#[derive(Clone)]
pub struct Backends(Arc<Give>);

type Give = dyn Fn(MiddlewareContext<'_>) -> Arc<dyn Backend> + Send + Sync;

impl Backends {
    /// What a function gives. It is asked often, and must give the same one for the same thread.
    pub fn new(give: impl Fn(MiddlewareContext<'_>) -> Arc<dyn Backend> + Send + Sync + 'static) -> Self {
        Self(Arc::new(give))
    }

    /// The backend at a moment.
    pub fn at(&self, moment: MiddlewareContext<'_>) -> Arc<dyn Backend> {
        (self.0)(moment)
    }
}

impl From<Arc<dyn Backend>> for Backends {
    fn from(backend: Arc<dyn Backend>) -> Self {
        Self::new(move |_| Arc::clone(&backend))
    }
}

impl<B: Backend + 'static> From<Arc<B>> for Backends {
    fn from(backend: Arc<B>) -> Self {
        Self::from(backend as Arc<dyn Backend>)
    }
}

impl Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backends").finish_non_exhaustive()
    }
}
