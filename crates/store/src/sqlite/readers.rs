//! Read connections, which work beside the writer and each other.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::blocking;
use super::connection::{database_error, open_to_read};
use crate::error::DatabaseError;

/// How many reads run at the same time.
const READERS: usize = 4;

#[derive(Clone)]
pub(super) struct Readers(Arc<Inner>);

struct Inner {
    path: PathBuf,
    place: Arc<str>,
    turns: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl Readers {
    pub(super) fn new(path: PathBuf, place: Arc<str>) -> Self {
        let turns = Arc::new(Semaphore::new(READERS));
        Self(Arc::new(Inner { path, place, turns, idle: Mutex::default() }))
    }

    /// Runs a read that takes no longer than a look at a few rows. If a connection is idle, it runs on this thread: to pass it to
    /// another costs more than the read.
    pub(super) async fn read_briefly<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let turn = Arc::clone(&self.0.turns).try_acquire_owned();
        let idle = turn.ok().and_then(|turn| Some((self.0.idle().pop()?, turn)));
        match idle {
            Some((connection, _turn)) => self.0.read_with(connection, &mut work),
            None => self.read(work).await,
        }
    }

    /// Runs a read on its own connection, away from the runtime's threads.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let inner = Arc::clone(&self.0);
        let closed = |error| DatabaseError::failed(&self.0.place, "be read", error);
        let turn = Arc::clone(&inner.turns).acquire_owned().await.map_err(closed)?;
        blocking(Arc::clone(&inner.place), move || {
            let idle = inner.idle().pop();
            let connection = match idle {
                Some(connection) => connection,
                None => open_to_read(&inner.path, &inner.place)?,
            };
            let done = inner.read_with(connection, &mut work);
            drop(turn);
            done
        })
        .await
    }
}

impl Inner {
    fn read_with<T>(
        &self,
        connection: Connection,
        work: &mut impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, DatabaseError> {
        let done = work(&connection).map_err(|error| database_error(&self.place, error));
        // A failed connection is not used again.
        if done.is_ok() {
            self.idle().push(connection);
        }
        done
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
