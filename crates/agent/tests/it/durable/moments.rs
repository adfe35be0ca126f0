//! Moments of a process at which something can happen to it: they are in what tests bring, a store, a model and tools.

use std::fmt::{self, Debug};
use std::future::pending;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use prowess_agent::model::ModelStream;
use prowess_agent::thread::{Lease, StoredEvent, ThreadError, ThreadInfo};
use prowess_agent::{Event, Model, ModelError, ModelRequest, ThreadId, ThreadStore};

use super::script::thread;

/// When something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum When {
    Never,
    /// At the moment of this number.
    At(u64),
    /// At the first moment of one of these names.
    In(Vec<String>),
}

/// What happens, once.
pub(super) enum What {
    /// It says so, and that moment never ends.
    Stop,
    /// It says so, and nothing at all goes on until its input ends.
    Freeze,
    /// Something else.
    Do(Box<dyn Fn() + Send + Sync>),
}

/// The moments of a process.
#[derive(Clone)]
pub(super) struct Moments(Arc<Plan>);

struct Plan {
    when: When,
    what: What,
    passed: AtomicU64,
    happened: AtomicBool,
}

impl Debug for Moments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Moments").field(&self.0.when).finish()
    }
}

impl Moments {
    pub(super) fn new(when: When, what: What) -> Self {
        Self(Arc::new(Plan { when, what, passed: AtomicU64::new(0), happened: AtomicBool::new(false) }))
    }

    pub(super) fn quiet() -> Self {
        Self::new(When::Never, What::Stop)
    }

    /// Goes by.
    pub(super) async fn pass(&self, name: &str) {
        let number = self.0.passed.fetch_add(1, Ordering::SeqCst);
        let is_now = match &self.0.when {
            When::Never => false,
            When::At(at) => *at == number,
            When::In(names) => names.iter().any(|named| named == name),
        };
        if !is_now || self.0.happened.swap(true, Ordering::SeqCst) {
            return;
        }
        match &self.0.what {
            What::Stop => {
                say(&format!("stopped {name}"));
                pending::<()>().await;
            }
            What::Freeze => {
                say(&format!("stopped {name}"));
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
            }
            What::Do(act) => act(),
        }
    }
}

/// Says a line to who started the process.
pub(super) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{line}").unwrap();
    out.flush().unwrap();
}

/// A store with moments before and after what it stores.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) store: Arc<dyn ThreadStore>,
    pub(super) moments: Moments,
}

#[async_trait]
impl ThreadStore for Stored {
    async fn lease(&self, thread: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError> {
        let lease = self.store.lease(thread, owner, lasts).await?;
        self.moments.pass("leased").await;
        Ok(lease)
    }

    async fn release(&self, lease: &Lease) -> Result<(), ThreadError> {
        self.moments.pass("release").await;
        self.store.release(lease).await
    }

    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError> {
        let name = |event| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned();
        let first: String = events.first().map(name).unwrap_or_default();
        let whose = if lease.thread == thread() { "run" } else { "task" };
        self.moments.pass(&format!("before {first} of {whose}")).await;
        self.store.append(lease, after, events).await?;
        self.moments.pass(&format!("after {first} of {whose}")).await;
        Ok(())
    }

    async fn events(
        &self,
        thread: &ThreadId,
        after: u64,
        most: usize,
    ) -> Result<Vec<StoredEvent>, ThreadError> {
        self.store.events(thread, after, most).await
    }

    async fn list(&self, most: usize) -> Result<Vec<ThreadInfo>, ThreadError> {
        self.store.list(most).await
    }

    async fn fork(&self, from: &ThreadId, through: u64, to: &ThreadId) -> Result<(), ThreadError> {
        self.store.fork(from, through, to).await
    }

    async fn delete(&self, thread: &ThreadId) -> Result<(), ThreadError> {
        self.store.delete(thread).await
    }
}

/// A model with a moment before it answers.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) model: Arc<dyn Model>,
    pub(super) moments: Moments,
}

#[async_trait]
impl Model for Asked {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        self.moments.pass("asked").await;
        self.model.call(request).await
    }
}
