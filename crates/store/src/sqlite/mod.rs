//! The SQLite store: a file, or memory.

#[cfg(feature = "approvals")]
mod approvals;
#[cfg(feature = "artifacts")]
mod artifacts;
mod check;
mod connection;
mod file;
mod migrate;
mod queue;
mod read_only_list;
mod readers;
mod rows;
mod threads;
mod wal;
mod writer;

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use self::file::DatabaseFile;
pub use self::file::SetAside;
use self::readers::Readers;
use self::writer::Writer;
use crate::error::DatabaseError;
use crate::queue::DeadLetters;

/// Threads, approvals and the index of artifacts in a SQLite file, which several processes can use.
///
/// When a call returns, its data is on the disk. Writers that wait at the same time share one flush. Leases use the clock
/// of this machine. If the clock jumps, a lease may end early or late, but its epoch still separates two writers.
///
/// Clones share the same store. Dropping the last clone closes the file and blocks until everything is written.
/// [`SqliteStore::close`] waits without blocking the runtime.
///
/// ```
/// use std::time::Duration;
/// use prowess_agent::thread::ThreadError;
/// use prowess_agent::{ThreadId, ThreadStore as _};
/// use prowess_store::SqliteStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = SqliteStore::in_memory()?;
/// let (id, minute) = (ThreadId::new(), Duration::from_secs(60));
/// let lease = store.lease(&id, "one process", minute).await?;
/// let refused = store.lease(&id, "another", minute).await;
/// assert!(matches!(refused, Err(ThreadError::Leased { .. })));
/// store.release(&lease).await?;
/// assert!(store.lease(&id, "another", minute).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteStore(Arc<Inner>);

// Dropped in this order: the writer closes last, so that one file has all data.
#[derive(Debug)]
struct Inner {
    readers: Option<Readers>,
    writer: Writer,
    place: Arc<str>,
    /// It also holds the lock.
    file: Option<DatabaseFile>,
    dead_letters: DeadLetters,
}

impl SqliteStore {
    /// The name of the database in messages.
    pub(crate) fn place(&self) -> &str {
        &self.0.place
    }

    pub(crate) fn dead_letters(&self) -> &DeadLetters {
        &self.0.dead_letters
    }

    /// Opens the database in a file that only this user can read. A missing file is created, with its directory.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Damaged`], [`DatabaseError::Foreign`] or [`DatabaseError::Newer`], which leave the file unchanged; or
    /// a system error.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, DatabaseError> {
        let file = DatabaseFile::at(path.as_ref());
        blocking(Arc::clone(&file.place), move || {
            let (file, connection) = file.open()?;
            let readers = Some(Readers::new(file.path.clone(), Arc::clone(&file.place)));
            Ok(Self::with(connection, readers, Arc::clone(&file.place), Some(file)))
        })
        .await
    }

    /// Opens a database in memory. It ends with its last handle.
    ///
    /// # Errors
    ///
    /// There is not enough memory.
    pub fn in_memory() -> Result<Self, DatabaseError> {
        let place: Arc<str> = Arc::from("the database in memory");
        let connection = connection::in_memory(&place)?;
        Ok(Self::with(connection, None, place, None))
    }

    /// Moves a damaged database and its log to a new name beside it. The next [`SqliteStore::open`] starts a new one.
    ///
    /// ```
    /// use prowess_store::{DatabaseError, SqliteStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("threads.db");
    /// drop(SqliteStore::open(&path).await?);
    /// std::fs::write(&path, "SQLite format 3\0 and then nonsense")?;
    /// assert!(matches!(SqliteStore::open(&path).await, Err(DatabaseError::Damaged { .. })));
    ///
    /// let aside = SqliteStore::set_aside(&path).await?;
    /// assert!(aside.to.exists());
    /// assert!(SqliteStore::open(&path).await.is_ok(), "a new one");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`DatabaseError::InUse`] if it is open, or a system error.
    pub async fn set_aside(path: impl AsRef<Path>) -> Result<SetAside, DatabaseError> {
        let file = DatabaseFile::at(path.as_ref());
        blocking(Arc::clone(&file.place), move || file.set_aside()).await
    }

    /// Closes this handle. For the last one, it waits until the file is closed, without blocking the runtime.
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    pub async fn close(self) -> Result<(), DatabaseError> {
        blocking(Arc::clone(&self.0.place), move || {
            drop(self);
            Ok(())
        })
        .await
    }

    /// Checks that the file is still the one that was opened.
    pub(crate) async fn check_in_place(&self) -> Result<(), DatabaseError> {
        let store = self.clone();
        blocking(Arc::clone(&self.0.place), move || {
            store.0.file.as_ref().map_or(Ok(()), DatabaseFile::check_in_place)
        })
        .await
    }

    fn with(
        connection: Connection,
        readers: Option<Readers>,
        place: Arc<str>,
        file: Option<DatabaseFile>,
    ) -> Self {
        let writer = Writer::start(connection, Arc::clone(&place));
        Self(Arc::new(Inner { readers, writer, place, file, dead_letters: DeadLetters::default() }))
    }

    /// Runs a transaction, and returns when it is on the disk. An inner `Err` rolls it back.
    async fn write<T: Send + 'static, E: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    ) -> Result<Result<T, E>, DatabaseError> {
        self.0.writer.write(work).await
    }

    /// Runs a read.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        match &self.0.readers {
            Some(readers) => readers.read(work).await,
            None => self.read_in_memory(work).await,
        }
    }

    /// Runs a read that takes no longer than a look at a few rows.
    async fn read_briefly<T: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        match &self.0.readers {
            Some(readers) => readers.read_briefly(work).await,
            None => self.read_in_memory(work).await,
        }
    }

    /// Runs a read with the writer's connection: a second one would be another database.
    async fn read_in_memory<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let done = self.write(move |connection| work(connection).map(Ok::<T, ()>)).await?;
        done.map_err(|()| DatabaseError::failed(&self.0.place, "read", "nothing was read"))
    }
}

/// Runs blocking work away from the runtime's threads.
async fn blocking<T: Send + 'static>(
    place: Arc<str>,
    work: impl FnOnce() -> Result<T, DatabaseError> + Send + 'static,
) -> Result<T, DatabaseError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => Err(DatabaseError::failed(&place, "be worked on", stopped)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn closing_holds_up_nobody() {
        let store = SqliteStore::in_memory().unwrap();
        let (others_go_on, waiting) = channel();
        let (report, reported) = channel();
        let slow = move |_: &Connection| {
            let went_on = waiting.recv_timeout(Duration::from_secs(20)).is_ok();
            report.send(went_on).unwrap();
            Ok(Ok::<(), ()>(()))
        };
        tokio::select! {
            biased;
            _ = store.write(slow) => panic!("it waits"),
            () = async {} => {}
        }
        let (closed, sent) = tokio::join!(store.close(), async { others_go_on.send(()) });
        closed.unwrap();
        sent.unwrap();
        assert!(reported.try_recv().unwrap(), "all is done once it is closed, and others went on meanwhile");
    }
}
