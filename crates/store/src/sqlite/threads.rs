//! Threads in SQLite.

use std::time::Duration;

use async_trait::async_trait;
use prowess_agent::thread::{Lease, StoredEvent, ThreadError, ThreadInfo};
use prowess_agent::{Event, ThreadId, ThreadStore};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::SqliteStore;
use crate::action::ThreadAction;
use crate::error::DatabaseError;
use crate::event::{EventRow, LogRow, NewEvents, limit, read, signed, unsigned, version_and_checksum};
use crate::lease::{LeaseState, append_refusal, leased_by_other, micros};
use crate::list::{check_fork, fork_refusal, info};
use crate::retention::{Bound, PRUNED_AT_ONCE, Retention};
use crate::sql;

/// How many events are read briefly.
const FEW: usize = 32;

impl SqliteStore {
    /// Deletes threads that the retention does not keep and nobody has leased. Returns how many were deleted.
    ///
    /// Their space is used again, but the file does not get smaller.
    ///
    /// # Errors
    ///
    /// The database failed. Some threads may be deleted already.
    pub async fn prune(&self, retention: Retention) -> Result<u64, ThreadError> {
        let failed = |error: DatabaseError| error.during(ThreadAction::Prune);
        let bounds = self.read(move |connection| bounds(connection, retention)).await.map_err(failed)?;
        let mut gone = 0;
        for (changed, id) in bounds {
            loop {
                let id = id.clone();
                let done = self.write(move |connection| {
                    let mut statement = connection.prepare_cached(sql::PRUNE)?;
                    statement.execute(params![changed, id, PRUNED_AT_ONCE]).map(Ok::<usize, ThreadError>)
                });
                match done.await.map_err(failed)?? {
                    0 => break,
                    some => gone += some as u64,
                }
            }
        }
        Ok(gone)
    }

