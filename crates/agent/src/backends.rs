//! The files that a middleware works on.

use std::fmt::{self, Debug};
use std::sync::Arc;

use prowess_backend::Backend;

use crate::middleware::contract::MiddlewareContext;

/// The files that a middleware works on: one backend for all threads, or one that a function chooses.
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
/// let by_thread = Files::new(Backends::new(move |context| {
///     if context.thread.as_str().starts_with("guest-") { guests.clone() } else { one.clone() }
/// }));
/// ```
#[derive(Clone)]
pub struct Backends(Arc<Choose>);

type Choose = dyn Fn(MiddlewareContext<'_>) -> Arc<dyn Backend> + Send + Sync;

impl Backends {
    /// A backend that a function chooses. It is called often, and must return the same backend for the same thread.
    pub fn new(choose: impl Fn(MiddlewareContext<'_>) -> Arc<dyn Backend> + Send + Sync + 'static) -> Self {
        Self(Arc::new(choose))
    }

    /// The backend for a context.
    pub fn at(&self, context: MiddlewareContext<'_>) -> Arc<dyn Backend> {
        (self.0)(context)
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
