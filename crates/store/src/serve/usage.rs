//! What each user used.

use prowess_agent::ThreadId;

use super::id;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::event::signed;
#[cfg(feature = "postgres")]
use crate::rows::Cell;
use crate::rows::{Row, Statement};
use crate::sql::serve as sql;

/// What a user used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Since midnight in UTC.
    pub today: UsageSum,
    /// Since the user was added.
    pub total: UsageSum,
}

/// Tokens and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageSum {
    /// How many tokens of models.
    pub tokens: u64,
    /// Their cost in millionths of a dollar.
    pub micro_dollars: u64,
}

pub(super) async fn note_usage(
    database: &Database,
    owner: &str,
    event: Option<(&ThreadId, u64)>,
    sum: UsageSum,
) -> Result<bool, DatabaseError> {
    #[cfg(feature = "postgres")]
    if let (Database::Postgres(_), Some((thread, number))) = (database, event) {
        // One statement is one round trip.
        let values: [Cell; 5] = [
            id(owner),
            signed(sum.tokens).into(),
            signed(sum.micro_dollars).into(),
            signed(number).into(),
            thread.as_str().into(),
        ];
        let note = Statement::required(sql::NOTE_USAGE_OF_EVENT, values);
        return database.transact(vec![note]).await.map(|done| done.is_ok());
    }
    let count = event.map(|(thread, number)| {
        Statement::required(sql::COUNT_EVENT, [thread.as_str().into(), signed(number).into()])
    });
    let values = [id(owner), signed(sum.tokens).into(), signed(sum.micro_dollars).into()];
    let statements = count.into_iter().chain([Statement::new(sql::NOTE_USAGE, values)]);
    database.transact(statements.collect()).await.map(|done| done.is_ok())
}

pub(super) async fn counted(database: &Database, thread: &ThreadId) -> Result<Option<u64>, DatabaseError> {
    let rows = database.query_briefly(Statement::new(sql::COUNTED, [thread.as_str().into()])).await?;
    rows.first().map(|row| row.count(0)).transpose()
}

pub(super) async fn usage(database: &Database, owner: &str) -> Result<Usage, DatabaseError> {
    let rows = database.query_briefly(Statement::new(sql::USAGE, [id(owner)])).await?;
    read_usage(&rows)
}

/// A row of [`sql::USAGE`].
pub(super) fn read_usage(rows: &[Row]) -> Result<Usage, DatabaseError> {
    let Some(row) = rows.first() else { return Ok(Usage::default()) };
    Ok(Usage {
        today: UsageSum { tokens: row.count(0)?, micro_dollars: row.count(1)? },
        total: UsageSum { tokens: row.count(2)?, micro_dollars: row.count(3)? },
    })
}
