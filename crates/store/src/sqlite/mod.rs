//! SQLite: a file, or memory.

#[cfg(feature = "approvals")]
mod approvals;
#[cfg(feature = "artifacts")]
mod artifacts;
mod check;
mod connection;
mod file;
mod glance;
mod log;
mod readers;
mod threads;
mod writer;

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use self::file::File;
pub use self::file::SetAside;
use self::readers::Readers;
use self::writer::Writer;
use crate::error::DatabaseError;

/// Threads, approvals and the index of artifacts in a file of SQLite, which several processes may use at once.
///
/// What is written is on the disk when the call returns. Writers that wait at the same time share one flush of
/// the disk. Leases go by the clock of this machine; when it jumps, a lease ends early or late, and its epoch still
/// keeps two writers apart.
///
/// Clones are handles to the same store. The file is closed with the last of them: to drop that one waits until all is
/// written, on the thread that does it. [`SqliteStore::close`] waits without holding up a runtime.
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

// Dropped in this order: the writer closes last and leaves one file, with all in it.
#[derive(Debug)]
struct Inner {
    readers: Option<Readers>,
    writer: Writer,
    place: Arc<str>,
    #[cfg_attr(not(feature = "approvals"), expect(dead_code, reason = "it holds the lock"))]
    file: Option<File>,
}

impl SqliteStore {
    /// Opens the database in a file, for the user alone. If there is no file, it is made, and its directory.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Damaged`], [`DatabaseError::Foreign`] or [`DatabaseError::Newer`] when the file is not what
    /// it should be, which leaves it untouched; or the system refused.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, DatabaseError> {
        let file = File::at(path.as_ref());
        blocking(Arc::clone(&file.place), move || {
            let (file, connection) = file.open()?;
            let readers = Some(Readers::new(file.path.clone(), Arc::clone(&file.place)));
            Ok(Self::with(connection, readers, Arc::clone(&file.place), Some(file)))
        })
        .await
    }

    /// A database in memory, gone with its last handle.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn in_memory() -> Result<Self, DatabaseError> {
        let place: Arc<str> = Arc::from("the database in memory");
        let connection = connection::in_memory(&place)?;
        Ok(Self::with(connection, None, place, None))
    }

    /// Moves a damaged database away, with its log, to a name beside it that nothing has. The next
    /// [`SqliteStore::open`] begins a new one.
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
    /// [`DatabaseError::InUse`] while somebody has it open, or the system refused.
    pub async fn set_aside(path: impl AsRef<Path>) -> Result<SetAside, DatabaseError> {
        let file = File::at(path.as_ref());
        blocking(Arc::clone(&file.place), move || file.set_aside()).await
    }

    /// Gives this handle back. With the last one it returns when the file is closed, and no thread of the runtime waits
    /// for the disk.
    ///
    /// # Errors
    ///
    /// The runtime ends.
    pub async fn close(self) -> Result<(), DatabaseError> {
        blocking(Arc::clone(&self.0.place), move || {
            drop(self);
            Ok(())
        })
        .await
    }

    fn with(connection: Connection, readers: Option<Readers>, place: Arc<str>, file: Option<File>) -> Self {
        let writer = Writer::start(connection, Arc::clone(&place));
        Self(Arc::new(Inner { readers, writer, place, file }))
    }

    /// Changes something, all or nothing, and returns when it is on the disk. An `Err` inside undoes what was done.
    async fn write<T: Send + 'static, E: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    ) -> Result<Result<T, E>, DatabaseError> {
        self.0.writer.write(work).await
    }

    /// Reads something, with what is written by then.
    async fn read<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        match &self.0.readers {
            Some(readers) => readers.read(work).await,
            // Another connection would have another memory.
            None => {
                let done = self.write(move |connection| work(connection).map(Ok::<T, ()>)).await?;
                done.map_err(|()| DatabaseError::failed(&self.0.place, "read", "nothing was read"))
            }
        }
    }
}

/// Files and locks wait; the runtime's own threads must not.
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
