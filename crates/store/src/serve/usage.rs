//! What each user used.

use super::id;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::event::signed;
use crate::rows::Statement;
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
#[non_exhaustive]
pub struct UsageSum {
    /// How many tokens of models.
    pub tokens: u64,
    /// Their cost in millionths of a dollar.
    pub micro_dollars: u64,
}

pub(super) async fn note_usage(
    database: &Database,
    owner: &str,
    tokens: u64,
    micro_dollars: u64,
) -> Result<(), DatabaseError> {
    let values = [id(owner), signed(tokens).into(), signed(micro_dollars).into()];
    database.transact_later(vec![Statement::new(sql::NOTE_USAGE, values)]).await.map(drop)
}

pub(super) async fn usage(database: &Database, owner: &str) -> Result<Usage, DatabaseError> {
    let rows = database.query(Statement::new(sql::USAGE, [id(owner)])).await?;
    let Some(row) = rows.first() else { return Ok(Usage::default()) };
    Ok(Usage {
        today: UsageSum { tokens: row.count(0)?, micro_dollars: row.count(1)? },
        total: UsageSum { tokens: row.count(2)?, micro_dollars: row.count(3)? },
    })
}
