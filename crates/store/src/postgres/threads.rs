//! Threads in PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use prowess_agent::thread::{Lease, StoredEvent, ThreadError, ThreadInfo};
use prowess_agent::{Event, ThreadId, ThreadStore};
use tokio_postgres::{Error, Row};

use super::error::database_error;
use super::{PostgresStore, Value, prepared};
use crate::action::ThreadAction;
use crate::error::DatabaseError;
use crate::event::{EventRow, LogRow, bodies, limit, read, signed, unsigned, version_and_checksum};
use crate::lease::{LeaseState, append_refusal, leased_by_other, micros};
use crate::list::{check_fork, fork_refusal, info};
use crate::retention::{Bound, PRUNED_AT_ONCE, Retention};
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
            let client = self.client().await?;
            let failed = |error| database_error(&self.0.place, error);
            for (changed, id) in bounds(&client, retention).await.map_err(failed)? {
                let prune = prepared!(client, sql::PRUNE).map_err(failed)?;
                loop {
                    let pruned =
                        client.query(&prune, &[&changed, &id, &PRUNED_AT_ONCE]).await.map_err(failed)?;
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

    async fn state(&self, thread: &ThreadId) -> Result<Option<LeaseState>, DatabaseError> {
        let rows = self.rows(sql::STATE, &[&thread.as_str()]).await?;
        rows.first().map(state).transpose().map_err(|error| database_error(&self.0.place, error))
    }

    async fn try_append(
        &self,
        lease: &Lease,
        after: u64,
        bodies: &[Vec<u8>],
    ) -> Result<Result<(), ThreadError>, DatabaseError> {
        let failed = |error| database_error(&self.0.place, error);
        let (thread, owner, epoch) = (lease.thread.as_str(), lease.owner.as_bytes(), signed(lease.epoch));
        if bodies.is_empty() {
            let state = self.state(&lease.thread).await?;
            return Ok(append_refusal(lease, after, state.as_ref()).map_or(Ok(()), Err));
        }
        let mut client = self.client().await?;
        let transaction = self.begin(&mut client).await?;
        let extend = prepared!(transaction, sql::EXTEND).map_err(failed)?;
        let count = signed(bodies.len() as u64);
        let values: [Value<'_>; 6] = [&thread, &epoch, &owner, &signed(after), &count, &micros(lease.lasts)];
        let extended = transaction.query_opt(&extend, &values).await;
        let Some(extended) = extended.map_err(failed)? else {
            drop(transaction);
            drop(client);
            let state = self.state(&lease.thread).await?;
            // Events and leases never come back, so the refusal still holds.
            return Ok(Err(append_refusal(lease, after, state.as_ref())
                .unwrap_or_else(|| ThreadError::LeaseLost(lease.thread.clone()))));
        };
        let stored: i64 = extended.try_get(0).map_err(failed)?;
        let store = prepared!(transaction, sql::STORE_EVENT).map_err(failed)?;
        // All statements are sent before the first answer.
        let (transaction_ref, store_ref) = (&transaction, &store);
        let storing = bodies.iter().zip(signed(after) + 1..).map(|(body, number)| async move {
            let (version, checksum) = version_and_checksum(number, stored, body);
            let values: [Value<'_>; 6] = [&thread, &number, &stored, &version, &checksum, body];
            transaction_ref.execute(store_ref, &values).await
        });
        try_join_all(storing).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        Ok(Ok(()))
    }

    async fn try_fork(
        &self,
        from: &ThreadId,
        through: u64,
        to: &ThreadId,
    ) -> Result<Result<(), ThreadError>, DatabaseError> {
        let failed = |error| database_error(&self.0.place, error);
        let mut client = self.client().await?;
        let transaction = self.begin(&mut client).await?;
        let values: [Value<'_>; 3] = [&from.as_str(), &to.as_str(), &signed(through)];
        let fork = prepared!(transaction, sql::FORK).map_err(failed)?;
        if transaction.execute(&fork, &values).await.map_err(failed)? == 0 {
            drop(transaction);
            drop(client);
            let has = self.state(from).await?.map(|state| state.events);
            return Ok(Err(fork_refusal(from, through, to, has)));
        }
        let copy = prepared!(transaction, sql::COPY_EVENTS).map_err(failed)?;
        let copied = transaction.execute(&copy, &values).await.map_err(failed)?;
        let whole = check_fork(from, through, copied);
        if whole.is_ok() {
            transaction.commit().await.map_err(failed)?;
            return Ok(whole);
        }
        drop(transaction);
        drop(client);
        // Somebody may have deleted it between the two statements.
        match self.state(from).await? {
            Some(state) if state.events >= signed(through) => Ok(whole),
            _ => Ok(Err(ThreadError::NotFound(from.clone()))),
        }
    }
}

async fn bounds(client: &deadpool_postgres::Object, retention: Retention) -> Result<Vec<Bound>, Error> {
    let now = client.query_one(sql::NOW, &[]).await?.try_get(0)?;
    let last_kept = match retention.before_last_kept() {
        Some(before) => {
            let last = prepared!(client, sql::LAST_KEPT)?;
            client.query_opt(&last, &[&before]).await?
        }
        None => None,
    };
    let last_kept = last_kept.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose();
    Ok(retention.bounds(now, last_kept?).collect())
}

fn state(row: &Row) -> Result<LeaseState, Error> {
    Ok(LeaseState {
        events: row.try_get(0)?,
        epoch: row.try_get(1)?,
        owner: row.try_get(2)?,
        lasts: row.try_get(3)?,
    })
}

fn log_row(row: &Row) -> Result<LogRow, Error> {
    let event = match row.try_get::<_, Option<i64>>(1)? {
        None => None,
        Some(number) => Some(EventRow {
            number,
            stored: row.try_get(2)?,
            version: row.try_get(3)?,
            checksum: row.try_get(4)?,
            body: row.try_get(5)?,
        }),
    };
    Ok((row.try_get(0)?, event))
}

#[async_trait]
impl ThreadStore for PostgresStore {
    async fn lease(&self, thread: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError> {
        let failed = |error: DatabaseError| error.during(ThreadAction::Lease(thread));
        for _ in 0..MAX_TRIES {
            let rows = self.rows(sql::LEASE, &[&thread.as_str(), &owner.as_bytes(), &micros(lasts)]).await;
            // Row-level security refuses a thread of somebody else.
            if matches!(rows, Err(DatabaseError::Denied { .. })) {
                return Err(ThreadError::NotFound(thread.clone()));
            }
            if let Some(row) = rows.map_err(failed)?.first() {
                let epoch = row.try_get(0).map_err(|error| failed(database_error(&self.0.place, error)))?;
                let epoch = unsigned(&self.0.place, epoch).map_err(failed)?;
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
        let values: [Value<'_>; 3] = [&thread.as_str(), &signed(lease.epoch), &lease.owner.as_bytes()];
        let done = self.rows(sql::RELEASE, &values).await;
        done.map_err(|error| error.during(ThreadAction::Release(thread)))?;
        Ok(())
    }

    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError> {
        let bodies = bodies(events)?;
        // Runs in its own task: a caller that stops waiting must not keep a connection from others.
        let (store, own) = (self.clone(), lease.clone());
        let done = tokio::spawn(async move { store.try_append(&own, after, &bodies).await }).await;
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
        let rows = self.rows(sql::EVENTS, &[&thread.as_str(), &signed(after), &limit(most)]).await;
        let rows: Result<Vec<LogRow>, Error> = rows.map_err(failed)?.iter().map(log_row).collect();
        read(thread, after, most, rows.map_err(|error| failed(database_error(&self.0.place, error)))?)
    }

    async fn list(&self, most: usize) -> Result<Vec<ThreadInfo>, ThreadError> {
        let failed = |error: DatabaseError| error.during(ThreadAction::List);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self.rows(sql::LIST, &[&most]).await.map_err(failed)?;
        let listed = |row: &Row| {
            let row = (|| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)))();
            info(&self.0.place, row.map_err(|error| database_error(&self.0.place, error))?)
        };
        rows.iter().map(listed).collect::<Result<_, _>>().map_err(failed)
    }

    async fn fork(&self, from: &ThreadId, through: u64, to: &ThreadId) -> Result<(), ThreadError> {
        let done = self.try_fork(from, through, to).await;
        done.map_err(|error| error.during(ThreadAction::Fork(from)))?
    }

    async fn delete(&self, thread: &ThreadId) -> Result<(), ThreadError> {
        let failed = |error: DatabaseError| error.during(ThreadAction::Delete(thread));
        self.rows(sql::DELETE, &[&thread.as_str()]).await.map_err(failed)?;
        // A thread that still exists is leased, or was created meanwhile.
        leased_by_other(thread, self.state(thread).await.map_err(failed)?.as_ref()).map_or(Ok(()), Err)
    }
}
