//! Runs statements of code that is for both databases.

use std::sync::Arc;
#[cfg(feature = "serve")]
use std::sync::{Mutex, PoisonError};
#[cfg(feature = "serve")]
use std::time::Duration;

use rusqlite::types::{FromSqlError, ToSqlOutput, Type, ValueRef};
use rusqlite::{Connection, Error, ToSql, params_from_iter};
#[cfg(feature = "serve")]
use tokio::runtime::Handle;

use super::SqliteStore;
use super::connection::Flush;
use crate::error::DatabaseError;
use crate::rows::{Cell, Done, NoRow, Row, Statement};

impl SqliteStore {
    /// Runs a statement that changes nothing.
    pub(crate) async fn query(&self, statement: Statement) -> Result<Vec<Row>, DatabaseError> {
        let place = Arc::clone(&self.0.place);
        self.read_briefly(move |connection| rows(connection, &place, &statement)).await
    }

    /// Runs a statement that changes nothing, for no longer than this.
    #[cfg(feature = "serve")]
    pub(crate) async fn query_within(
        &self,
        statement: Statement,
        time: Duration,
    ) -> Result<Vec<Row>, DatabaseError> {
        let (place, runtime) = (Arc::clone(&self.0.place), Handle::current());
        self.read(move |connection| {
            let (handle, is_over) = (connection.get_interrupt_handle(), Arc::new(Mutex::new(false)));
            let seen = Arc::clone(&is_over);
            let watch = runtime.spawn(async move {
                tokio::time::sleep(time).await;
                // An interrupt must not reach the next statement of the connection.
                let is_over = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if !*is_over {
                    handle.interrupt();
                }
            });
            let rows = rows(connection, &place, &statement);
            *is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
            watch.abort();
            rows
        })
        .await
    }

    /// Runs a transaction.
    pub(crate) async fn transact(&self, statements: Vec<Statement>) -> Result<Done, DatabaseError> {
        self.run(Flush::Now, statements).await
    }

    /// Runs a transaction that can be done again after a crash of the machine.
    pub(crate) async fn transact_later(&self, statements: Vec<Statement>) -> Result<Done, DatabaseError> {
        self.run(Flush::Later, statements).await
    }

    async fn run(&self, flush: Flush, statements: Vec<Statement>) -> Result<Done, DatabaseError> {
        let place = Arc::clone(&self.0.place);
        let work = move |connection: &Connection| {
            let mut done = Vec::with_capacity(statements.len());
            for (number, statement) in statements.iter().enumerate() {
                let rows = rows(connection, &place, statement)?;
                if statement.is_required && rows.is_empty() {
                    return Ok(Err(NoRow(number)));
                }
                done.push(rows);
            }
            Ok(Ok(done))
        };
        self.0.writer.write(flush, work).await
    }
}

fn rows(connection: &Connection, place: &Arc<str>, statement: &Statement) -> rusqlite::Result<Vec<Row>> {
    let mut prepared = connection.prepare_cached(statement.sql)?;
    let columns = prepared.column_count();
    let mut found = prepared.query(params_from_iter(&statement.values))?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let cells = (0..columns).map(|column| cell(column, row.get_ref(column)?));
        rows.push(Row::new(Arc::clone(place), cells.collect::<rusqlite::Result<_>>()?));
    }
    Ok(rows)
}

fn cell(column: usize, value: ValueRef<'_>) -> rusqlite::Result<Cell> {
    match value {
        ValueRef::Null => Ok(Cell::Number(None)),
        ValueRef::Integer(number) => Ok(Cell::Number(Some(number))),
        ValueRef::Text(_) => Ok(Cell::Text(value.as_str().map(|text| Some(text.to_owned()))?)),
        ValueRef::Blob(bytes) => Ok(Cell::Bytes(Some(bytes.to_owned()))),
        ValueRef::Real(_) => {
            Err(Error::FromSqlConversionFailure(column, Type::Real, Box::new(FromSqlError::InvalidType)))
        }
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Number(number) => number.to_sql(),
            Self::Text(text) => text.to_sql(),
            Self::Bytes(bytes) => bytes.to_sql(),
        }
    }
}

#[cfg(all(test, feature = "serve"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_statement_that_takes_too_long_is_interrupted() {
        let place = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(place.path().join("a.db")).await.unwrap();
        let endless =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n";
        for _ in 0..6 {
            let broken = store.query_within(Statement::new(endless, []), Duration::from_millis(1)).await;
            assert!(matches!(broken, Err(DatabaseError::TimedOut { .. })), "{broken:?}");
        }
        let short = Statement::new("SELECT prowess_has(?1, ?2)", ["high at one".into(), "at o".into()]);
        let rows = store.query_within(short, Duration::from_secs(60)).await.unwrap();
        assert_eq!(rows[0].number(0).unwrap(), 1);
    }
}
