//! Threads in PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use prowess_agent::thread::{Lease, StoredEvent, ThreadError, ThreadInfo};
use prowess_agent::{Event, ThreadId, ThreadStore};
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::rows::query;
use super::transaction::Query;
use crate::action::ThreadAction;
use crate::error::DatabaseError;
use crate::event::{EventRow, LogRow, NewEvents, limit, read, signed, timeless_version_and_checksum};
use crate::lease::{LeaseState, append_refusal, leased_by_other, micros};
use crate::list::{check_fork, fork_refusal, info};
use crate::retention::{Bound, PRUNED_AT_ONCE, Retention};
use crate::rows::{Cell, Row, Statement};
use crate::sql;

/// How often a lease is tried that was free at the check but taken by somebody else meanwhile.
const MAX_TRIES: usize = 10;

impl PostgresStore {
    /// Deletes threads that the retention does not keep and nobody has leased. Returns how many were deleted.
    ///
    /// # Errors
    ///
    /// The database failed. Some threads may be deleted already.
    pub async fn prune(&self, retention: Retention) -> Result<u64, ThreadError> {
        let done = async {
            let mut gone = 0;
            for (changed, id) in self.bounds(retention).await? {
                loop {
                    let values: [Cell; 3] = [changed.into(), (&*id).into(), PRUNED_AT_ONCE.into()];
                    let pruned = self.query(Statement::new(sql::PRUNE, values)).await?;
                    if pruned.is_empty() {
                        break;
                    }
                    gone += pruned.len() as u64;
                }
            }
            Ok(gone)
        };
        done.await.map_err(|error: DatabaseError| error.during(ThreadAction::Prune))
    }

    async fn bounds(&self, retention: Retention) -> Result<Vec<Bound>, DatabaseError> {
        let now = self.query(Statement::new(sql::NOW, [])).await?;
        let now = now.first().map(|row| row.number(0)).transpose()?.unwrap_or_default();
        let last_kept = match retention.before_last_kept() {
            Some(before) => {
                let rows = self.query(Statement::new(sql::LAST_KEPT, [before.into()])).await?;
                rows.first().map(|row| Ok((row.number(0)?, row.text(1)?))).transpose()?
            }
            None => None,
        };
        Ok(retention.bounds(now, last_kept).collect())
    }

    async fn state(&self, thread: &ThreadId) -> Result<Option<LeaseState>, DatabaseError> {
        let rows = self.query(Statement::new(sql::STATE, [thread.as_str().into()])).await?;
        let state = |row: &Row| {
            Ok(LeaseState {
                events: row.number(0)?,
                epoch: row.number(1)?,
                owner: row.maybe_bytes(2)?,
                lasts: row.number(3)? != 0,
            })
        };
        rows.first().map(state).transpose()
    }

    async fn try_append(
        &self,
        lease: &Lease,
        after: u64,
        events: &NewEvents,
    ) -> Result<Result<(), ThreadError>, DatabaseError> {
        if !events.bodies.is_empty() {
            let (thread, owner, epoch) = (lease.thread.as_str(), lease.owner.as_bytes(), signed(lease.epoch));
            let (count, lasts) = (signed(events.bodies.len() as u64), micros(lease.lasts));
            let (after, answered) = (signed(after), events.answered);
            let numbers: Vec<i64> = (after + 1..).take(events.bodies.len()).collect();
            let rows = numbers.iter().zip(&events.bodies);
            let (versions, checksums): (Vec<i64>, Vec<i64>) =
                rows.map(|(number, body)| timeless_version_and_checksum(*number, body)).unzip();
            let values = vec![
                (&thread as _, Type::TEXT),
                (&epoch as _, Type::INT8),
                (&owner as _, Type::BYTEA),
                (&after as _, Type::INT8),
                (&count as _, Type::INT8),
                (&lasts as _, Type::INT8),
                (&answered as _, Type::INT8),
                (&numbers as _, Type::INT8_ARRAY),
                (&versions as _, Type::INT8_ARRAY),
                (&checksums as _, Type::INT8_ARRAY),
                (&events.bodies as _, Type::BYTEA_ARRAY),
            ];
            let stored = self.run(&[Query { sql: sql::APPEND, values }]).await?;
            if stored.iter().any(|rows| !rows.is_empty()) {
                return Ok(Ok(()));
            }
        }
        let state = self.state(&lease.thread).await?;
        let refused = append_refusal(lease, after, state.as_ref());
        // Events and leases never come back, so the refusal still holds.
        let refused = refused
            .or_else(|| (!events.bodies.is_empty()).then(|| ThreadError::LeaseLost(lease.thread.clone())));
        Ok(refused.map_or(Ok(()), Err))
    }

