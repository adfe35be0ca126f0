//! The threads that requests and workers look at. Each log is read once, and after that only its new events.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use prowess_agent::ThreadId;
use prowess_agent::thread::ThreadError;
use prowess_store::serve::OwnedThread;

use crate::agents::BoxError;
use crate::api::ApiError;
use crate::app::{App, lock};
use crate::view::Replay;

/// How many events one request to the store reads.
const PAGE: usize = 1000;
/// The most bytes of text in the threads that are kept, roughly.
const MAX_BYTES: usize = 128 << 20;
/// What a thread takes at least, in bytes.
const LEAST_BYTES: usize = 16 << 10;

/// The threads that were looked at last.
#[derive(Default)]
pub(crate) struct Replays {
    threads: Mutex<HashMap<ThreadId, Arc<KnownThread>>>,
    /// Grows with each look.
    looks: AtomicU64,
}

/// A thread that was looked at.
struct KnownThread {
    /// An AG-UI client can delete a thread and make another one with its id. The log then begins again.
    created: SystemTime,
    /// Whoever looks first reads the log; the others wait for it.
    replay: tokio::sync::Mutex<Option<Replay>>,
    bytes: AtomicUsize,
    looked: AtomicU64,
}

/// Why a log could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Thread(#[from] ThreadError),
    #[error(transparent)]
    Program(#[from] BoxError),
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Thread(error) => error.into(),
            ReadError::Program(error) => error.into(),
        }
    }
}

impl KnownThread {
    fn new(created: SystemTime, bytes: usize, looked: u64) -> Self {
        let (bytes, looked) = (AtomicUsize::new(bytes), AtomicU64::new(looked));
        Self { created, replay: tokio::sync::Mutex::default(), bytes, looked }
    }
}

impl Replays {
    fn of(&self, owned: &OwnedThread) -> Arc<KnownThread> {
        let now = self.looks.fetch_add(1, Ordering::Relaxed);
        let mut threads = lock(&self.threads);
        if let Some(known) = threads.get(&owned.id).filter(|known| known.created == owned.created) {
            known.looked.store(now, Ordering::Relaxed);
            return Arc::clone(known);
        }
        let known = Arc::new(KnownThread::new(owned.created, LEAST_BYTES, now));
        threads.insert(owned.id.clone(), Arc::clone(&known));
        known
    }

    /// Forgets the threads that nobody has looked at for longest, until the others fit.
    fn tidy(&self, most: usize) {
        let mut threads = lock(&self.threads);
        let bytes = |known: &Arc<KnownThread>| known.bytes.load(Ordering::Relaxed);
        let mut all: usize = threads.values().map(bytes).sum();
        while all > most && threads.len() > 1 {
            let last = threads.iter().min_by_key(|(_, known)| known.looked.load(Ordering::Relaxed));
            let Some((id, known)) = last else { return };
            all = all.saturating_sub(bytes(known));
            let id = id.clone();
            threads.remove(&id);
        }
    }

    /// Forgets a thread that was deleted.
    pub(crate) fn forget(&self, thread: &ThreadId) {
        lock(&self.threads).remove(thread);
    }
}

impl App {
    /// Looks at a thread as it is now.
    pub(crate) async fn look_at<T>(
        &self,
        owned: &OwnedThread,
        look: impl FnOnce(&Replay) -> T,
    ) -> Result<T, ReadError> {
        let known = self.replays.of(owned);
        let mut place = known.replay.lock().await;
        let mut replay = match place.take() {
            Some(replay) => replay,
            None => {
                let served = self.agents.thread(&owned.owner, &owned.id).await?;
                Replay::new(owned.id.as_str(), served.places)
            }
        };
        let log = self.log_of(&owned.owner);
        // If this fails or is dropped, the next one begins again.
        loop {
            // A thread without a message has no log yet.
            let page = match log.events(&owned.id, replay.last, PAGE).await {
                Err(ThreadError::NotFound(_)) if replay.last == 0 => Vec::new(),
                page => page?,
            };
            page.iter().for_each(|stored| drop(replay.read(stored)));
            if page.len() < PAGE {
                break;
            }
        }
        known.bytes.store(replay.bytes.max(LEAST_BYTES), Ordering::Relaxed);
        let seen = look(&replay);
        *place = Some(replay);
        drop(place);
        self.replays.tidy(MAX_BYTES);
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(replays: &Replays, bytes: usize) -> ThreadId {
        let (id, now) = (ThreadId::new(), replays.looks.fetch_add(1, Ordering::Relaxed));
        let known = KnownThread::new(SystemTime::UNIX_EPOCH, bytes, now);
        lock(&replays.threads).insert(id.clone(), Arc::new(known));
        id
    }

    #[test]
    fn the_thread_that_nobody_looked_at_for_longest_goes_first() {
        let replays = Replays::default();
        let (first, second, third) = (known(&replays, 40), known(&replays, 40), known(&replays, 40));
        lock(&replays.threads)[&first].looked.store(10, Ordering::Relaxed);
        replays.tidy(100);
        let left = |id: &ThreadId| lock(&replays.threads).contains_key(id);
        assert!(left(&first) && !left(&second) && left(&third));
        // The last one stays, however large it is.
        replays.tidy(1);
        assert_eq!(lock(&replays.threads).len(), 1);
        assert!(left(&first));
    }
}
