//! Runs statements of code that is for both databases.

use std::sync::Arc;
#[cfg(feature = "serve")]
use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::types::Type;

use super::error::database_error;
use super::{PostgresStore, Value, prepared};
use crate::error::DatabaseError;
use crate::rows::{Cell, Done, NoRow, Row, Statement};

impl PostgresStore {
    /// Runs one statement as its own transaction.
    pub(crate) async fn query(&self, statement: Statement) -> Result<Vec<Row>, DatabaseError> {
        self.own_rows(self.rows(statement.sql, &values(&statement)).await?)
    }

    /// Runs a statement that changes nothing, for no longer than this.
    #[cfg(feature = "serve")]
    pub(crate) async fn query_within(
        &self,
        statement: Statement,
        time: Duration,
    ) -> Result<Vec<Row>, DatabaseError> {
        let failed = |error| database_error(&self.0.place, error);
        let mut client = self.client().await?;
        let transaction = self.begin(&mut client).await?;
        let limit = format!("SET LOCAL statement_timeout = {}", time.as_millis().max(1));
        transaction.batch_execute(&limit).await.map_err(failed)?;
        let prepared = prepared!(transaction, statement.sql).map_err(failed)?;
        let rows = transaction.query(&prepared, &values(&statement)).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        self.own_rows(rows)
    }

    /// Runs a transaction.
    pub(crate) async fn transact(&self, mut statements: Vec<Statement>) -> Result<Done, DatabaseError> {
        if statements.len() == 1 {
            let Some(statement) = statements.pop() else { return Ok(Ok(Vec::new())) };
            let is_required = statement.is_required;
            let rows = self.query(statement).await?;
            return Ok(if is_required && rows.is_empty() { Err(NoRow(0)) } else { Ok(vec![rows]) });
        }
        let failed = |error| database_error(&self.0.place, error);
        let mut client = self.client().await?;
        let transaction = self.begin(&mut client).await?;
        let mut done = Vec::with_capacity(statements.len());
        for (number, statement) in statements.iter().enumerate() {
            let prepared = prepared!(transaction, statement.sql).map_err(failed)?;
            let rows = transaction.query(&prepared, &values(statement)).await.map_err(failed)?;
            if statement.is_required && rows.is_empty() {
                transaction.rollback().await.map_err(failed)?;
                return Ok(Err(NoRow(number)));
            }
            done.push(self.own_rows(rows)?);
        }
        transaction.commit().await.map_err(failed)?;
        Ok(Ok(done))
    }

    fn own_rows(&self, rows: Vec<tokio_postgres::Row>) -> Result<Vec<Row>, DatabaseError> {
        let place = &self.0.place;
        let row = |row: tokio_postgres::Row| {
            let cells: Result<Vec<Cell>, Error> = (0..row.len()).map(|column| cell(&row, column)).collect();
            Ok(Row::new(Arc::clone(place), cells.map_err(|error| database_error(place, error))?))
        };
        rows.into_iter().map(row).collect()
    }
}

pub(super) fn values(statement: &Statement) -> Vec<Value<'_>> {
    statement.values.iter().map(value).collect()
}

fn value(cell: &Cell) -> Value<'_> {
    match cell {
        Cell::Number(number) => number,
        Cell::Text(text) => text,
        Cell::Bytes(bytes) => bytes,
    }
}

fn cell(row: &tokio_postgres::Row, column: usize) -> Result<Cell, Error> {
    match *row.columns()[column].type_() {
        Type::TEXT => row.try_get(column).map(Cell::Text),
        Type::BYTEA => row.try_get(column).map(Cell::Bytes),
        // SQLite has no other type for these.
        Type::BOOL => row.try_get::<_, Option<bool>>(column).map(|is| Cell::Number(is.map(i64::from))),
        Type::INT4 => row.try_get::<_, Option<i32>>(column).map(|number| Cell::Number(number.map(i64::from))),
        _ => row.try_get(column).map(Cell::Number),
    }
}
