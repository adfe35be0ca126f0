//! Queues for changes of the same file, within this process and with others.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

use crate::VirtualPath;

/// How often a change is tried while others change the same file.
pub(crate) const MAX_ATTEMPTS: u32 = 24;

/// Roughly how many different files can be changed at once.
const QUEUES: usize = 32;

/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// Queues for changes of files, first come, first served. Without them, many writers in one process would use up their
/// attempts against each other. Files that share a queue only wait longer.
#[derive(Debug)]
pub(crate) struct ChangeQueues {
    queues: [Mutex<()>; QUEUES],
    hasher: RandomState,
}

impl ChangeQueues {
    pub(crate) fn new() -> Self {
        Self { queues: std::array::from_fn(|_| Mutex::new(())), hasher: RandomState::new() }
    }

    /// Waits until `path` can be changed. The turn ends when the guard is dropped.
    pub(crate) async fn wait(&self, path: &VirtualPath) -> MutexGuard<'_, ()> {
        let hash = self.hasher.hash_one(path.as_str());
        let [low, ..] = hash.to_le_bytes();
        self.queues[usize::from(low) % QUEUES].lock().await
    }

    /// Pauses before the next attempt: longer each time, with a random part.
    pub(crate) async fn pause(&self, attempt: u32) {
        let ceiling = Duration::from_millis(1 << attempt.min(8)).min(MAX_PAUSE);
        let [noise, ..] = self.hasher.hash_one((attempt, std::time::Instant::now())).to_le_bytes();
        tokio::time::sleep(ceiling.mul_f64(0.5 + f64::from(noise) / 512.0)).await;
    }
}
