//! The writer: a thread with its own connection.
//!
//! Callers that wait during a commit share the next transaction, and so one flush of the disk.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::connection::{BUSY, database_error};
use crate::error::DatabaseError;

/// How many jobs share one transaction.
const MAX_TOGETHER: usize = 256;
/// How long emptying the log waits for readers.
const BRIEFLY: Duration = Duration::from_millis(500);

pub(super) struct Writer {
    /// Both exist until the drop.
    jobs: Option<Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    place: Arc<str>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    pub(super) fn start(connection: Connection, place: Arc<str>) -> Self {
        let (sender, jobs) = channel();
        let named = Arc::clone(&place);
        let started = std::thread::Builder::new()
            .name("prowess-store".to_owned())
            .spawn(move || write_all(connection, &jobs, &named));
        // Without a thread the channel is closed, and every call fails.
        Self { jobs: Some(sender), thread: started.ok(), place }
    }

    /// Runs `work` in a transaction, and returns when it is on the disk. An inner `Err` rolls it back. `work` is called again
    /// if another job in the same transaction failed.
    pub(super) async fn write<T: Send + 'static, E: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    ) -> Result<Result<T, E>, DatabaseError> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Pending { work, done: None, reply });
        let closed = || DatabaseError::failed(&self.place, "be written", "the writer has stopped");
        let jobs = self.jobs.as_ref().ok_or_else(closed)?;
        jobs.send(job).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

/// Waits until everything is written; see [`super::SqliteStore::close`].
impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, its callers got errors.
            let _ = thread.join();
        }
    }
}

/// A write that a caller waits for.
trait Job: Send {
    /// Runs the write. Returns whether to commit it.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<bool>;
    /// Sends the result to the caller.
    fn finish(self: Box<Self>, stored: Result<(), DatabaseError>);
}

struct Pending<W, T, E> {
    work: W,
    done: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<Result<T, E>, DatabaseError>>,
}

impl<W, T: Send, E: Send> Job for Pending<W, T, E>
where
    W: FnMut(&Connection) -> rusqlite::Result<Result<T, E>> + Send,
{
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let done = (self.work)(connection)?;
        let stays = done.is_ok();
        self.done = Some(done);
        Ok(stays)
    }

    fn finish(self: Box<Self>, stored: Result<(), DatabaseError>) {
        // The caller may have stopped waiting.
        match (stored, self.done) {
            (Err(error), _) => drop(self.reply.send(Err(error))),
            (Ok(()), Some(done)) => drop(self.reply.send(Ok(done))),
            (Ok(()), None) => drop(self.reply),
        }
    }
}

fn write_all(connection: Connection, jobs: &Receiver<Box<dyn Job>>, place: &str) {
    let mut database = WriteConnection { connection, place, has_failed_commit: false };
    while let Ok(first) = jobs.recv() {
        let mut together = vec![first];
        together.extend(jobs.try_iter().take(MAX_TOGETHER - 1));
        if together.len() > 1 {
            let stored = match database.store_together(&mut together) {
                Ok(BatchResult::Stored) => Some(Ok(())),
                Ok(BatchResult::OneFailed) => None,
                // Each job alone would get the same error, and wait for it.
                Err(error) => Some(Err(error)),
            };
            if let Some(stored) = stored {
                together.into_iter().for_each(|job| job.finish(stored.clone()));
                continue;
            }
        }
        // Run each job alone, so that a failure affects only that job.
        for mut job in together {
            let stored = database.store(&mut *job);
            job.finish(stored);
        }
    }
}

/// The result of a shared transaction.
enum BatchResult {
    Stored,
    /// One job failed, and nothing was stored.
    OneFailed,
}

/// The connection of the writer.
struct WriteConnection<'a> {
    connection: Connection,
    place: &'a str,
    /// Whether the log may end with the data of a failed commit.
    has_failed_commit: bool,
}

