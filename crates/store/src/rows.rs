//! Statements, values and rows without the types of a driver, for code that exists once for both databases.

use std::sync::Arc;
#[cfg(feature = "serve")]
use std::time::SystemTime;

use prowess_agent::ThreadId;

use crate::error::DatabaseError;
#[cfg(feature = "serve")]
use crate::event::time;
use crate::event::unsigned;
use crate::list::thread_id;

/// The value of a parameter or a column. `None` is NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Number(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

impl From<Vec<u8>> for Cell {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Some(bytes))
    }
}

impl From<&[u8]> for Cell {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(Some(bytes.to_owned()))
    }
}

/// A row of a result.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    place: Arc<str>,
    cells: Vec<Cell>,
}

impl Row {
    pub(crate) fn new(place: Arc<str>, cells: Vec<Cell>) -> Self {
        Self { place, cells }
    }

    pub(crate) fn number(&self, column: usize) -> Result<i64, DatabaseError> {
        self.maybe_number(column)?.ok_or_else(|| self.wrong(column))
    }

    pub(crate) fn maybe_number(&self, column: usize) -> Result<Option<i64>, DatabaseError> {
        match self.cells.get(column) {
            Some(Cell::Number(number)) => Ok(*number),
            Some(Cell::Text(None) | Cell::Bytes(None)) => Ok(None),
            _ => Err(self.wrong(column)),
        }
    }

    /// A number that is not negative.
    pub(crate) fn count(&self, column: usize) -> Result<u64, DatabaseError> {
        unsigned(&self.place, self.number(column)?)
    }

    #[cfg(feature = "serve")]
    pub(crate) fn maybe_count(&self, column: usize) -> Result<Option<u64>, DatabaseError> {
        self.maybe_number(column)?.map(|number| unsigned(&self.place, number)).transpose()
    }

    pub(crate) fn text(&self, column: usize) -> Result<String, DatabaseError> {
        match self.cells.get(column) {
            Some(Cell::Text(Some(text))) => Ok(text.clone()),
            _ => Err(self.wrong(column)),
        }
    }

    pub(crate) fn thread(&self, column: usize) -> Result<ThreadId, DatabaseError> {
        thread_id(&self.place, &self.text(column)?)
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<Vec<u8>, DatabaseError> {
        match self.cells.get(column) {
            Some(Cell::Bytes(Some(bytes))) => Ok(bytes.clone()),
            _ => Err(self.wrong(column)),
        }
    }

    pub(crate) fn maybe_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, DatabaseError> {
        match self.cells.get(column) {
            Some(Cell::Bytes(bytes)) => Ok(bytes.clone()),
            // SQLite has one NULL for all types.
            Some(Cell::Number(None)) => Ok(None),
            _ => Err(self.wrong(column)),
        }
    }

    #[cfg(feature = "serve")]
    pub(crate) fn maybe_text(&self, column: usize) -> Result<Option<String>, DatabaseError> {
        match self.cells.get(column) {
            // SQLite has one NULL for all types.
            Some(Cell::Number(None)) => Ok(None),
            Some(Cell::Text(text)) => Ok(text.clone()),
            _ => Err(self.wrong(column)),
        }
    }

    /// A text that somebody chose. It is stored as bytes, because a text of PostgreSQL holds no NUL.
    #[cfg(feature = "serve")]
    pub(crate) fn chosen_text(&self, column: usize) -> Result<String, DatabaseError> {
        String::from_utf8(self.bytes(column)?).map_err(|error| self.damaged(error.to_string()))
    }

    #[cfg(feature = "serve")]
    pub(crate) fn time(&self, column: usize) -> Result<SystemTime, DatabaseError> {
        self.number(column).map(time)
    }

    #[cfg(feature = "serve")]
    pub(crate) fn maybe_time(&self, column: usize) -> Result<Option<SystemTime>, DatabaseError> {
        Ok(self.maybe_number(column)?.map(time))
    }

    pub(crate) fn damaged(&self, problem: impl Into<String>) -> DatabaseError {
        DatabaseError::damaged(&self.place, problem)
    }

    fn wrong(&self, column: usize) -> DatabaseError {
        let kind = match self.cells.get(column) {
            None => "missing",
            Some(Cell::Number(None) | Cell::Text(None) | Cell::Bytes(None)) => "NULL",
            Some(Cell::Number(_)) => "a number",
            Some(Cell::Text(_)) => "a text",
            Some(Cell::Bytes(_)) => "bytes",
        };
        self.damaged(format!("column {column} of a row is {kind}"))
    }
}

/// SQL with its values.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) sql: &'static str,
    pub(crate) values: Vec<Cell>,
    pub(crate) is_required: bool,
}

impl Statement {
    pub(crate) fn new(sql: &'static str, values: impl Into<Vec<Cell>>) -> Self {
        Self { sql, values: values.into(), is_required: false }
    }

    /// A statement that must return a row. If it returns none, the transaction ends there and changes nothing.
    pub(crate) fn required(sql: &'static str, values: impl Into<Vec<Cell>>) -> Self {
        Self { is_required: true, ..Self::new(sql, values) }
    }
}

/// The required statement that returned no row, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRow(pub(crate) usize);

/// The rows of each statement of a transaction.
pub(crate) type Done = Result<Vec<Vec<Row>>, NoRow>;

/// The first row of a required statement.
pub(crate) fn first(rows: &[Vec<Row>], statement: usize) -> Result<&Row, DatabaseError> {
    let row = rows.get(statement).and_then(|rows| rows.first());
    row.ok_or_else(|| DatabaseError::failed("the database", "be read", "a required row is missing"))
}