    async fn try_fork(
        &self,
        from: &ThreadId,
        through: u64,
        to: &ThreadId,
    ) -> Result<Result<(), ThreadError>, DatabaseError> {
        let values: [Cell; 3] = [from.as_str().into(), to.as_str().into(), signed(through).into()];
        let fork = Statement::new(sql::FORK, values.clone());
        let (mut open, made) = self.begin(&[query(&fork)]).await?;
        if self.rows_of(made)?.is_empty() {
            open.roll_back().await?;
            let has = self.state(from).await?.map(|state| state.events);
            return Ok(Err(fork_refusal(from, through, to, has)));
        }
        let copy = Statement::new(sql::COPY_EVENTS, values);
        let copied = self.own_rows(open.run(&[query(&copy)]).await?.pop().unwrap_or_default())?;
        let copied = copied.first().map(|row| row.count(0)).transpose()?.unwrap_or_default();
        let whole = check_fork(from, through, copied);
        if whole.is_ok() {
            open.commit(&[]).await?;
            return Ok(whole);
        }
        open.roll_back().await?;
        // Somebody may have deleted it between the two statements.
        match self.state(from).await? {
            Some(state) if state.events >= signed(through) => Ok(whole),
            _ => Ok(Err(ThreadError::NotFound(from.clone()))),
        }
    }
}

fn log_row(row: &Row) -> Result<LogRow, DatabaseError> {
    let event = match row.maybe_number(1)? {
        None => None,
        Some(number) => Some(EventRow {
            number,
            stored: row.number(2)?,
            version: row.number(3)?,
            checksum: row.number(4)?,
            body: row.bytes(5)?,
        }),
    };
    Ok((row.number(0)?, event))
}

#[async_trait]
impl ThreadStore for PostgresStore {
    async fn lease(&self, thread: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError> {
        let failed = |error: DatabaseError| error.during(ThreadAction::Lease(thread));
        for _ in 0..MAX_TRIES {
            let values: [Cell; 3] = [thread.as_str().into(), owner.as_bytes().into(), micros(lasts).into()];
            let rows = self.query(Statement::new(sql::LEASE, values)).await;
            // Row-level security refuses a thread of somebody else.
            if matches!(rows, Err(DatabaseError::Denied { .. })) {
                return Err(ThreadError::NotFound(thread.clone()));
            }
            if let Some(row) = rows.map_err(failed)?.first() {
                let epoch = row.count(0).map_err(failed)?;
                return Ok(Lease::new(thread.clone(), owner, epoch, lasts));
            }
            // Somebody may have released it between the two statements.
            if let Some(refused) = leased_by_other(thread, self.state(thread).await.map_err(failed)?.as_ref())
            {
                return Err(refused);
            }
        }
        Err(ThreadError::Leased {
            thread: thread.clone(),
            owner: "several owners, one after another".to_owned(),
        })
    }

    async fn release(&self, lease: &Lease) -> Result<(), ThreadError> {
        let thread = &lease.thread;
        let values: [Cell; 3] =
            [thread.as_str().into(), signed(lease.epoch).into(), lease.owner.as_bytes().into()];
        let done = self.query(Statement::new(sql::RELEASE, values)).await;
        done.map(drop).map_err(|error| error.during(ThreadAction::Release(thread)))
    }

    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError> {
        let events = NewEvents::of(events)?;
        // Runs in its own task: a caller that stops waiting must not keep a connection from others.
        let (store, own) = (self.clone(), lease.clone());
        let done = tokio::spawn(async move { store.try_append(&own, after, &events).await }).await;
        let done = done.map_err(|error| ThreadError::Store {
            action: format!("storing events of the thread `{}`", lease.thread),
            source: Box::new(error),
        })?;
        done.map_err(|error| error.during(ThreadAction::Append(&lease.thread)))?
    }

    async fn events(
        &self,
        thread: &ThreadId,
        after: u64,
        most: usize,
    ) -> Result<Vec<StoredEvent>, ThreadError> {
        let failed = |error: DatabaseError| error.during(ThreadAction::Read(thread));
        let values: [Cell; 3] = [thread.as_str().into(), signed(after).into(), limit(most).into()];
        let rows = self.query(Statement::new(sql::EVENTS, values)).await.map_err(failed)?;
        let rows: Result<Vec<LogRow>, _> = rows.iter().map(log_row).collect();
        read(thread, after, most, rows.map_err(failed)?)
    }

    async fn list(&self, most: usize) -> Result<Vec<ThreadInfo>, ThreadError> {
        let failed = |error: DatabaseError| error.during(ThreadAction::List);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self.query(Statement::new(sql::LIST, [most.into()])).await.map_err(failed)?;
        let listed =
            |row: &Row| info(&self.0.place, (row.text(0)?, row.number(1)?, row.number(2)?, row.number(3)?));
        rows.iter().map(listed).collect::<Result<_, _>>().map_err(failed)
    }

    async fn fork(&self, from: &ThreadId, through: u64, to: &ThreadId) -> Result<(), ThreadError> {
        let done = self.try_fork(from, through, to).await;
        done.map_err(|error| error.during(ThreadAction::Fork(from)))?
    }

    async fn delete(&self, thread: &ThreadId) -> Result<(), ThreadError> {
        let failed = |error: DatabaseError| error.during(ThreadAction::Delete(thread));
        self.query(Statement::new(sql::DELETE, [thread.as_str().into()])).await.map_err(failed)?;
        // A thread that still exists is leased, or was created meanwhile.
        leased_by_other(thread, self.state(thread).await.map_err(failed)?.as_ref()).map_or(Ok(()), Err)
    }
}
