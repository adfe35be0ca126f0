//! Runs statements of code that is for both databases.

use std::sync::Arc;
#[cfg(feature = "serve")]
use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::error::database_error;
use super::transaction::{Answers, Query, Value};
use crate::error::DatabaseError;
use crate::rows::{Cell, Done, NoRow, Row, Statement};

impl PostgresStore {
    /// Runs one statement as its own transaction.
    pub(crate) async fn query(&self, statement: Statement) -> Result<Vec<Row>, DatabaseError> {
        let rows = self.run(&[query(&statement)]).await?;
        self.own_rows(rows.into_iter().next().unwrap_or_default())
    }

    /// Runs a statement that changes nothing, for no longer than this.
    #[cfg(feature = "serve")]
    pub(crate) async fn query_within(
        &self,
        statement: Statement,
        time: Duration,
    ) -> Result<Vec<Row>, DatabaseError> {
        let time = time.as_millis().max(1).to_string();
        let time = Statement::new(crate::sql::STATEMENT_TIMEOUT, [time.as_str().into()]);
        let mut rows = self.run(&[query(&time), query(&statement)]).await?;
        self.own_rows(rows.pop().unwrap_or_default())
    }

    /// Runs a transaction.
    pub(crate) async fn transact(&self, statements: Vec<Statement>) -> Result<Done, DatabaseError> {
        let queries: Vec<Query<'_>> = statements.iter().map(query).collect();
        // A required statement that stands alone has changed nothing if it returns no row, so its transaction may end.
        if statements.len() <= 1 || statements.iter().all(|statement| !statement.is_required) {
            let rows = self.run(&queries).await?;
            return self.done(&statements, rows.into_iter().map(Ok).collect());
        }
        let (open, answers) = self.begin(&queries).await?;
        let done = self.done(&statements, answers)?;
        match done {
            Ok(_) => drop(open.commit(&[]).await?),
            Err(_) => open.roll_back().await?,
        }
        Ok(done)
    }

    /// The rows of statements, unless a required one has none. What failed after it does not count.
    fn done(&self, statements: &[Statement], answers: Answers) -> Result<Done, DatabaseError> {
        let mut done = Vec::with_capacity(statements.len());
        for (number, (statement, answer)) in statements.iter().zip(answers).enumerate() {
            let rows = answer?;
            if statement.is_required && rows.is_empty() {
                return Ok(Err(NoRow(number)));
            }
            done.push(self.own_rows(rows)?);
        }
        Ok(Ok(done))
    }

    /// The rows of a transaction that began with one statement.
    pub(super) fn rows_of(&self, answers: Answers) -> Result<Vec<Row>, DatabaseError> {
        self.own_rows(answers.into_iter().next().transpose()?.unwrap_or_default())
    }

    pub(super) fn own_rows(&self, rows: Vec<tokio_postgres::Row>) -> Result<Vec<Row>, DatabaseError> {
        let place = &self.0.place;
        let row = |row: tokio_postgres::Row| {
            let cells: Result<Vec<Cell>, Error> = (0..row.len()).map(|column| cell(&row, column)).collect();
            Ok(Row::new(Arc::clone(place), cells.map_err(|error| database_error(place, error))?))
        };
        rows.into_iter().map(row).collect()
    }
}

pub(super) fn query(statement: &Statement) -> Query<'_> {
    Query { sql: statement.sql, values: values(statement) }
}

pub(super) fn values(statement: &Statement) -> Vec<Value<'_>> {
    statement.values.iter().map(value).collect()
}

fn value(cell: &Cell) -> Value<'_> {
    match cell {
        Cell::Number(number) => (number, Type::INT8),
        Cell::Text(text) => (text, Type::TEXT),
        Cell::Bytes(bytes) => (bytes, Type::BYTEA),
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