impl WriteConnection<'_> {
    fn store(&mut self, job: &mut dyn Job) -> Result<(), DatabaseError> {
        self.attempt(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if job.run(&transaction)? { transaction.commit() } else { transaction.rollback() }
        })
    }

    fn store_together(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<BatchResult, DatabaseError> {
        self.attempt(|connection| {
            let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for job in jobs {
                let savepoint = transaction.savepoint()?;
                match job.run(&savepoint) {
                    Ok(true) => savepoint.commit()?,
                    // Without a commit, the drop rolls it back.
                    Ok(false) => {}
                    Err(_) => return Ok(BatchResult::OneFailed),
                }
            }
            transaction.commit().map(|()| BatchResult::Stored)
        })
    }

    fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, DatabaseError> {
        self.empty_log();
        work(&mut self.connection).map_err(|error| {
            let error = database_error(self.place, error);
            // A busy database has written nothing.
            self.has_failed_commit |= !matches!(error, DatabaseError::Busy { .. });
            error
        })
    }

    /// Empties the log after a failed commit. A shorter commit over it would leave its end, which looks like damage after a
    /// kill, or like stored data. While others read, the log stays, and the next write tries again.
    fn empty_log(&mut self) {
        if !self.has_failed_commit {
            return;
        }
        let emptied = self.connection.busy_timeout(BRIEFLY).and_then(|()| {
            let is_busy = "PRAGMA wal_checkpoint(TRUNCATE)";
            self.connection.query_row(is_busy, [], |row| row.get::<_, i64>(0))
        });
        let waits = self.connection.busy_timeout(BUSY);
        self.has_failed_commit = emptied != Ok(0) || waits.is_err();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::sqlite::connection::{begin, open};

    type Answer = oneshot::Receiver<Result<Result<(), ()>, DatabaseError>>;

    fn job(work: impl FnMut(&Connection) -> rusqlite::Result<()> + Send + 'static) -> (Box<dyn Job>, Answer) {
        let (reply, answer) = oneshot::channel();
        let mut work = work;
        let work = move |connection: &Connection| work(connection).map(Ok::<(), ()>);
        (Box::new(Pending { work, done: None, reply }), answer)
    }

    /// The results of jobs that wait together.
    fn answers(connection: Connection, jobs: Vec<(Box<dyn Job>, Answer)>) -> Vec<Result<(), DatabaseError>> {
        let (sender, waiting) = channel();
        let mut answers = Vec::new();
        for (job, answer) in jobs {
            sender.send(job).unwrap();
            answers.push(answer);
        }
        drop(sender);
        write_all(connection, &waiting, "x");
        answers.into_iter().map(|mut answer| answer.try_recv().unwrap().map(Result::unwrap)).collect()
    }

    fn database() -> (tempfile::TempDir, std::path::PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.db");
        std::fs::write(&path, "").unwrap();
        begin(&path, "x").unwrap();
        (place, path)
    }

    fn insert(connection: &Connection, id: &str) -> rusqlite::Result<()> {
        let insert = "INSERT INTO prowess_threads VALUES (?1, 0, 0, 0, 0, NULL, 0, 0, 0)";
        connection.execute(insert, [id]).map(drop)
    }

    /// Adds an event without a thread, which only the commit notices.
    fn spoil_the_commit(connection: &Connection) -> rusqlite::Result<()> {
        connection.pragma_update(None, "defer_foreign_keys", true)?;
        connection.execute("INSERT INTO prowess_events VALUES ('none', 1, 0, 0, 0, x'')", []).map(drop)
    }

    #[test]
    fn a_lock_is_waited_for_once_by_all_who_wait_together() {
        static WAITED: AtomicUsize = AtomicUsize::new(0);
        let (_place, path) = database();
        let holder = open(&path, "x").unwrap();
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut connection = open(&path, "x").unwrap();
        let waits_no_longer = |_| {
            WAITED.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.busy_handler(Some(waits_no_longer)).unwrap();
        let jobs = (0..8).map(|number| job(move |connection| insert(connection, &number.to_string())));
        for answer in answers(connection, jobs.collect()) {
            assert!(matches!(answer, Err(DatabaseError::Busy { .. })), "{answer:?}");
        }
        assert_eq!(WAITED.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn one_that_fails_fails_for_itself() {
        let (_place, path) = database();
        let wrong = |connection: &Connection| connection.execute("no words of SQL", []).map(drop);
        let jobs = vec![
            job(|connection| insert(connection, "a")),
            job(wrong),
            job(|connection| insert(connection, "b")),
        ];
        let answers = answers(open(&path, "x").unwrap(), jobs);
        assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        let stored = "SELECT COUNT(*) FROM prowess_threads";
        let stored: i64 = open(&path, "x").unwrap().query_row(stored, [], |row| row.get(0)).unwrap();
        assert_eq!(stored, 2);
    }

    #[test]
    fn nothing_of_a_failed_commit_stays_in_the_log() {
        let (_place, path) = database();
        let reader = open(&path, "x").unwrap();
        let connection = open(&path, "x").unwrap();
        let length = || std::fs::metadata(path.with_file_name("a.db-wal")).unwrap().len();
        let mut database = WriteConnection { connection, place: "x", has_failed_commit: false };
        for number in 0..20 {
            database.store(&mut *job(move |connection| insert(connection, &number.to_string())).0).unwrap();
        }
        let long = length();
        let failed = database.store(&mut *job(spoil_the_commit).0).unwrap_err();
        assert!(matches!(failed, DatabaseError::Damaged { .. }), "{failed}");
        database.store(&mut *job(|connection| insert(connection, "after")).0).unwrap();
        assert!(length() < long, "{} of {long}", length());
        drop(reader);
    }
}