    /// Lists at most `most` threads that did not change for this long, oldest change first.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn unchanged_for(&self, age: Duration, most: usize) -> Result<Vec<ThreadInfo>, ThreadError> {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        self.listed(sql::LIST_OLD, vec![age, i64::try_from(most).unwrap_or(i64::MAX)]).await
    }

    async fn listed(&self, list: &'static str, values: Vec<i64>) -> Result<Vec<ThreadInfo>, ThreadError> {
        let rows = self.read(move |connection| {
            let mut statement = connection.prepare_cached(list)?;
            let rows = statement.query_map(rusqlite::params_from_iter(&values), |row| {
                Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        let failed = |error: DatabaseError| error.during(ThreadAction::List);
        let rows = rows.await.map_err(failed)?;
        let infos = rows.into_iter().map(|row| info(&self.0.place, row));
        infos.collect::<Result<_, _>>().map_err(failed)
    }
}

fn bounds(connection: &Connection, retention: Retention) -> rusqlite::Result<Vec<Bound>> {
    let now = connection.query_row(sql::NOW, [], |row| row.get(0))?;
    let last_kept = match retention.before_last_kept() {
        Some(before) => {
            let mut statement = connection.prepare_cached(sql::LAST_KEPT)?;
            statement.query_row([before], |row| Ok((row.get(0)?, row.get(1)?))).optional()?
        }
        None => None,
    };
    Ok(retention.bounds(now, last_kept).collect())
}

fn state(connection: &Connection, thread: &ThreadId) -> rusqlite::Result<Option<LeaseState>> {
    let mut statement = connection.prepare_cached(sql::STATE)?;
    let state = |row: &Row<'_>| {
        Ok(LeaseState { events: row.get(0)?, epoch: row.get(1)?, owner: row.get(2)?, lasts: row.get(3)? })
    };
    statement.query_row([thread.as_str()], state).optional()
}

fn append(
    connection: &Connection,
    lease: &Lease,
    after: u64,
    NewEvents { bodies, answered }: &NewEvents,
) -> rusqlite::Result<Result<(), ThreadError>> {
    let (thread, owner) = (lease.thread.as_str(), lease.owner.as_bytes());
    let extended = if bodies.is_empty() {
        None
    } else {
        let mut statement = connection.prepare_cached(sql::EXTEND)?;
        let count = signed(bodies.len() as u64);
        let lasts = micros(lease.lasts);
        let values = params![thread, signed(lease.epoch), owner, signed(after), count, lasts, answered];
        statement.query_row(values, |row| row.get::<_, i64>(0)).optional()?
    };
    let Some(stored) = extended else {
        let state = state(connection, &lease.thread)?;
        return Ok(append_refusal(lease, after, state.as_ref()).map_or(Ok(()), Err));
    };
    let mut statement = connection.prepare_cached(sql::STORE_EVENT)?;
    for (body, number) in bodies.iter().zip(signed(after) + 1..) {
        let (version, checksum) = version_and_checksum(number, stored, body);
        statement.execute(params![thread, number, stored, version, checksum, body])?;
    }
    Ok(Ok(()))
}

fn log_row(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    let event = match row.get::<_, Option<i64>>(1)? {
        None => None,
        Some(number) => Some(EventRow {
            number,
            stored: row.get(2)?,
            version: row.get(3)?,
            checksum: row.get(4)?,
            body: row.get(5)?,
        }),
    };
    Ok((row.get(0)?, event))
}

#[async_trait]
impl ThreadStore for SqliteStore {
    async fn lease(&self, thread: &ThreadId, owner: &str, lasts: Duration) -> Result<Lease, ThreadError> {
        let (id, name) = (thread.clone(), owner.to_owned());
        let done = self.write(move |connection| {
            let mut statement = connection.prepare_cached(sql::LEASE)?;
            let values = params![id.as_str(), name.as_bytes(), micros(lasts)];
            match statement.query_row(values, |row| row.get::<_, i64>(0)).optional()? {
                Some(epoch) => Ok(Ok(epoch)),
                None => Ok(Err(state(connection, &id)?)),
            }
        });
        let failed = |error: DatabaseError| error.during(ThreadAction::Lease(thread));
        match done.await.map_err(failed)? {
            Ok(epoch) => {
                let epoch = unsigned(&self.0.place, epoch).map_err(failed)?;
                Ok(Lease::new(thread.clone(), owner, epoch, lasts))
            }
            // The lease may have expired in between; then the next try succeeds.
            Err(state) => {
                Err(leased_by_other(thread, state.as_ref()).unwrap_or_else(|| ThreadError::Leased {
                    thread: thread.clone(),
                    owner: "another owner, until just now".to_owned(),
                }))
            }
        }
    }

    async fn release(&self, lease: &Lease) -> Result<(), ThreadError> {
        let given = lease.clone();
        let done = self.write(move |connection| {
            let mut statement = connection.prepare_cached(sql::RELEASE)?;
            statement.execute(params![given.thread.as_str(), signed(given.epoch), given.owner.as_bytes()])?;
            Ok(Ok(()))
        });
        done.await.map_err(|error| error.during(ThreadAction::Release(&lease.thread)))?
    }

    async fn append(&self, lease: &Lease, after: u64, events: &[Event]) -> Result<(), ThreadError> {
        let events = NewEvents::of(events)?;
        let by = lease.clone();
        let done = self.write(move |connection| append(connection, &by, after, &events)).await;
        done.map_err(|error| error.during(ThreadAction::Append(&lease.thread)))?
    }

    async fn events(
        &self,
        thread: &ThreadId,
        after: u64,
        most: usize,
    ) -> Result<Vec<StoredEvent>, ThreadError> {
        let events = |most: usize| {
            let id = thread.clone();
            move |connection: &Connection| {
                let mut statement = connection.prepare_cached(sql::EVENTS)?;
                let rows = statement.query_map(params![id.as_str(), signed(after), limit(most)], log_row)?;
                rows.collect::<rusqlite::Result<Vec<_>>>()
            }
        };
        let few = most.min(FEW);
        let mut rows = if after > 0 { self.read_briefly(events(few)).await } else { Ok(Vec::new()) };
        // Who knows the beginning usually reads the few events that are new.
        if rows.as_ref().is_ok_and(|rows| after == 0 || few < most && rows.len() == few) {
            rows = self.read(events(most)).await;
        }
        let rows = rows.map_err(|error| error.during(ThreadAction::Read(thread)))?;
        read(thread, after, most, rows)
    }

    async fn list(&self, most: usize) -> Result<Vec<ThreadInfo>, ThreadError> {
        self.listed(sql::LIST, vec![i64::try_from(most).unwrap_or(i64::MAX)]).await
    }

    async fn fork(&self, from: &ThreadId, through: u64, to: &ThreadId) -> Result<(), ThreadError> {
        let (source, target) = (from.clone(), to.clone());
        let done = self.write(move |connection| {
            let values = params![source.as_str(), target.as_str(), signed(through)];
            if connection.prepare_cached(sql::FORK)?.execute(values)? == 0 {
                let has = state(connection, &source)?.map(|state| state.events);
                return Ok(Err(fork_refusal(&source, through, &target, has)));
            }
            let copied = connection.prepare_cached(sql::COPY_EVENTS)?.execute(values)?;
            Ok(check_fork(&source, through, copied as u64))
        });
        done.await.map_err(|error| error.during(ThreadAction::Fork(from)))?
    }

    async fn delete(&self, thread: &ThreadId) -> Result<(), ThreadError> {
        let id = thread.clone();
        let done = self.write(move |connection| {
            if connection.prepare_cached(sql::DELETE)?.execute([id.as_str()])? > 0 {
                return Ok(Ok(()));
            }
            Ok(leased_by_other(&id, state(connection, &id)?.as_ref()).map_or(Ok(()), Err))
        });
        done.await.map_err(|error| error.during(ThreadAction::Delete(thread)))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn old_threads_are_listed_from_the_oldest() {
        let store = SqliteStore::in_memory().unwrap();
        for name in ["first", "second", "third"] {
            let lease = store.lease(&name.parse().unwrap(), "test", Duration::from_secs(1)).await.unwrap();
            store.release(&lease).await.unwrap();
            // The next thread is created in another microsecond.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let old = store.unchanged_for(Duration::ZERO, 2).await.unwrap();
        assert_eq!(old.iter().map(|info| info.id.as_str()).collect::<Vec<_>>(), ["first", "second"]);
        assert!(store.unchanged_for(Duration::from_secs(3600), 2).await.unwrap().is_empty());
        assert!(store.unchanged_for(Duration::MAX, 2).await.unwrap().is_empty());
    }

    /// How SQLite runs a statement.
    async fn plan(statement: &'static str) -> Vec<String> {
        let store = SqliteStore::in_memory().unwrap();
        let plan = store.read(move |connection| {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}"))?;
            let mut steps = statement.raw_query();
            let mut plan = Vec::new();
            while let Some(step) = steps.next()? {
                plan.push(step.get(3)?);
            }
            Ok(plan)
        });
        plan.await.unwrap()
    }

    #[tokio::test]
    async fn a_list_is_read_from_its_index() {
        assert_eq!(plan(sql::LIST).await, ["SCAN prowess_threads USING INDEX prowess_threads_changed"]);
    }

    #[cfg(feature = "serve")]
    #[tokio::test]
    async fn a_list_of_one_owner_is_read_from_its_index() {
        let index = "SEARCH prowess_owned_threads USING INDEX prowess_owned_threads_changed";
        for list in [sql::serve::LIST, sql::serve::SEARCH] {
            let plan = plan(list).await;
            assert!(plan[0].starts_with(index), "{plan:?}");
            // The state of each listed thread is looked up by its key.
            assert!(
                plan[1..].iter().all(|step| !step.contains("SCAN") && !step.contains("TEMP B-TREE")),
                "{plan:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_claim_needs_no_sorting() {
        let plan = plan(sql::queue::NEXT).await;
        let line = |step: &String| step.contains("USING INDEX prowess_queue_line");
        assert!(plan.iter().any(line), "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
    }
}
