//! Runs statements of code that is for both databases.

use std::sync::Arc;

use rusqlite::types::{FromSqlError, ToSqlOutput, Type, ValueRef};
use rusqlite::{Connection, Error, ToSql, params_from_iter};

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
