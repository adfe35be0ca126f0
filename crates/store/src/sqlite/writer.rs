//! The one who writes: a thread with a connection of its own.
//!
//! Whoever waits while it commits is in its next transaction, so that many writers share one flush of the disk.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::connection::explained;
use crate::error::DatabaseError;

/// How many are stored by one transaction at most.
const MAX_TOGETHER: usize = 256;

pub(super) struct Writer {
    /// Both are there until it is dropped.
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
        // Without a thread the channel is closed, and every call says so.
        Self { jobs: Some(sender), thread: started.ok(), place }
    }

    /// Does `work` in a transaction, and returns when it is on the disk. An `Err` inside undoes what it did. It is
    /// called again when it was done together with another's that failed.
    pub(super) async fn write<T: Send + 'static, E: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    ) -> Result<Result<T, E>, DatabaseError> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Pending { work, done: None, reply });
        let closed = || DatabaseError::failed(&self.place, "be written", "its writer has stopped");
        let jobs = self.jobs.as_ref().ok_or_else(closed)?;
        jobs.send(job).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, all who waited for it know.
            let _ = thread.join();
        }
    }
}

/// Something to be written, and somebody who waits for it.
trait Job: Send {
    /// Does it, and says whether it is to stay.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<bool>;
    /// Tells who waits what became of it.
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
        // Who no longer waits need not know.
        match (stored, self.done) {
            (Err(error), _) => drop(self.reply.send(Err(error))),
            (Ok(()), Some(done)) => drop(self.reply.send(Ok(done))),
            (Ok(()), None) => drop(self.reply),
        }
    }
}

fn write_all(mut connection: Connection, jobs: &Receiver<Box<dyn Job>>, place: &str) {
    while let Ok(first) = jobs.recv() {
        let mut together = vec![first];
        together.extend(jobs.try_iter().take(MAX_TOGETHER - 1));
        if together.len() > 1 && store_together(&mut connection, &mut together).is_ok() {
            together.into_iter().for_each(|job| job.finish(Ok(())));
            continue;
        }
        // One fails for itself and for nobody else.
        for mut job in together {
            let stored = store(&mut connection, &mut *job).map_err(|error| explained(place, error));
            job.finish(stored);
        }
    }
}

fn store(connection: &mut Connection, job: &mut dyn Job) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if job.run(&transaction)? { transaction.commit() } else { transaction.rollback() }
}

fn store_together(connection: &mut Connection, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for job in jobs {
        let savepoint = transaction.savepoint()?;
        // Without a commit it is undone when it is dropped.
        if job.run(&savepoint)? {
            savepoint.commit()?;
        }
    }
    transaction.commit()
}
