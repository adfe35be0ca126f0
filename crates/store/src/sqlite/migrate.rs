//! Brings a SQLite database to the newest version of the tables.

use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};

use super::SqliteStore;
use super::connection::{database_error, number};
use crate::error::DatabaseError;
use crate::migrations::{self, KNOWN, SqlDialect};

/// Runs the missing migrations, each in its own transaction.
pub(super) fn migrate(connection: &mut Connection, place: &str) -> Result<(), DatabaseError> {
    let failed = |error| database_error(place, error);
    let found = number(connection, "user_version").map_err(failed)?;
    for (version, _) in migrations::missing(place, SqlDialect::Sqlite, found)? {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        // Another process may have migrated meanwhile.
        let found = number(&transaction, "user_version").map_err(failed)?;
        let mut steps = migrations::missing(place, SqlDialect::Sqlite, found)?;
        if let Some((_, text)) = steps.find(|(step, _)| *step == version) {
            transaction.execute_batch(&text).map_err(failed)?;
            transaction.pragma_update(None, "user_version", version).map_err(failed)?;
            transaction.commit().map_err(failed)?;
        }
    }
    Ok(())
}

impl SqliteStore {
    /// Checks that no newer program has changed the tables.
    pub(crate) async fn check_tables(&self) -> Result<(), DatabaseError> {
        let place = Arc::clone(&self.0.place);
        let found = self.read(|connection| number(connection, "user_version")).await?;
        if found > KNOWN as i64 { Err(migrations::newer(&place, found)) } else { Ok(()) }
    }
}
